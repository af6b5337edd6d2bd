//! Elementwise loops over broadcast, strided operands.
//!
//! What does not lie densely, or has a dtype in which nothing is computed, goes through small buffers.

use std::mem::MaybeUninit;

use super::row::Kernel;
use super::{HostView, Shared, parallel};
use crate::value::MAX_RANK;

/// Elements that go through the buffers at a time.
const CHUNK: usize = 256;

#[repr(align(64))]
struct Buffer([MaybeUninit<u64>; CHUNK]);

impl Buffer {
    fn new() -> Self {
        Buffer([MaybeUninit::uninit(); CHUNK])
    }

    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Where operands and result lie.
struct Run<'a, const N: usize> {
    kernel: Kernel<N>,
    args: [HostView<'a>; N],
    itemsizes: [usize; N],
    out: Shared,
    out_itemsize: usize,
}

impl<const N: usize> Run<'_, N> {
    /// `n` elements from `ptrs` at `strides` (in elements) to the output from element `at`.
    ///
    /// # Safety
    /// The elements are within the operands, the output has room, and no other task writes there.
    #[inline]
    unsafe fn span(&self, n: usize, ptrs: [*const u8; N], strides: [isize; N], at: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            let out = self.out.at::<u8>(at * self.out_itemsize);
            let bare = self.kernel.load.is_none() & self.kernel.store.is_none();
            if bare && strides.iter().all(|&s| s == 1) {
                (self.kernel.row)(n, ptrs, out);
            } else {
                self.buffered(n, ptrs, strides, out);
            }
        }
    }

    /// # Safety
    /// As for [`Run::span`].
    #[inline(never)]
    unsafe fn buffered(&self, n: usize, ptrs: [*const u8; N], strides: [isize; N], out: *mut u8) {
        let mut dense: [Buffer; N] = std::array::from_fn(|_| Buffer::new());
        let mut loaded: [Buffer; N] = std::array::from_fn(|_| Buffer::new());
        let mut result = Buffer::new();
        // SAFETY: passed on to the caller; a buffer has room for a chunk of any element type.
        unsafe {
            for first in (0..n).step_by(CHUNK) {
                let m = CHUNK.min(n - first);
                let mut args = ptrs;
                for k in 0..N {
                    let (stride, item) = (strides[k], self.itemsizes[k]);
                    if stride == 0 {
                        if first == 0 {
                            repeat(ptrs[k], item, dense[k].ptr(), m);
                            if let Some(load) = self.kernel.load {
                                (load.row)(m, [dense[k].ptr()], loaded[k].ptr());
                            }
                        }
                        args[k] = match self.kernel.load {
                            Some(_) => loaded[k].ptr(),
                            None => dense[k].ptr(),
                        };
                        continue;
                    }
                    args[k] = ptrs[k].offset(first as isize * stride * item as isize);
                    if stride != 1 {
                        gather(args[k], stride, item, dense[k].ptr(), m);
                        args[k] = dense[k].ptr();
                    }
                    if let Some(load) = self.kernel.load {
                        (load.row)(m, [args[k]], loaded[k].ptr());
                        args[k] = loaded[k].ptr();
                    }
                }
                let out = out.add(first * self.out_itemsize);
                match self.kernel.store {
                    Some(store) => {
                        (self.kernel.row)(m, args, result.ptr());
                        (store.row)(m, [result.ptr()], out);
                    }
                    None => (self.kernel.row)(m, args, out),
                }
            }
        }
    }

    /// The elements `range` of the nest.
    ///
    /// # Safety
    /// As for [`run`], with `range` within the elements of the nest.
    unsafe fn rows(&self, nest: &Nest<N>, range: std::ops::Range<usize>) {
        let inner = nest.rank - 1;
        if nest.dims[inner] < SHORT_ROW {
            // SAFETY: passed on to the caller.
            return unsafe { self.short_rows(nest, range) };
        }
        let mut at = nest.position(range.start);
        let mut done = range.start;
        let strides: [isize; N] = std::array::from_fn(|k| nest.strides[k][inner]);
        while done < range.end {
            let n = (nest.dims[inner] - at[inner]).min(range.end - done);
            let mut ptrs = [std::ptr::null(); N];
            for (k, ptr) in ptrs.iter_mut().enumerate() {
                let offset: isize = (0..nest.rank)
                    .map(|axis| at[axis] as isize * nest.strides[k][axis])
                    .sum();
                let offset = offset * self.itemsizes[k] as isize;
                // SAFETY: `at` is within the shape, so the offset is within the operand.
                *ptr = unsafe { self.args[k].ptr.offset(offset) };
            }
            // SAFETY: `n` elements remain in this row of every operand and in the range of the output.
            unsafe { self.span(n, ptrs, strides, done) };
            done += n;
            at[inner] += n;
            let mut axis = inner;
            while at[axis] == nest.dims[axis] && axis > 0 {
                at[axis] = 0;
                axis -= 1;
                at[axis] += 1;
            }
        }
    }

    /// The same where a call of the kernel for each row would cost more than the row: operands are written out first.
    ///
    /// # Safety
    /// As for [`Run::rows`].
    unsafe fn short_rows(&self, nest: &Nest<N>, range: std::ops::Range<usize>) {
        let mut dense: [Buffer; N] = std::array::from_fn(|_| Buffer::new());
        let straight: [bool; N] = std::array::from_fn(|k| nest.is_straight(k));
        for first in range.clone().step_by(CHUNK) {
            let n = CHUNK.min(range.end - first);
            let at = nest.position(first);
            let mut ptrs = [std::ptr::null(); N];
            for k in 0..N {
                let (from, item) = (self.args[k].ptr, self.itemsizes[k]);
                ptrs[k] = if straight[k] {
                    from.wrapping_add(first * item)
                } else {
                    let to = dense[k].ptr();
                    let (dims, strides) = (&nest.dims[..nest.rank], &nest.strides[k]);
                    // SAFETY: `n` elements remain, and a buffer has room for a chunk.
                    with_bits!(item, T => unsafe {
                        expand::<T>(dims, strides, at, from.cast(), to.cast(), n);
                    });
                    to.cast_const()
                };
            }
            // SAFETY: as many elements of every operand, and of the range of the output.
            unsafe { self.span(n, ptrs, [1; N], first) };
        }
    }
}

