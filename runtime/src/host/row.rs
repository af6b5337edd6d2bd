//! Kernels over rows of dense elements: a function pointer each, chosen once per op and dtype. What walks over whole
//! operands with them is not generic.

use super::{FINE_GRAIN, GRAIN};

/// Computes `n` elements of dense operands into the dense output, which may be the very memory of an operand.
pub type Row<const N: usize> = unsafe fn(n: usize, args: [*const u8; N], out: *mut u8);

/// A conversion on the way into or out of a kernel, and the item size on the kernel's side.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    pub row: Row<1>,
    pub itemsize: usize,
}

/// A row kernel and what one of its elements costs.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<const N: usize> {
    pub row: Row<N>,
    pub grain: usize,
    /// Applied to every operand first.
    pub load: Option<Stage>,
    /// Applied to the result.
    pub store: Option<Stage>,
}

impl<const N: usize> Kernel<N> {
    pub fn cheap(row: Row<N>) -> Self {
        Kernel {
            row,
            grain: GRAIN,
            load: None,
            store: None,
        }
    }

    pub fn dear(row: Row<N>) -> Self {
        Kernel {
            grain: FINE_GRAIN,
            ..Kernel::cheap(row)
        }
    }

    pub fn staged(self, load: Option<Stage>, store: Option<Stage>) -> Self {
        Kernel {
            load,
            store,
            ..self
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

// There are hundreds of kernels, so each is as little code as can be. The loops in place keep one pointer, because a
// compiler cannot vectorise across two that may be equal.

/// # Safety
/// As for [`Row`], with operand and result of the closure's types.
#[inline(always)]
unsafe fn each1<A: Copy, R: Copy, F: Fn(A) -> R + Copy>(
    n: usize,
    args: [*const u8; 1],
    out: *mut u8,
) {
    let (f, a, out) = (stateless::<F>(), args[0].cast::<A>(), out.cast::<R>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { *out.add(i) = f(*a.add(i)) };
    }
}

/// # Safety
/// As for [`each1`].
#[inline(always)]
unsafe fn each1_here<A: Copy, F: Fn(A) -> A + Copy>(n: usize, args: [*const u8; 1], out: *mut u8) {
    if std::ptr::eq(args[0], out) {
        let (f, a) = (stateless::<F>(), out.cast::<A>());
        for i in 0..n {
            // SAFETY: the caller vouches for `n` elements.
            unsafe { *a.add(i) = f(*a.add(i)) };
        }
    } else {
        // SAFETY: passed on to the caller.
        unsafe { each1::<A, A, F>(n, args, out) };
    }
}

/// # Safety
/// As for [`Row`], with operands and result of the closure's types.
#[inline(always)]
unsafe fn each2<A: Copy, R: Copy, F: Fn(A, A) -> R + Copy>(
    n: usize,
    args: [*const u8; 2],
    out: *mut u8,
) {
    let (f, out) = (stateless::<F>(), out.cast::<R>());
    let (a, b) = (args[0].cast::<A>(), args[1].cast::<A>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { *out.add(i) = f(*a.add(i), *b.add(i)) };
    }
}

/// # Safety
/// As for [`each2`].
#[inline(always)]
unsafe fn each2_here<A: Copy, F: Fn(A, A) -> A + Copy>(
    n: usize,
    args: [*const u8; 2],
    out: *mut u8,
) {
    let (f, here) = (stateless::<F>(), out.cast::<A>());
    let (a, b) = (args[0].cast::<A>(), args[1].cast::<A>());
    // SAFETY: the caller vouches for `n` elements.
    unsafe {
        if std::ptr::eq(a, here) {
            for i in 0..n {
                *here.add(i) = f(*here.add(i), *b.add(i));
            }
        } else if std::ptr::eq(b, here) {
            for i in 0..n {
                *here.add(i) = f(*a.add(i), *here.add(i));
            }
        } else {
            each2::<A, A, F>(n, args, out);
        }
    }
}

/// Where `c` is set from `a`, elsewhere from `b`.
///
/// # Safety
/// As for [`Row`], with a byte as the condition and two operands of `A`.
#[inline(always)]
unsafe fn choose<A: Copy>(n: usize, args: [*const u8; 3], out: *mut u8) {
    let (c, here) = (args[0], out.cast::<A>());
    let (a, b) = (args[1].cast::<A>(), args[2].cast::<A>());
    // SAFETY: the caller vouches for `n` elements.
    unsafe {
        if std::ptr::eq(a, here) {
            for i in 0..n {
                let (x, y) = (*here.add(i), *b.add(i));
                *here.add(i) = if *c.add(i) != 0 { x } else { y };
            }
        } else if std::ptr::eq(b, here) {
            for i in 0..n {
                let (x, y) = (*a.add(i), *here.add(i));
                *here.add(i) = if *c.add(i) != 0 { x } else { y };
            }
        } else {
            for i in 0..n {
                let (x, y) = (*a.add(i), *b.add(i));
                *here.add(i) = if *c.add(i) != 0 { x } else { y };
            }
        }
    }
}

/// Its own function, so that a loop over it stays small.
#[inline(never)]
fn apply1<A: Copy, R: Copy, F: Fn(A) -> R + Copy>(a: A) -> R {
    stateless::<F>()(a)
}

/// As [`apply1`].
#[inline(never)]
fn apply2<A: Copy, R: Copy, F: Fn(A, A) -> R + Copy>(a: A, b: A) -> R {
    stateless::<F>()(a, b)
}

/// The slow form of a kernel, for processors without AVX2.
///
/// # Safety
/// As for [`each1`].
#[allow(dead_code)]
unsafe fn slow1<A: Copy, R: Copy, F: Fn(A) -> R + Copy>(
    n: usize,
    args: [*const u8; 1],
    out: *mut u8,
) {
    let (a, out) = (args[0].cast::<A>(), out.cast::<R>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { *out.add(i) = apply1::<A, R, F>(*a.add(i)) };
    }
}

/// As [`slow1`].
///
/// # Safety
/// As for [`each2`].
#[allow(dead_code)]
unsafe fn slow2<A: Copy, R: Copy, F: Fn(A, A) -> R + Copy>(
    n: usize,
    args: [*const u8; 2],
    out: *mut u8,
) {
    let (a, b, out) = (args[0].cast::<A>(), args[1].cast::<A>(), out.cast::<R>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { *out.add(i) = apply2::<A, R, F>(*a.add(i), *b.add(i)) };
    }
}

/// A kernel of a function that costs more than the loop around it; `f` must not capture.
pub fn calls1<A: Copy, R: Copy, F: Fn(A) -> R + Copy>(_f: F) -> Row<1> {
    unsafe fn row<A: Copy, R: Copy, F: Fn(A) -> R + Copy>(
        n: usize,
        args: [*const u8; 1],
        out: *mut u8,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { each1::<A, R, F>(n, args, out) }
    }
    row::<A, R, F>
}

/// As [`calls1`].
pub fn calls2<A: Copy, R: Copy, F: Fn(A, A) -> R + Copy>(_f: F) -> Row<2> {
    unsafe fn row<A: Copy, R: Copy, F: Fn(A, A) -> R + Copy>(
        n: usize,
        args: [*const u8; 2],
        out: *mut u8,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { each2::<A, R, F>(n, args, out) }
    }
    row::<A, R, F>
}

macro_rules! row_kernels {
    ($(#[$doc:meta])* $pick:ident, $n:literal, $each:ident, $slow:ident, [$($G:ident),+], ($($A:ty),+) -> $R:ty) => {
        $(#[$doc])*
        pub fn $pick<$($G: Copy,)+ F: Fn($($A),+) -> $R + Copy>(_f: F) -> Row<$n> {
            /// # Safety
            /// As for [`Row`], on a processor with AVX2.
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
            unsafe fn fast<$($G: Copy,)+ F: Fn($($A),+) -> $R + Copy>(
                n: usize,
                args: [*const u8; $n],
                out: *mut u8,
            ) {
                // SAFETY: passed on to the caller.
                unsafe { $each::<$($G,)+ F>(n, args, out) }
            }
            #[cfg(target_arch = "x86_64")]
            if !std::is_x86_feature_detected!("avx2") {
                return $slow::<A, $R, F>;
            }
            fast::<$($G,)+ F>
        }
    };
}

row_kernels! {
    /// A kernel from one dtype to another; `f` must not capture.
    turn1, 1, each1, slow1, [A, R], (A) -> R
}

row_kernels! {
    /// A kernel whose result may be written over its operand; `f` must not capture.
    row1, 1, each1_here, slow1, [A], (A) -> A
}

row_kernels! {
    /// As [`turn1`], with two operands.
    turn2, 2, each2, slow2, [A, R], (A, A) -> R
}

row_kernels! {
    /// As [`row1`], with two operands.
    row2, 2, each2_here, slow2, [A], (A, A) -> A
}

/// The kernel of `select`.
pub fn choice<A: Copy>() -> Row<3> {
    /// # Safety
    /// As for [`choose`], on a processor with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn fast<A: Copy>(n: usize, args: [*const u8; 3], out: *mut u8) {
        // SAFETY: passed on to the caller.
        unsafe { choose::<A>(n, args, out) }
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        return fast::<A>;
    }
    choose::<A>
}
