//! The innermost loops: a tile of a matrix product that stays in registers.

use crate::host::num::Real;

/// Rows of a tile.
pub const ROWS: usize = 4;
/// Bytes of a row of a tile: two registers of 32 bytes. Four rows of three would leave too few for the factors.
const ROW_BYTES: usize = 64;
/// Rows and columns of a tile of [`Lanes::dots`].
pub const DOTS: [usize; 2] = [4, 3];

/// Elements of a row of a tile.
pub const fn columns<T>() -> usize {
    ROW_BYTES / size_of::<T>()
}

/// What has tiles.
pub trait Lanes: Real {
    /// Elements that are multiplied at once by [`Lanes::dots`].
    const DOT_LANES: usize;

    /// `out[i, j] (+)= sum over k of a[k, i] * b[k, j]` for `ROWS` rows, which are `pitch` apart in `out`.
    ///
    /// # Safety
    /// `a` has `depth` times `ROWS` elements; `b` has `depth` rows, and each of those and of `out` has [`columns`].
    unsafe fn tile(
        a: *const Self,
        b: *const Self,
        depth: usize,
        out: *mut Self,
        pitch: usize,
        add: bool,
    );

    /// `out[j] = sum over k of a[k] * b[offsets[k] + j]`.
    ///
    /// # Safety
    /// As for `tile`.
    unsafe fn row(a: &[Self], b: *const Self, offsets: &[usize], out: *mut Self);

    /// `sum over p of a[i][p] * b[j][p]` for `p` below `len`, a multiple of [`Lanes::DOT_LANES`].
    ///
    /// # Safety
    /// All rows have `len` elements.
    unsafe fn dots(
        a: [*const Self; DOTS[0]],
        b: [*const Self; DOTS[1]],
        len: usize,
    ) -> [[Self; DOTS[1]]; DOTS[0]];
}

macro_rules! lanes {
    ($T:ident, $avx:ident) => {
        impl Lanes for $T {
            const DOT_LANES: usize = 32 / size_of::<$T>();

            #[inline]
            unsafe fn tile(
                a: *const $T,
                b: *const $T,
                depth: usize,
                out: *mut $T,
                pitch: usize,
                add: bool,
            ) {
                #[cfg(target_arch = "x86_64")]
                if fast() {
                    // SAFETY: the processor has what it takes; the rest is passed on.
                    return unsafe { $avx::tile(a, b, depth, out, pitch, add) };
                }
                // SAFETY: passed on.
                unsafe { plain::tile::<$T, { columns::<$T>() }>(a, b, depth, out, pitch, add) }
            }

            #[inline]
            unsafe fn row(a: &[$T], b: *const $T, offsets: &[usize], out: *mut $T) {
                #[cfg(target_arch = "x86_64")]
                if fast() {
                    // SAFETY: as above.
                    return unsafe { $avx::row(a, b, offsets, out) };
                }
                // SAFETY: passed on.
                unsafe { plain::row::<$T, { columns::<$T>() }>(a, b, offsets, out) }
            }

            #[inline]
            unsafe fn dots(
                a: [*const $T; DOTS[0]],
                b: [*const $T; DOTS[1]],
                len: usize,
            ) -> [[$T; DOTS[1]]; DOTS[0]] {
                #[cfg(target_arch = "x86_64")]
                if fast() {
                    // SAFETY: as above.
                    return unsafe { $avx::dots(a, b, len) };
                }
                // SAFETY: passed on.
                unsafe { plain::dots::<$T, { 32 / size_of::<$T>() }>(a, b, len) }
            }
        }
    };
}

lanes!(f32, avx_f32);
lanes!(f64, avx_f64);

#[cfg(target_arch = "x86_64")]
#[inline]
fn fast() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// What any processor can do; the compiler makes vectors of it.
mod plain {
    use super::{DOTS, ROWS, Real};