/// Rows below this length are put together.
const SHORT_ROW: usize = 64;

/// Writes out `n` elements of a strided array, from position `at` on.
///
/// # Safety
/// The elements are readable, `to` has room.
unsafe fn expand<T: Copy>(
    dims: &[usize],
    strides: &[isize; MAX_RANK + 1],
    mut at: [usize; MAX_RANK + 1],
    from: *const T,
    to: *mut T,
    n: usize,
) {
    let inner = dims.len() - 1;
    let stride = strides[inner];
    let mut done = 0;
    let places = at.iter().zip(strides).take(dims.len());
    let mut offset: isize = places.map(|(&i, &s)| i as isize * s).sum();
    while done < n {
        let m = (dims[inner] - at[inner]).min(n - done);
        // SAFETY: passed on to the caller.
        unsafe {
            let (from, to) = (from.offset(offset), to.add(done));
            if stride == 0 {
                let value = *from;
                for i in 0..m {
                    *to.add(i) = value;
                }
            } else {
                for i in 0..m {
                    *to.add(i) = *from.offset(i as isize * stride);
                }
            }
        }
        done += m;
        at[inner] += m;
        offset += m as isize * stride;
        let mut axis = inner;
        while at[axis] == dims[axis] && axis > 0 {
            offset += strides[axis - 1] - dims[axis] as isize * strides[axis];
            at[axis] = 0;
            axis -= 1;
            at[axis] += 1;
        }
    }
}

/// `n` copies of one element.
///
/// # Safety
/// `from` is readable, `to` has room.
unsafe fn repeat(from: *const u8, itemsize: usize, to: *mut u8, n: usize) {
    // SAFETY: passed on to the caller.
    with_bits!(itemsize, T => unsafe {
        let value = *from.cast::<T>();
        for i in 0..n {
            *to.cast::<T>().add(i) = value;
        }
    });
}

/// `n` elements, `stride` elements apart.
///
/// # Safety
/// They are readable, `to` has room.
unsafe fn gather(from: *const u8, stride: isize, itemsize: usize, to: *mut u8, n: usize) {
    // SAFETY: passed on to the caller.
    with_bits!(itemsize, T => unsafe {
        for i in 0..n {
            *to.cast::<T>().add(i) = *from.cast::<T>().offset(i as isize * stride);
        }
    });
}

