//! Groups with so few planes of the result that panels of patches would not pay: each is a sum of shifted planes.

use super::copy::Columns;
use super::product::put;
use super::tile::{Lanes, ROWS, columns};
use crate::host::{GRAIN, Shared, parallel, rows_per_task};

/// What planes of the result are made of.
pub struct Bands<'a, T> {
    pub columns: &'a Columns,
    pub offsets: &'a [usize],
    pub packed: &'a [T],
    pub group: usize,
    pub groups: usize,
    pub inner: usize,
    pub outer: usize,
    pub plane: usize,
    pub result: usize,
}

/// Makes them all.
pub fn planes<T: Lanes>(b: &Bands<'_, T>, all: &[T], to: Shared) {
    let c = b.columns;
    let count = c.images * b.groups * b.outer;
    let [depth, height, width] = c.places;
    let [extent, size] = c.extent;
    let wide = columns::<T>();
    let terms = b.offsets.len();
    // How far behind its first element a sum reads.
    let reach = b.offsets.iter().max().copied().unwrap_or(0);
    let work = depth * height * width * terms;
    parallel(count, rows_per_task(work, GRAIN * 4), &|range| {
        let mut weights = vec![T::ZERO; terms];
        let mut sums = vec![T::ZERO; wide];
        // Where a whole row of a tile would reach past the copy.
        let mut tail: Vec<T> = Vec::new();
        for p in range {
            let (row, rest) = (p % b.outer, p / b.outer);
            let (group, image) = (rest % b.groups, rest / b.groups);
            let packed = &b.packed[group * b.group + row..];
            weights
                .iter_mut()
                .zip(packed.iter().step_by(ROWS))
                .for_each(|(a, &w)| *a = w);
            let base = image * c.image[1] + (group * b.outer + row) * b.result;
            for z in 0..depth {
                let from =
                    image * c.image[0] + group * b.inner * b.plane + z * extent[1] * extent[2];
                let base = base + (c.first[0] + z * c.stride[0]) * size[1] * size[2];
                // Rows of the copy are read through, one after the other; what lies between two rows is left out.
                let through = (height - 1) * extent[2] + width;
                for at in (0..through).step_by(wide) {
                    let lanes = wide.min(through - at);
                    if from + at + reach + wide <= all.len() {
                        // SAFETY: just compared.
                        unsafe {
                            T::row(
                                &weights,
                                all.as_ptr().add(from + at),
                                b.offsets,
                                sums.as_mut_ptr(),
                            )
                        };
                    } else {
                        tail.clear();
                        tail.extend_from_slice(&all[from + at..]);
                        tail.resize(reach + wide, T::ZERO);
                        // SAFETY: as long as that.
                        unsafe { T::row(&weights, tail.as_ptr(), b.offsets, sums.as_mut_ptr()) };
                    }
                    let mut lane = 0;
                    while lane < lanes {
                        let (y, x) = ((at + lane) / extent[2], (at + lane) % extent[2]);
                        let n = (lanes - lane).min(extent[2] - x);
                        let inside = n.min(width.saturating_sub(x));
                        let place = base
                            + (c.first[1] + y * c.stride[1]) * size[2]
                            + c.first[2]
                            + x * c.stride[2];
                        if inside > 0 {
                            // SAFETY: a plane of the result belongs to one task.
                            unsafe {
                                put(
                                    &sums[lane..lane + inside],
                                    to.at::<T>(place),
                                    c.stride[2],
                                    false,
                                )
                            };
                        }
                        lane += n;
                    }
                }
            }
        }
    });
}
