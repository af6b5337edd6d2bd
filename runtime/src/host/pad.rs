//! `pad` and `iota`.

use burn_std::Bytes;

use super::cast::{convert, dense_view};
use super::copy::copy;
use super::num::Num;
use super::stage::ring;
use super::{FINE_GRAIN, GRAIN, HostView, Out, dense_strides, parallel};
use crate::dtype::DType;
use crate::error::Result;

/// `x` inside an array of `shape` full of `fill`, with `interior` elements between each two.
pub fn pad(
    x: &HostView<'_>,
    fill: &HostView<'_>,
    low: &[usize],
    interior: &[i64],
    shape: &[usize],
) -> Bytes {
    let itemsize = x.dtype.itemsize();
    let total = shape.iter().product();
    let mut out = Out::new(total, itemsize);
    with_bits!(itemsize, T => {
        // SAFETY: `fill` has one element, and a view of a value is aligned.
        let value = unsafe { *fill.ptr.cast::<T>() };
        let to = out.shared();
        parallel(total, GRAIN, &|range| {
            for i in range {
                // SAFETY: within the result; tasks have disjoint ranges.
                unsafe { *to.at::<T>(i) = value };
            }
        });
    });
    let strides = dense_strides(shape);
    let mut start = 0;
    let mut steps = strides.clone();
    for axis in 0..shape.len() {
        start += low[axis] as isize * strides[axis];
        steps[axis] *= 1 + interior[axis] as isize;
    }
    if x.elements() > 0 {
        // SAFETY: low + n + interior * (n - 1) + high is the size of the result along each axis.
        unsafe {
            let to = out.ptr().offset(start * itemsize as isize);
            copy(x.shape, x.ptr, x.strides, to, &steps, itemsize);
        }
    }
    // SAFETY: filled above.
    unsafe { out.finish() }
}

/// The index along `axis`.
pub fn iota(shape: &[usize], axis: usize, dtype: DType) -> Result<Bytes> {
    let total: usize = shape.iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let n = shape[axis].max(1);
    let calc = ring(dtype);
    if calc.itemsize() != dtype.itemsize() {
        let bytes = iota(shape, axis, DType::I64)?;
        return convert(&dense_view(&bytes, &[total], &[1], DType::I64), dtype);
    }
    let mut out = Out::new(total, dtype.itemsize());
    let to = out.shared();
    with_ring!("iota", calc, T => parallel(total, FINE_GRAIN, &|range| {
        for i in range {
            // SAFETY: within the result; tasks have disjoint ranges.
            unsafe { *to.at::<T>(i) = T::from_index((i / inner % n) as u64) };
        }
    }));
    // SAFETY: filled above.
    Ok(unsafe { out.finish() })
}
