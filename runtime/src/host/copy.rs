//! Copies between strided arrays.

use burn_std::Bytes;

use super::{GRAIN, HostView, Out, Shared, dense_strides, parallel};
use crate::value::MAX_RANK;

/// Axes that source and destination walk alike, merged; strides in elements.
struct Plan {
    rank: usize,
    dims: [usize; MAX_RANK + 1],
    from: [isize; MAX_RANK + 1],
    to: [isize; MAX_RANK + 1],
}

impl Plan {
    fn new(shape: &[usize], from: &[isize], to: &[isize]) -> Self {
        let mut plan = Plan {
            rank: 0,
            dims: [1; MAX_RANK + 1],
            from: [0; MAX_RANK + 1],
            to: [0; MAX_RANK + 1],
        };
        for axis in 0..shape.len() {
            let (n, f, t) = (shape[axis], from[axis], to[axis]);
            if n == 1 {
                continue;
            }
            let last = plan.rank.wrapping_sub(1);
            if plan.rank > 0 && plan.from[last] == f * n as isize && plan.to[last] == t * n as isize
            {
                plan.dims[last] *= n;
                plan.from[last] = f;
                plan.to[last] = t;
            } else {
                plan.dims[plan.rank] = n;
                plan.from[plan.rank] = f;
                plan.to[plan.rank] = t;
                plan.rank += 1;
            }
        }
        plan.rank = plan.rank.max(1);
        plan
    }
}

/// Copies an array of `shape` elements; strides in elements.
///
/// # Safety
/// All elements of source and destination at these strides are valid, the two do not overlap, and no two elements of
/// the destination are the same.
pub unsafe fn copy(
    shape: &[usize],
    src: *const u8,
    src_strides: &[isize],
    dst: *mut u8,
    dst_strides: &[isize],
    itemsize: usize,
) {
    let total: usize = shape.iter().product();
    if total == 0 {
        return;
    }
    let plan = Plan::new(shape, src_strides, dst_strides);
    let (src, dst) = (Shared(src.cast_mut()), Shared(dst));
    with_bits!(itemsize, T => parallel(total, GRAIN, &|range| {
        // SAFETY: passed on to the caller; tasks have disjoint ranges.
        unsafe { part::<T>(&plan, src, dst, range) }
    }));
}

/// # Safety
/// As for [`copy`], with `range` within its elements.
unsafe fn part<T: Copy>(plan: &Plan, src: Shared, dst: Shared, range: std::ops::Range<usize>) {
    let inner = plan.rank - 1;
    let mut at = [0usize; MAX_RANK + 1];
    let mut rest = range.start;
    for axis in (0..plan.rank).rev() {
        at[axis] = rest % plan.dims[axis];
        rest /= plan.dims[axis];
    }
    let mut done = range.start;
    let (f, t) = (plan.from[inner], plan.to[inner]);
    while done < range.end {
        let n = (plan.dims[inner] - at[inner]).min(range.end - done);
        let (mut from, mut to) = (0isize, 0isize);
        for (axis, &i) in at.iter().enumerate().take(plan.rank) {
            from += i as isize * plan.from[axis];
            to += i as isize * plan.to[axis];
        }
        // SAFETY: the elements are within both arrays, and the arrays are apart.
        unsafe {
            let from = src.0.cast::<T>().cast_const().offset(from);
            let to = dst.0.cast::<T>().offset(to);
            // Unaligned, because borrowed memory may be.
            if f == 1 && t == 1 {
                std::ptr::copy_nonoverlapping(
                    from.cast::<u8>(),
                    to.cast::<u8>(),
                    n * size_of::<T>(),
                );
            } else {
                for i in 0..n as isize {
                    to.offset(i * t)
                        .write_unaligned(from.offset(i * f).read_unaligned());
                }
            }
        }
        done += n;
        at[inner] += n;
        let mut axis = inner;
        while at[axis] == plan.dims[axis] && axis > 0 {
            at[axis] = 0;
            axis -= 1;
            at[axis] += 1;
        }
    }
}

/// The dense bytes of an array whose strides are in bytes and need not be multiples of the item size.
///
/// # Safety
/// All elements are readable.
pub unsafe fn gather_bytes(
    ptr: *const u8,
    shape: &[usize],
    byte_strides: &[isize],
    itemsize: usize,
) -> Bytes {
    let total: usize = shape.iter().product();
    let mut out = Out::new(total, itemsize);
    let item = itemsize as isize;
    if byte_strides.iter().all(|s| s % item == 0) {
        let strides: Vec<isize> = byte_strides.iter().map(|s| s / item).collect();
        // SAFETY: the caller vouches for the source; the destination is new.
        unsafe {
            copy(
                shape,
                ptr,
                &strides,
                out.ptr(),
                &dense_strides(shape),
                itemsize,
            )
        };
    } else {
        let mut wide = shape.to_vec();
        wide.push(itemsize);
        let mut strides = byte_strides.to_vec();
        strides.push(1);
        // SAFETY: the same elements, byte by byte.
        unsafe { copy(&wide, ptr, &strides, out.ptr(), &dense_strides(&wide), 1) };
    }
    // SAFETY: the copy has written every element.
    unsafe { out.finish() }
}

/// The parts one after another along `axis`.
pub fn concatenate(parts: &[HostView<'_>], axis: usize, shape: &[usize]) -> Bytes {
    let itemsize = parts[0].dtype.itemsize();
    let mut out = Out::new(shape.iter().product(), itemsize);
    let strides = dense_strides(shape);
    let mut at = 0;
    for part in parts {
        // SAFETY: the parts tile the result along `axis`.
        unsafe {
            let to = out
                .ptr()
                .offset(at as isize * strides[axis] * itemsize as isize);
            copy(part.shape, part.ptr, part.strides, to, &strides, itemsize);
        }
        at += part.shape[axis];
    }
    // SAFETY: the sizes along `axis` add up to the result's.
    unsafe { out.finish() }
}

/// A dense copy.
pub fn dense(x: &HostView<'_>) -> Out {
    let itemsize = x.dtype.itemsize();
    let mut out = Out::new(x.elements(), itemsize);
    // SAFETY: a view's elements are readable; the result is new.
    unsafe {
        copy(
            x.shape,
            x.ptr,
            x.strides,
            out.ptr(),
            &dense_strides(x.shape),
            itemsize,
        );
    }
    out
}
