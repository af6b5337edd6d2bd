//! Gather and scatter along one axis, and dynamic slices.

use burn_std::Bytes;

use super::num::{Elem, Int, Num};
use super::{FINE_GRAIN, GRAIN, HostView, Out, Shared, parallel, rows_per_task};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// What a scatter does where it lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    Add,
    Set,
}

/// Sizes of a gather or scatter: operand `[batch, pre, n, post]`, indices `[batch, k]`, rows `[batch, pre, k, post]`.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    batch: usize,
    pre: usize,
    n: usize,
    post: usize,
    k: usize,
}

impl Geometry {
    /// From the storage shapes of operand and indices.
    pub fn new(x: &[usize], indices: &[usize], axis: usize, batch_dims: usize) -> Self {
        Geometry {
            batch: x[..batch_dims].iter().product(),
            pre: x[batch_dims..axis].iter().product(),
            n: x[axis],
            post: x[axis + 1..].iter().product(),
            k: indices[batch_dims..].iter().product(),
        }
    }

    fn rows(&self) -> usize {
        self.batch * self.pre * self.k
    }
}

/// The values of a dense view of integers; those above `i64` saturate.
pub fn read_integers(view: &HostView<'_>) -> Result<Vec<i64>> {
    Ok(with_int!("indexing", view.dtype, T => {
        // SAFETY: the view is dense and a value's elements are aligned.
        (0..view.elements()).map(|i| unsafe { *view.ptr.cast::<T>().add(i) }.index()).collect()
    }))
}

/// Marks an index whose row is left out.
const NOWHERE: usize = usize::MAX;

/// The row of each index under `mode`, or [`NOWHERE`].
fn resolve(indices: &HostView<'_>, g: &Geometry, mode: &str) -> Result<Vec<usize>> {
    if g.rows() * g.post == 0 {
        return Ok(vec![NOWHERE; g.batch * g.k]);
    }
    let clip = match mode {
        "clip" => true,
        "fill" | "error" => false,
        _ => return Err(Error::invalid_program(format!("there is no mode {mode:?}"))),
    };
    if clip && g.n == 0 {
        return Err(
            Error::runtime("an axis of size 0 has no index to clip to").with_code("empty-axis")
        );
    }
    let values = read_integers(indices)?;
    let mut rows = Vec::with_capacity(values.len());
    for (place, &index) in values.iter().enumerate() {
        rows.push(if clip {
            index.clamp(0, g.n as i64 - 1) as usize
        } else if (0..g.n as i64).contains(&index) {
            index as usize
        } else if mode == "fill" {
            NOWHERE
        } else {
            return Err(out_of_range(index, g.n, place, indices.shape));
        });
    }
    Ok(rows)
}

fn out_of_range(index: i64, size: usize, place: usize, shape: &[usize]) -> Error {
    let mut position = vec![0; shape.len()];
    let mut rest = place;
    for (p, &n) in position.iter_mut().zip(shape).rev() {
        *p = rest % n;
        rest /= n;
    }
    Error::runtime(format!(
        "index {index} at position {position:?} is out of range for an axis of size {size}"
    ))
    .with_code("index-out-of-range")
    .with("index", index)
    .with("size", size)
    .with("position", position)
}

/// Rows of dense `x` at dense `indices`.
pub fn gather(
    x: &HostView<'_>,
    indices: &HostView<'_>,
    g: Geometry,
    mode: &str,
    missing: DType,
) -> Result<Bytes> {
    let rows = resolve(indices, &g, mode)?;
    let itemsize = x.dtype.itemsize();
    let mut out = Out::new(g.rows() * g.post, itemsize);
    let (src, to) = (Shared(x.ptr.cast_mut()), out.shared());
    // A key counts as the integers that it is made of.
    let missing = if missing == DType::Key {
        DType::U32
    } else {
        missing
    };
    with_all!("gather", missing, T => parallel(g.rows(), rows_per_task(g.post, GRAIN), &|range| {
        for row in range {
            let slab = row / g.k;
            let index = rows[slab / g.pre * g.k + row % g.k];
            // SAFETY: resolved indices are below `n`; every row of the result belongs to one task.
            unsafe {
                let to = to.at::<T>(row * g.post);
                if index == NOWHERE {
                    (0..g.post).for_each(|j| *to.add(j) = T::MISSING);
                } else {
                    let from = src.at::<T>((slab * g.n + index) * g.post);
                    std::ptr::copy_nonoverlapping(from, to, g.post);
                }
            }
        }
    }));
    // SAFETY: every row has been written.
    Ok(unsafe { out.finish() })
}

