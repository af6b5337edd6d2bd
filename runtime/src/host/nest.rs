//! Elementwise loops over broadcast, strided operands.
//!
//! A kernel is a function pointer over one row, chosen once per op and dtype; the loops around it do not know types.

use super::{FINE_GRAIN, GRAIN, HostView, Shared, parallel};
use crate::value::MAX_RANK;

/// Computes `n` elements: operand pointers, their strides in elements, and the dense output. An output may be the
/// very memory of a dense operand.
pub type Row<const N: usize> =
    unsafe fn(n: usize, args: [*const u8; N], strides: [isize; N], out: *mut u8);

/// A row kernel and what one of its elements costs.
#[derive(Clone, Copy)]
pub struct Kernel<const N: usize> {
    pub row: Row<N>,
    pub grain: usize,
}

impl<const N: usize> Kernel<N> {
    pub fn cheap(row: Row<N>) -> Self {
        Kernel { row, grain: GRAIN }
    }

    pub fn dear(row: Row<N>) -> Self {
        Kernel {
            row,
            grain: FINE_GRAIN,
        }
    }
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
    let out = Shared(out);
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
            unsafe {
                (kernel.row)(
                    range.len(),
                    ptrs,
                    strides,
                    out.at::<u8>(range.start * out_itemsize),
                )
            };
        };
        if total <= kernel.grain {
            work(0..total);
        } else {
            parallel(total, kernel.grain, &work);
        }
        return;
    }
    let nest = Nest::new(shape, &args);
    parallel(total, kernel.grain, &|range| {
        // SAFETY: `range` is within the result; tasks have disjoint ranges.
        unsafe { rows(&kernel, &nest, &args, &itemsizes, range, out, out_itemsize) }
    });
}

/// # Safety
/// As for [`run`], with `range` within the elements of the nest.
unsafe fn rows<const N: usize>(
    kernel: &Kernel<N>,
    nest: &Nest<N>,
    args: &[HostView<'_>; N],
    itemsizes: &[usize; N],
    range: std::ops::Range<usize>,
    out: Shared,
    out_itemsize: usize,
) {
    let inner = nest.rank - 1;
    let mut at = [0usize; MAX_RANK + 1];
    let mut rest = range.start;
    for axis in (0..nest.rank).rev() {
        at[axis] = rest % nest.dims[axis];
        rest /= nest.dims[axis];
    }
    let mut done = range.start;
    let strides: [isize; N] = std::array::from_fn(|k| nest.strides[k][inner]);
    while done < range.end {
        let n = (nest.dims[inner] - at[inner]).min(range.end - done);
        let mut ptrs = [std::ptr::null(); N];
        for k in 0..N {
            let offset: isize = (0..nest.rank)
                .map(|axis| at[axis] as isize * nest.strides[k][axis])
                .sum();
            // SAFETY: `at` is within the shape, so the offset is within the operand.
            ptrs[k] = unsafe { args[k].ptr.offset(offset * itemsizes[k] as isize) };
        }
        // SAFETY: `n` elements remain in this row of every operand and in the range of the output.
        unsafe { (kernel.row)(n, ptrs, strides, out.at::<u8>(done * out_itemsize)) };
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

/// The value of a function type that has no data: a closure without captures.
#[inline(always)]
fn stateless<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0) };
    // SAFETY: a zero-sized `Copy` type has one value and needs no bytes.
    unsafe { std::ptr::NonNull::<F>::dangling().read() }
}

/// True when the processor has the instructions that the faster copies of the kernels use.
#[cfg(target_arch = "x86_64")]
#[inline]
fn fast_cpu() -> bool {
    std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c")
}

macro_rules! row_kernels {
    ($pick:ident, $plain:ident, $fast:ident, $n:literal, ($($A:ident),+), |$len:ident, $args:ident, $strides:ident, $out:ident, $f:ident| $body:block) => {
        /// # Safety
        /// As for [`Row`], with operands and result of the closure's types.
        #[inline(always)]
        unsafe fn $plain<$($A: Copy,)+ R: Copy, F: Fn($($A),+) -> R + Copy>(
            $len: usize,
            $args: [*const u8; $n],
            $strides: [isize; $n],
            $out: *mut u8,
        ) {
            let $f = stateless::<F>();
            let $out = $out.cast::<R>();
            $body
        }

        /// # Safety
        /// As for [`Row`], on a processor for which [`fast_cpu`] holds.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,f16c")]
        unsafe fn $fast<$($A: Copy,)+ R: Copy, F: Fn($($A),+) -> R + Copy>(
            len: usize,
            args: [*const u8; $n],
            strides: [isize; $n],
            out: *mut u8,
        ) {
            // SAFETY: passed on to the caller.
            unsafe { $plain::<$($A,)+ R, F>(len, args, strides, out) }
        }

        /// The row kernel that applies `f` to each element; `f` must not capture.
        pub fn $pick<$($A: Copy,)+ R: Copy, F: Fn($($A),+) -> R + Copy>(_f: F) -> Row<$n> {
            #[cfg(target_arch = "x86_64")]
            if fast_cpu() {
                return $fast::<$($A,)+ R, F>;
            }
            $plain::<$($A,)+ R, F>
        }
    };
}