    /// # Safety
    /// As for [`super::Lanes::tile`].
    pub unsafe fn tile<T: Real, const N: usize>(
        a: *const T,
        b: *const T,
        depth: usize,
        out: *mut T,
        pitch: usize,
        add: bool,
    ) {
        let mut sums = [[T::ZERO; N]; ROWS];
        // SAFETY: passed on to the caller.
        unsafe {
            for k in 0..depth {
                let b = &*b.add(k * N).cast::<[T; N]>();
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = *a.add(k * ROWS + i);
                    sums.iter_mut()
                        .zip(b)
                        .for_each(|(sum, &b)| *sum = sum.add(a.mul(b)));
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                let out = &mut *out.add(i * pitch).cast::<[T; N]>();
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = if add { out.add(sum) } else { sum };
                }
            }
        }
    }

    /// # Safety
    /// As for [`super::Lanes::row`].
    pub unsafe fn row<T: Real, const N: usize>(
        a: &[T],
        b: *const T,
        offsets: &[usize],
        out: *mut T,
    ) {
        let mut sums = [T::ZERO; N];
        // SAFETY: passed on to the caller.
        unsafe {
            for (&a, &offset) in a.iter().zip(offsets) {
                let b = &*b.add(offset).cast::<[T; N]>();
                sums.iter_mut()
                    .zip(b)
                    .for_each(|(sum, &b)| *sum = sum.add(a.mul(b)));
            }
            *out.cast::<[T; N]>() = sums;
        }
    }

    /// # Safety
    /// As for [`super::Lanes::dots`].
    pub unsafe fn dots<T: Real, const N: usize>(
        a: [*const T; DOTS[0]],
        b: [*const T; DOTS[1]],
        len: usize,
    ) -> [[T; DOTS[1]]; DOTS[0]] {
        let mut sums = [[[T::ZERO; N]; DOTS[1]]; DOTS[0]];
        for p in (0..len).step_by(N) {
            for (sums, a) in sums.iter_mut().zip(a) {
                for (sums, b) in sums.iter_mut().zip(b) {
                    // SAFETY: passed on to the caller.
                    let (a, b) =
                        unsafe { (&*a.add(p).cast::<[T; N]>(), &*b.add(p).cast::<[T; N]>()) };
                    for k in 0..N {
                        sums[k] = sums[k].add(a[k].mul(b[k]));
                    }
                }
            }
        }
        sums.map(|row| row.map(total))
    }

    /// The sum of all, by halves.
    #[inline(always)]
    pub fn total<T: Real, const N: usize>(mut sums: [T; N]) -> T {
        let mut n = N;
        while n > 1 {
            n /= 2;
            for k in 0..n {
                sums[k] = sums[k].add(sums[k + n]);
            }
        }
        sums[0]
    }
}