/// Adds or sets dense `updates` at dense `indices` in the dense memory `dst`.
///
/// # Safety
/// `dst` holds `batch * pre * n * post` elements of the dtype of `updates`, and nobody else uses it.
pub unsafe fn scatter(
    op: Update,
    dst: *mut u8,
    indices: &HostView<'_>,
    updates: &HostView<'_>,
    g: Geometry,
    mode: &str,
) -> Result<()> {
    let rows = resolve(indices, &g, mode)?;
    let (dst, src) = (Shared(dst), Shared(updates.ptr.cast_mut()));
    match op {
        Update::Set => with_bits!(updates.dtype.itemsize(), T => {
            // SAFETY: passed on to the caller.
            unsafe { each_row::<T, T>(dst, src, &rows, g, |_, update| update) }
        }),
        Update::Add => with_num!("scatter_add", updates.dtype, T => {
            if size_of::<T>() == size_of::<<T as Num>::Acc>() {
                // SAFETY: passed on to the caller.
                unsafe { each_row::<T, T>(dst, src, &rows, g, |old, update| old.add(update)) }
            } else {
                // SAFETY: passed on to the caller.
                unsafe { add_rounded_once::<T>(dst, src, &rows, g) }
            }
        }),
    }
    Ok(())
}

/// Small floats are added up in their accumulator, so that a place hit often is rounded once.
///
/// # Safety
/// As for [`scatter`].
unsafe fn add_rounded_once<T: Num>(dst: Shared, src: Shared, rows: &[usize], g: Geometry) {
    let total = g.batch * g.pre * g.n * g.post;
    // SAFETY: the caller vouches for `total` elements.
    unsafe {
        let mut sums: Vec<T::Acc> = (0..total).map(|i| (*dst.at::<T>(i)).acc()).collect();
        let into = Shared(sums.as_mut_ptr().cast());
        each_row::<T::Acc, T>(into, src, rows, g, |old, update| old.add(update.acc()));
        for (i, sum) in sums.into_iter().enumerate() {
            *dst.at::<T>(i) = T::from_acc(sum);
        }
    }
}

/// Joins every row of updates to its place, in order; columns are independent, so tasks may split them.
///
/// # Safety
/// As for [`scatter`], with destination elements `D` and updates `T`.
unsafe fn each_row<D: Copy, T: Copy>(
    dst: Shared,
    src: Shared,
    rows: &[usize],
    g: Geometry,
    join: impl Fn(D, T) -> D + Sync,
) {
    if g.rows() * g.post == 0 {
        return;
    }
    let width = g.post.min(1024);
    let blocks = g.post.div_ceil(width);
    let slabs = g.batch * g.pre;
    parallel(
        slabs * blocks,
        rows_per_task(g.k * width, FINE_GRAIN),
        &|range| {
            for task in range {
                let (slab, block) = (task / blocks, task % blocks);
                let columns = block * width..((block + 1) * width).min(g.post);
                for i in 0..g.k {
                    let index = rows[slab / g.pre * g.k + i];
                    if index == NOWHERE {
                        continue;
                    }
                    // SAFETY: resolved indices are below `n`; tasks write disjoint slabs or columns.
                    unsafe {
                        let to = dst.at::<D>((slab * g.n + index) * g.post);
                        let from = src.at::<T>((slab * g.k + i) * g.post);
                        for j in columns.clone() {
                            *to.add(j) = join(*to.add(j), *from.add(j));
                        }
                    }
                }
            }
        },
    );
}

/// Where a dynamic slice of `sizes` starts, clamped so that it fits.
pub fn clamped_starts(
    starts: &HostView<'_>,
    shape: &[usize],
    sizes: &[usize],
) -> Result<Vec<usize>> {
    let starts = read_integers(starts)?;
    let room = shape.iter().zip(sizes).map(|(n, s)| n.saturating_sub(*s));
    Ok(starts
        .iter()
        .zip(room)
        .map(|(&start, room)| start.clamp(0, room as i64) as usize)
        .collect())
}
