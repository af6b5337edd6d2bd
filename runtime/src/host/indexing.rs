//! Gather and scatter along one axis, and dynamic slices.

use burn_std::Bytes;

use super::nest;
use super::num::{Elem, Num};
use super::stage::{convert, home, ring};
use super::{FINE_GRAIN, GRAIN, HostView, Out, Shared, cast, parallel, rows_per_task};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// What a scatter does where it lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    Add,
    Set,
    Mul,
    Max,
    Min,
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
    let n = view.elements();
    let mut values = vec![0i64; n];
    let (to, itemsize) = (values.as_mut_ptr().cast(), view.dtype.itemsize());
    let kernel = cast::kernel(view.dtype, DType::I64)?;
    // SAFETY: there is room for each element.
    unsafe { nest::run(kernel, view.shape, [*view], [itemsize], to, 8) };
    if view.dtype == DType::U64 {
        for value in values.iter_mut().filter(|v| **v < 0) {
            *value = i64::MAX;
        }
    }
    Ok(values)
}

/// NaN, 0 or false: the bits that a gather gives for an index out of range.
fn missing_bits(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => half::f16::NAN.to_bits() as u64,
        DType::BF16 => half::bf16::NAN.to_bits() as u64,
        DType::F32 => f32::NAN.to_bits() as u64,
        DType::F64 => f64::NAN.to_bits(),
        _ => 0,
    }
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
    let missing = missing_bits(missing);
    with_bits!(itemsize, T => parallel(g.rows(), rows_per_task(g.post, GRAIN), &|range| {
        for row in range {
            let slab = row / g.k;
            let index = rows[slab / g.pre * g.k + row % g.k];
            // SAFETY: resolved indices are below `n`; every row of the result belongs to one task.
            unsafe {
                let to = to.at::<T>(row * g.post);
                if index == NOWHERE {
                    (0..g.post).for_each(|j| *to.add(j) = missing as T);
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

/// Joins dense `updates` at dense `indices` in the dense memory `dst`.
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
    let dtype = updates.dtype;
    let calc = match op {
        Update::Set => dtype,
        Update::Add | Update::Mul => ring(dtype),
        Update::Max | Update::Min => home(dtype),
    };
    if calc.itemsize() == dtype.itemsize() {
        // SAFETY: passed on to the caller.
        return unsafe { join(op, calc, dst, updates.ptr, &rows, g) };
    }
    // Small floats are computed in `f32`, so that a place hit often is rounded once.
    let total = g.batch * g.pre * g.n * g.post;
    let old = HostView {
        ptr: dst,
        shape: &[total],
        strides: &[1],
        dtype,
    };
    let (mut news, from) = (convert(&old, calc)?, convert(updates, calc)?);
    // SAFETY: the same sizes, in memory of our own.
    unsafe { join(op, calc, news.as_mut_ptr(), from.as_ptr(), &rows, g)? };
    let news = HostView {
        ptr: news.as_ptr(),
        dtype: calc,
        ..old
    };
    let kernel = cast::kernel(calc, dtype)?;
    // SAFETY: the caller vouches for `total` elements.
    unsafe {
        nest::run(
            kernel,
            &[total],
            [news],
            [calc.itemsize()],
            dst,
            dtype.itemsize(),
        )
    };
    Ok(())
}

/// Joins updates to `dst`, both of `dtype`.
///
/// # Safety
/// As for [`scatter`].
unsafe fn join(
    op: Update,
    dtype: DType,
    dst: *mut u8,
    updates: *const u8,
    rows: &[usize],
    g: Geometry,
) -> Result<()> {
    let (dst, src) = (Shared(dst), Shared(updates.cast_mut()));
    // SAFETY: passed on to the caller.
    unsafe {
        match op {
            Update::Set => with_bits!(dtype.itemsize(), T => {
                each_row::<T>(dst, src, rows, g, |_, update| update)
            }),
            Update::Add => with_ring!("scatter_add", dtype, T => {
                each_row::<T>(dst, src, rows, g, |old, update| old.add(update))
            }),
            Update::Mul => with_ring!("scatter_mul", dtype, T => {
                each_row::<T>(dst, src, rows, g, |old, update| old.mul(update))
            }),
            Update::Max => with_home!("scatter_max", dtype, T => {
                each_row::<T>(dst, src, rows, g, |old, update| old.larger(update))
            }),
            Update::Min => with_home!("scatter_min", dtype, T => {
                each_row::<T>(dst, src, rows, g, |old, update| old.smaller(update))
            }),
        }
    }
    Ok(())
}

/// Joins every row of updates to its place, in order; columns are independent, so tasks may split them.
///
/// # Safety
/// As for [`scatter`], with elements `T`.
unsafe fn each_row<T: Copy>(
    dst: Shared,
    src: Shared,
    rows: &[usize],
    g: Geometry,
    join: impl Fn(T, T) -> T + Sync,
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
                        let to = dst.at::<T>((slab * g.n + index) * g.post);
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