// Each loop is written for the strides that occur, so that it can be vectorised; the in-place forms keep one pointer,
// because a compiler cannot vectorise across two that may be equal.
row_kernels!(row1, plain1, fast1, 1, (A), |n, args, strides, out, f| {
    let a = args[0].cast::<A>();
    // SAFETY: the caller vouches for `n` elements at these strides.
    unsafe {
        match strides[0] {
            1 if std::ptr::eq(a.cast::<u8>(), out.cast::<u8>()) => {
                let a = out.cast::<A>();
                for i in 0..n {
                    *out.add(i) = f(*a.add(i));
                }
            }
            1 => {
                for i in 0..n {
                    *out.add(i) = f(*a.add(i));
                }
            }
            0 => {
                let value = f(*a);
                for i in 0..n {
                    *out.add(i) = value;
                }
            }
            s => {
                for i in 0..n {
                    *out.add(i) = f(*a.offset(i as isize * s));
                }
            }
        }
    }
});

row_kernels!(
    row2,
    plain2,
    fast2,
    2,
    (A, C),
    |n, args, strides, out, f| {
        let (a, b) = (args[0].cast::<A>(), args[1].cast::<C>());
        let here = out.cast::<u8>().cast_const();
        // SAFETY: the caller vouches for `n` elements at these strides.
        unsafe {
            match strides {
                [1, 1] if args[0] == here => {
                    let a = out.cast::<A>();
                    for i in 0..n {
                        *out.add(i) = f(*a.add(i), *b.add(i));
                    }
                }
                [1, 1] if args[1] == here => {
                    let b = out.cast::<C>();
                    for i in 0..n {
                        *out.add(i) = f(*a.add(i), *b.add(i));
                    }
                }
                [1, 1] => {
                    for i in 0..n {
                        *out.add(i) = f(*a.add(i), *b.add(i));
                    }
                }
                [1, 0] => {
                    let b = *b;
                    if args[0] == here {
                        let a = out.cast::<A>();
                        for i in 0..n {
                            *out.add(i) = f(*a.add(i), b);
                        }
                    } else {
                        for i in 0..n {
                            *out.add(i) = f(*a.add(i), b);
                        }
                    }
                }
                [0, 1] => {
                    let a = *a;
                    if args[1] == here {
                        let b = out.cast::<C>();
                        for i in 0..n {
                            *out.add(i) = f(a, *b.add(i));
                        }
                    } else {
                        for i in 0..n {
                            *out.add(i) = f(a, *b.add(i));
                        }
                    }
                }
                [s, t] => {
                    for i in 0..n as isize {
                        *out.offset(i) = f(*a.offset(i * s), *b.offset(i * t));
                    }
                }
            }
        }
    }
);

row_kernels!(
    row3,
    plain3,
    fast3,
    3,
    (A, C, E),
    |n, args, strides, out, f| {
        let (a, b, c) = (
            args[0].cast::<A>(),
            args[1].cast::<C>(),
            args[2].cast::<E>(),
        );
        // SAFETY: the caller vouches for `n` elements at these strides.
        unsafe {
            match strides {
                [1, 1, 1] => {
                    for i in 0..n {
                        *out.add(i) = f(*a.add(i), *b.add(i), *c.add(i));
                    }
                }
                [1, 1, 0] => {
                    let c = *c;
                    for i in 0..n {
                        *out.add(i) = f(*a.add(i), *b.add(i), c);
                    }
                }
                [1, 0, 1] => {
                    let b = *b;
                    for i in 0..n {
                        *out.add(i) = f(*a.add(i), b, *c.add(i));
                    }
                }
                [s, t, u] => {
                    for i in 0..n as isize {
                        *out.offset(i) = f(*a.offset(i * s), *b.offset(i * t), *c.offset(i * u));
                    }
                }
            }
        }
    }
);
