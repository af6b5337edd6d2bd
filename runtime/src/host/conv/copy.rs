//! The operand that a convolution walks over, and which of its elements make the columns of the product.

use super::axis::{Axis, Sweep};
use crate::host::num::Real;
use crate::host::{GRAIN, Out, parallel, rows_per_task};

/// Planes to walk over.
pub struct Copy<'a, T> {
    /// None where the operand serves as it is.
    own: Option<Out>,
    operand: &'a [T],
    len: usize,
    pub extent: [usize; 3],
}

impl<'a, T: Real> Copy<'a, T> {
    pub fn new(operand: &'a [T], planes: usize, axes: &[Axis; 3]) -> Self {
        let extent = [0, 1, 2].map(|k| axes[k].extent());
        let plane: usize = extent.iter().product();
        let mut copy = Copy {
            own: None,
            operand,
            len: planes * plane,
            extent,
        };
        if axes.iter().all(Axis::as_is) {
            return copy;
        }
        let mut out = Out::new(copy.len, size_of::<T>());
        let to = out.shared();
        let (deep, high) = (axes[0].sources(), axes[1].sources());
        let (parts, step, len) = (axes[2].parts(), axes[2].step, axes[2].len);
        let size = [0, 1, 2].map(|k| axes[k].size);
        parallel(planes, rows_per_task(plane, GRAIN), &|range| {
            for p in range {
                let from =
                    &operand[p * size[0] * size[1] * size[2]..][..size[0] * size[1] * size[2]];
                // SAFETY: a plane of the copy belongs to one task; every element of it is written below.
                let into = unsafe { std::slice::from_raw_parts_mut(to.at::<T>(p * plane), plane) };
                let mut rows = into.chunks_exact_mut(extent[2].max(1));
                for z in &deep {
                    for y in &high {
                        let Some(row) = rows.next() else { return };
                        let (Some(z), Some(y)) = (z, y) else {
                            row.fill(T::ZERO);
                            continue;
                        };
                        let line = &from[(z * size[1] + y) * size[2]..][..size[2]];
                        for (part, row) in parts.iter().zip(row.chunks_exact_mut(len)) {
                            row[..part.first].fill(T::ZERO);
                            row[part.end..].fill(T::ZERO);
                            let row = &mut row[part.first..part.end];
                            if row.is_empty() {
                                continue;
                            }
                            if step == 1 {
                                row.copy_from_slice(&line[part.from..][..row.len()]);
                            } else {
                                let line = line[part.from..].iter().step_by(step);
                                row.iter_mut().zip(line).for_each(|(a, b)| *a = *b);
                            }
                        }
                    }
                }
            }
        });
        copy.own = Some(out);
        copy
    }

    pub fn plane(&self) -> usize {
        self.extent.iter().product()
    }

    /// All planes.
    pub fn all(&mut self) -> &[T] {
        match &mut self.own {
            None => self.operand,
            // SAFETY: `new` has written all of it.
            Some(out) => unsafe { std::slice::from_raw_parts(out.ptr().cast(), self.len) },
        }
    }
}

/// Columns that lie beside each other: `len` of them from `lane` of their block on, elements of the copy from `from` on,
/// of the result from `to` on.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub lane: usize,
    pub len: usize,
    pub from: usize,
    pub to: usize,
}

/// The columns of a product: the places of all images, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub images: usize,
    pub places: [usize; 3],
    /// From an image to the next, in the copy and in the result.
    pub image: [usize; 2],
    /// Sizes of the copy and of the result.
    pub extent: [[usize; 3]; 2],
    pub first: [usize; 3],
    pub stride: [usize; 3],
}

impl Columns {
    pub fn new(
        sweeps: [&Sweep; 3],
        images: usize,
        extent: [[usize; 3]; 2],
        image: [usize; 2],
    ) -> Self {
        Columns {
            images,
            places: sweeps.map(|s| s.places),
            image,
            extent,
            first: sweeps.map(|s| s.first),
            stride: sweeps.map(|s| s.stride),
        }
    }

    pub fn count(&self) -> usize {
        self.images * self.places.iter().product::<usize>()
    }

    /// The runs of columns `range`.
    pub fn runs(&self, range: std::ops::Range<usize>, runs: &mut Vec<Run>) {
        runs.clear();
        let [depth, height, width] = self.places;
        let [copy, result] = self.extent;
        let mut at = range.start;
        while at < range.end {
            let (x, rest) = (at % width, at / width);
            let (y, rest) = (rest % height, rest / height);
            let (z, image) = (rest % depth, rest / depth);
            let len = (width - x).min(range.end - at);
            let [dz, dy, dx] = [z, y, x];
            let to = [0, 1, 2].map(|k| self.first[k] + [dz, dy, dx][k] * self.stride[k]);
            let run = Run {
                lane: at - range.start,
                len,
                from: image * self.image[0] + (z * copy[1] + y) * copy[2] + x,
                to: image * self.image[1] + (to[0] * result[1] + to[1]) * result[2] + to[2],
            };
            at += len;
            match runs.last_mut() {
                Some(last)
                    if last.from + last.len == run.from
                        && last.to + last.len * self.stride[2] == run.to =>
                {
                    last.len += len;
                }
                _ => runs.push(run),
            }
        }
    }
}

/// Elements moved at once, however short a run.
const CHUNK: usize = 8;

/// For each of `offsets` one row: the elements of `runs` that far on in `all`, beside each other. Rows are `pitch` apart
/// in `out`, and may spill into the next ones, which are written later.
///
/// # Safety
/// Runs shifted by any of `offsets` lie within `all`. `out` has room for the rows and `CHUNK` elements more.
pub unsafe fn gather<T: Real>(
    all: &[T],
    offsets: impl Iterator<Item = usize>,
    runs: &[Run],
    out: *mut T,
    pitch: usize,
) {
    // SAFETY: the caller vouches for the runs; a whole chunk is read only where it is within `all`, and written only
    // where a later row or the slack begins.
    unsafe {
        for (row, offset) in offsets.enumerate() {
            let row = out.add(row * pitch);
            for run in runs {
                let from = run.from + offset;
                let (src, dst) = (all.as_ptr().add(from), row.add(run.lane));
                // Short runs are copied in chunks, which is no call.
                if run.len <= 2 * CHUNK && from + 2 * CHUNK <= all.len() {
                    std::ptr::copy_nonoverlapping(src, dst, CHUNK);
                    if run.len > CHUNK {
                        std::ptr::copy_nonoverlapping(src.add(CHUNK), dst.add(CHUNK), CHUNK);
                    }
                } else {
                    std::ptr::copy_nonoverlapping(src, dst, run.len);
                }
            }
        }
    }
}

/// Room for `n` elements, each of which is some number.
pub fn room<T: Real>(n: usize) -> Vec<T> {
    vec![T::ZERO; n]
}
