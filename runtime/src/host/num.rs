//! The arithmetic of each element type, as `ops` defines it.

use half::{bf16, f16};

/// Anything stored.
pub trait Elem: Copy + Send + Sync + PartialOrd + 'static {
    /// NaN, for floats.
    fn is_nan(self) -> bool {
        false
    }
    /// `-inf`, the smallest integer, or false.
    const LOWEST: Self;
    /// `inf`, the largest integer, or true.
    const HIGHEST: Self;
    /// NaN, 0 or false: what a gather gives for an index out of range.
    const MISSING: Self;

    /// The larger one; NaN wins.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if (self >= other) | self.is_nan() {
            self
        } else {
            other
        }
    }

    /// The smaller one; NaN wins.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if (self <= other) | self.is_nan() {
            self
        } else {
            other
        }
    }
}

/// Integers and floats.
pub trait Num: Elem {
    /// What sums and products are kept in: `f32` for small floats.
    type Acc: Num;
    /// What running sums are kept in, where no pairwise order is possible.
    type Wide: Num;
    const ZERO: Self;
    const ONE: Self;
    fn acc(self) -> Self::Acc;
    fn from_acc(acc: Self::Acc) -> Self;
    fn wide(self) -> Self::Wide;
    fn from_wide(wide: Self::Wide) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn floor_div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn from_index(i: u64) -> Self;
}

/// Floats; everything is computed in `Calc` and rounded once.
pub trait Float: Num {
    type Calc: Real;
    fn calc(self) -> Self::Calc;
    fn from_calc(x: Self::Calc) -> Self;
    /// The mean of `count` elements that add up to `sum`.
    fn divide_acc(sum: Self::Acc, count: usize) -> Self::Acc;
}

/// Integers.
pub trait Int: Num + Ord {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
    fn shl(self, by: Self) -> Self;
    fn shr(self, by: Self) -> Self;
    /// As an index; too large a value saturates.
    fn index(self) -> i64;
    /// The low bits.
    fn truncate(word: u64) -> Self;
}

/// A bool: 0 or 1 in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Flag(pub u8);

impl Flag {
    #[inline(always)]
    pub fn of(b: bool) -> Self {
        Flag(b as u8)
    }