/// Products with vectors of 32 bytes.
#[cfg(target_arch = "x86_64")]
macro_rules! avx {
    ($name:ident, $T:ty, $lanes:literal, $zero:ident, $set:ident, $load:ident, $store:ident, $fma:ident, $add:ident) => {
        mod $name {
            use std::arch::x86_64::*;

            use super::{DOTS, ROWS, plain};

            /// # Safety
            /// As for [`super::Lanes::tile`], and the processor has these features.
            #[target_feature(enable = "avx2,fma")]
            pub unsafe fn tile(
                mut a: *const $T,
                mut b: *const $T,
                depth: usize,
                out: *mut $T,
                pitch: usize,
                add: bool,
            ) {
                let mut sums = [[$zero(); 2]; ROWS];
                // SAFETY: passed on to the caller.
                unsafe {
                    for _ in 0..depth {
                        let row = [$load(b), $load(b.add($lanes))];
                        for i in 0..ROWS {
                            let a = $set(*a.add(i));
                            for j in 0..2 {
                                sums[i][j] = $fma(a, row[j], sums[i][j]);
                            }
                        }
                        a = a.add(ROWS);
                        b = b.add(2 * $lanes);
                    }
                    for (i, row) in sums.iter().enumerate() {
                        for (j, &sum) in row.iter().enumerate() {
                            let out = out.add(i * pitch + j * $lanes);
                            $store(out, if add { $add($load(out), sum) } else { sum });
                        }
                    }
                }
            }

            /// # Safety
            /// As for [`super::Lanes::row`], and the processor has these features.
            #[target_feature(enable = "avx2,fma")]
            pub unsafe fn row(a: &[$T], b: *const $T, offsets: &[usize], out: *mut $T) {
                let mut sums = [$zero(); 2];
                // SAFETY: passed on to the caller.
                unsafe {
                    for (&a, &offset) in a.iter().zip(offsets) {
                        let (a, b) = ($set(a), b.add(offset));
                        for (j, sum) in sums.iter_mut().enumerate() {
                            *sum = $fma(a, $load(b.add(j * $lanes)), *sum);
                        }
                    }
                    for (j, &sum) in sums.iter().enumerate() {
                        $store(out.add(j * $lanes), sum);
                    }
                }
            }

            /// # Safety
            /// As for [`super::Lanes::dots`], and the processor has these features.
            #[target_feature(enable = "avx2,fma")]
            pub unsafe fn dots(
                a: [*const $T; DOTS[0]],
                b: [*const $T; DOTS[1]],
                len: usize,
            ) -> [[$T; DOTS[1]]; DOTS[0]] {
                let mut sums = [[$zero(); DOTS[1]]; DOTS[0]];
                // SAFETY: passed on to the caller.
                unsafe {
                    for p in (0..len).step_by($lanes) {
                        let row = [$load(b[0].add(p)), $load(b[1].add(p)), $load(b[2].add(p))];
                        for i in 0..DOTS[0] {
                            let a = $load(a[i].add(p));
                            for j in 0..DOTS[1] {
                                sums[i][j] = $fma(a, row[j], sums[i][j]);
                            }
                        }
                    }
                    // Loops, because a closure would not be compiled for these features.
                    let mut dots = [[0.0; DOTS[1]]; DOTS[0]];
                    for i in 0..DOTS[0] {
                        for j in 0..DOTS[1] {
                            let mut lanes = [0.0; $lanes];
                            $store(lanes.as_mut_ptr(), sums[i][j]);
                            dots[i][j] = plain::total(lanes);
                        }
                    }
                    dots
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
avx!(
    avx_f32,
    f32,
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
#[cfg(target_arch = "x86_64")]
avx!(
    avx_f64,
    f64,
    4,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd
);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<T: Lanes>(n: usize) -> Vec<T> {
        (0..n as u64)
            .map(|i| T::from_index(i * 7919 % 13))
            .collect()
    }

    /// Whole numbers, so that every order of additions gives the same.
    fn agree<T: Lanes + std::fmt::Debug, const N: usize, const L: usize>() {
        let (depth, pitch) = (9, N + 3);
        let (a, b) = (numbers::<T>(depth * ROWS), numbers::<T>(depth * N));
        for add in [false, true] {
            let (mut one, mut two) = (numbers::<T>(ROWS * pitch), numbers::<T>(ROWS * pitch));
            // SAFETY: operands and results have these sizes.
            unsafe {
                T::tile(a.as_ptr(), b.as_ptr(), depth, one.as_mut_ptr(), pitch, add);
                plain::tile::<T, N>(a.as_ptr(), b.as_ptr(), depth, two.as_mut_ptr(), pitch, add);
            }
            assert_eq!(one, two);
        }
        let offsets = [0, 3, N, 5];
        let (mut one, mut two) = (vec![T::ONE; N], vec![T::ZERO; N]);
        let len = 5 * L;
        let rows = numbers::<T>(7 * len);
        let row = |i: usize| rows[i * len..].as_ptr();
        // SAFETY: as above.
        unsafe {
            T::row(&a[..4], b.as_ptr(), &offsets, one.as_mut_ptr());
            plain::row::<T, N>(&a[..4], b.as_ptr(), &offsets, two.as_mut_ptr());
            assert_eq!(one, two);
            let (left, right) = ([row(0), row(1), row(2), row(3)], [row(4), row(5), row(6)]);
            assert_eq!(
                T::dots(left, right, len),
                plain::dots::<T, L>(left, right, len)
            );
        }
    }

    #[test]
    fn vectors_do_what_any_processor_does() {
        agree::<f32, { columns::<f32>() }, { f32::DOT_LANES }>();
        agree::<f64, { columns::<f64>() }, { f64::DOT_LANES }>();
    }
}