/// Operands of which each has at least one element; `strides` in elements of `shape`.
struct Nest<const N: usize> {
    rank: usize,
    dims: [usize; MAX_RANK + 1],
    strides: [[isize; MAX_RANK + 1]; N],
}

impl<const N: usize> Nest<N> {
    /// Aligns the operands to `shape` from the right and merges axes that all of them (and the dense output) walk
    /// in one stride.
    fn new(shape: &[usize], args: &[HostView<'_>; N]) -> Self {
        let mut nest = Nest {
            rank: 0,
            dims: [1; MAX_RANK + 1],
            strides: [[0; MAX_RANK + 1]; N],
        };
        for (axis, &dim) in shape.iter().enumerate() {
            if dim == 1 {
                continue;
            }
            let mut here = [0isize; N];
            for (stride, arg) in here.iter_mut().zip(args) {
                let missing = shape.len() - arg.shape.len();
                if axis >= missing && arg.shape[axis - missing] != 1 {
                    *stride = arg.strides[axis - missing];
                }
            }
            let last = nest.rank.wrapping_sub(1);
            if nest.rank > 0 && (0..N).all(|k| nest.strides[k][last] == here[k] * dim as isize) {
                nest.dims[last] *= dim;
                nest.set(last, here);
            } else {
                nest.dims[nest.rank] = dim;
                nest.set(nest.rank, here);
                nest.rank += 1;
            }
        }
        nest.rank = nest.rank.max(1);
        nest
    }

    /// Where the `i`-th element lies on each axis.
    fn position(&self, i: usize) -> [usize; MAX_RANK + 1] {
        let mut at = [0usize; MAX_RANK + 1];
        let mut rest = i;
        for axis in (0..self.rank).rev() {
            at[axis] = rest % self.dims[axis];
            rest /= self.dims[axis];
        }
        at
    }

    /// True when operand `k` is walked from its first element to its last.
    fn is_straight(&self, k: usize) -> bool {
        let mut next = 1;
        (0..self.rank).rev().all(|axis| {
            let fits = self.strides[k][axis] == next;
            next *= self.dims[axis] as isize;
            fits
        })
    }

    fn set(&mut self, axis: usize, strides: [isize; N]) {
        for (all, stride) in self.strides.iter_mut().zip(strides) {
            all[axis] = stride;
        }
    }
}

/// Runs `kernel` over `shape`, into a dense `out`.
///
/// # Safety
/// Every operand broadcasts to `shape` and has the dtype of the kernel; `out` has room for the result and is either
/// apart from every operand or the start of one that is dense and of the same shape and item size.
pub unsafe fn run<const N: usize>(
    kernel: Kernel<N>,
    shape: &[usize],
    args: [HostView<'_>; N],
    itemsizes: [usize; N],
    out: *mut u8,
    out_itemsize: usize,
) {
    let total: usize = shape.iter().product();
    if total == 0 {
        return;
    }
    let run = Run {
        kernel,
        args,
        itemsizes,
        out: Shared(out),
        out_itemsize,
    };
    let flat = |v: &HostView<'_>| v.shape.is_empty() || (v.shape == shape && v.is_dense());
    if args.iter().all(flat) {
        let strides = args.map(|v| !v.shape.is_empty() as isize);
        let work = |range: std::ops::Range<usize>| {
            let mut ptrs = [std::ptr::null(); N];
            for k in 0..N {
                let at = range.start as isize * strides[k] * itemsizes[k] as isize;
                // SAFETY: within the operand, which is dense, or at its only element.
                ptrs[k] = unsafe { args[k].ptr.offset(at) };
            }
            // SAFETY: `range` is within the result; tasks have disjoint ranges.
            unsafe { run.span(range.len(), ptrs, strides, range.start) };
        };
        if total <= kernel.grain {
            work(0..total);
        } else {
            parallel(total, kernel.grain, &work);
        }
        return;
    }
    let nest = Nest::new(shape, &args);
    // SAFETY: `range` is within the result; tasks have disjoint ranges.
    parallel(total, kernel.grain, &|range| unsafe {
        run.rows(&nest, range)
    });
}