    #[inline(always)]
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl Elem for Flag {
    const LOWEST: Self = Flag(0);
    const HIGHEST: Self = Flag(1);
    const MISSING: Self = Flag(0);
}

macro_rules! int {
    ($($T:ty, $signed:literal, $wide:ty);+) => {$(
        impl Elem for $T {
            const LOWEST: Self = <$T>::MIN;
            const HIGHEST: Self = <$T>::MAX;
            const MISSING: Self = 0;
        }

        #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)]
        impl Num for $T {
            type Acc = $T;
            type Wide = $T;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn acc(self) -> Self { self }
            #[inline(always)]
            fn from_acc(acc: Self) -> Self { acc }
            #[inline(always)]
            fn wide(self) -> Self { self }
            #[inline(always)]
            fn from_wide(wide: Self) -> Self { wide }
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn floor_div(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let q = self.wrapping_div(other);
                let r = self.wrapping_rem(other);
                if r != 0 && (r < 0) != (other < 0) { q.wrapping_sub(1) } else { q }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let r = self.wrapping_rem(other);
                if r != 0 && (r < 0) != (other < 0) { r.wrapping_add(other) } else { r }
            }
            #[inline(always)]
            fn pow(self, other: Self) -> Self {
                if other < 0 {
                    return match self {
                        1 => 1,
                        x if $signed && x == (0 as $T).wrapping_sub(1) => {
                            if other & 1 == 0 { 1 } else { x }
                        }
                        _ => 0,
                    };
                }
                let (mut base, mut left, mut result) = (self, other, 1 as $T);
                while left != 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn abs(self) -> Self { if self < 0 { self.wrapping_neg() } else { self } }
            #[inline(always)]
            fn sign(self) -> Self {
                if self < 0 { (0 as $T).wrapping_sub(1) } else { (self > 0) as $T }
            }
            #[inline(always)]
            fn from_index(i: u64) -> Self { i as $T }
        }

        #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)]
        impl Int for $T {
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
            #[inline(always)]
            fn not(self) -> Self { !self }
            #[inline(always)]
            fn shl(self, by: Self) -> Self {
                if by < 0 || by >= <$T>::BITS as $T { 0 } else { self << by }
            }
            #[inline(always)]
            fn shr(self, by: Self) -> Self {
                if by < 0 || by >= <$T>::BITS as $T {
                    if self < 0 { (0 as $T).wrapping_sub(1) } else { 0 }
                } else {
                    self >> by
                }
            }
            #[inline(always)]
            #[allow(clippy::unnecessary_fallible_conversions)]
            fn index(self) -> i64 { i64::try_from(self).unwrap_or(i64::MAX) }
            #[inline(always)]
            fn truncate(word: u64) -> Self { word as $T }
        }
    )+};
}

int!(
    i8, true, i64; i16, true, i64; i32, true, i64; i64, true, i64;
    u8, false, u64; u16, false, u64; u32, false, u64; u64, false, u64
);

/// `f32` and `f64`: the types in which floats are computed.
pub trait Real: Float<Calc = Self> {
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn round_even(self) -> Self;
    fn exp(self) -> Self;
    fn expm1(self) -> Self;
    fn log(self) -> Self;
    fn log1p(self) -> Self;
    fn sqrt(self) -> Self;
    fn rsqrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn arcsin(self) -> Self;
    fn arccos(self) -> Self;
    fn arctan(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn tanh(self) -> Self;
    fn arcsinh(self) -> Self;
    fn arccosh(self) -> Self;
    fn arctanh(self) -> Self;
    fn erf(self) -> Self;
    fn sigmoid(self) -> Self;
    fn arctan2(self, x: Self) -> Self;
    fn finite(self) -> bool;
    fn div(self, other: Self) -> Self;
}

macro_rules! real {
    ($T:ty, $wide:ty, $bits:ty) => {
        impl Elem for $T {
            const LOWEST: Self = <$T>::NEG_INFINITY;
            const HIGHEST: Self = <$T>::INFINITY;
            const MISSING: Self = <$T>::NAN;
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$T>::is_nan(self)
            }
        }

        impl Num for $T {
            type Acc = $T;
            type Wide = $wide;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn acc(self) -> Self {
                self
            }
            #[inline(always)]
            fn from_acc(acc: Self) -> Self {
                acc
            }
            #[inline(always)]
            fn wide(self) -> $wide {
                self as $wide
            }
            #[inline(always)]
            fn from_wide(wide: $wide) -> Self {
                wide as $T
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            /// As NumPy's `npy_floor_divide`.
            #[inline(always)]
            fn floor_div(self, b: Self) -> Self {
                if b == 0.0 {
                    return self / b;
                }
                let rest = self % b;
                let mut quotient = (self - rest) / b;
                if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $T).copysign(self / b);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 {
                    floor + 1.0
                } else {
                    floor
                }
            }
            /// As NumPy's `npy_remainder`.
            #[inline(always)]
            fn rem(self, b: Self) -> Self {
                let rest = self % b;
                if b == 0.0 {
                    rest
                } else if rest == 0.0 {
                    (0.0 as $T).copysign(b)
                } else if (b < 0.0) != (rest < 0.0) {
                    rest + b
                } else {
                    rest
                }
            }
            #[inline(always)]
            fn pow(self, other: Self) -> Self {
                self.powf(other)
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$T>::abs(self)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                if self > 0.0 {
                    1.0
                } else if self < 0.0 {
                    -1.0
                } else {
                    self
                }
            }
            #[inline(always)]
            fn from_index(i: u64) -> Self {
                i as $T
            }
        }

        impl Float for $T {
            type Calc = $T;
            #[inline(always)]
            fn calc(self) -> Self {
                self
            }
            #[inline(always)]
            fn from_calc(x: Self) -> Self {
                x
            }
            #[inline(always)]
            fn divide_acc(sum: Self, count: usize) -> Self {
                sum / count as $T
            }
        }
    };
}

real!(f32, f64, u32);
real!(f64, f64, u64);

macro_rules! half {
    ($T:ty) => {
        impl Elem for $T {
            const LOWEST: Self = <$T>::NEG_INFINITY;
            const HIGHEST: Self = <$T>::INFINITY;
            const MISSING: Self = <$T>::NAN;
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$T>::is_nan(self)
            }
        }

        impl Num for $T {
            type Acc = f32;
            type Wide = f32;
            const ZERO: Self = <$T>::ZERO;
            const ONE: Self = <$T>::ONE;
            #[inline(always)]
            fn acc(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_acc(acc: f32) -> Self {
                <$T>::from_f32(acc)
            }
            #[inline(always)]
            fn wide(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_wide(wide: f32) -> Self {
                <$T>::from_f32(wide)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self::from_acc(self.acc() + other.acc())
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self::from_acc(self.acc() - other.acc())
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self::from_acc(self.acc() * other.acc())
            }
            #[inline(always)]
            fn floor_div(self, other: Self) -> Self {
                Self::from_acc(self.acc().floor_div(other.acc()))
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                Self::from_acc(Num::rem(self.acc(), other.acc()))
            }
            #[inline(always)]
            fn pow(self, other: Self) -> Self {
                Self::from_acc(self.acc().powf(other.acc()))
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$T>::from_bits(self.to_bits() & 0x7fff)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                Self::from_acc(self.acc().sign())
            }
            #[inline(always)]
            fn from_index(i: u64) -> Self {
                <$T>::from_f32(i as f32)
            }
        }

        impl Float for $T {
            type Calc = f32;
            #[inline(always)]
            fn calc(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_calc(x: f32) -> Self {
                <$T>::from_f32(x)
            }
            #[inline(always)]
            fn divide_acc(sum: f32, count: usize) -> f32 {
                sum / count as f32
            }
        }
    };
}

half!(f16);
half!(bf16);
