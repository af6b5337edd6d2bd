//! Conversions between dtypes.

use half::{bf16, f16};

use super::nest::{Kernel, row1};
use super::num::Flag;
use crate::dtype::DType;
use crate::error::Result;

/// A conversion as `cast` defines it: floats truncate and saturate to integers, integers wrap, everything else rounds.
trait To<U> {
    fn to(self) -> U;
}

macro_rules! to_as {
    ($($A:ty => $($B:ty),+);+ $(;)?) => {$($(
        impl To<$B> for $A {
            #[inline(always)]
            fn to(self) -> $B {
                self as $B
            }
        }
    )+)+};
}

to_as! {
    i8 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i16 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    i64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u8 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u16 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    u64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    f32 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
    f64 => i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
}

/// `x` rounded to odd: a second rounding, to fewer than 22 bits, then gives what rounding once would.
#[inline(always)]
fn round_to_odd(x: f64) -> f32 {
    let y = x as f32;
    if y as f64 == x || x.is_nan() {
        return y;
    }
    let mut bits = y.to_bits();
    if (y as f64).abs() > x.abs() {
        bits -= 1;
    }
    f32::from_bits(bits | 1)
}

macro_rules! small_floats {
    ($($A:ty),+) => {$(
        impl To<f16> for $A {
            #[inline(always)]
            fn to(self) -> f16 {
                // Exact up to 2^53, far above the largest finite value.
                f16::from_f32(round_to_odd(self as f64))
            }
        }
        impl To<bf16> for $A {
            #[inline(always)]
            fn to(self) -> bf16 {
                bf16::from_f32(self as f32)
            }
        }
    )+};
}

small_floats!(i8, i16, i32, i64, u8, u16, u32, u64, f64);

impl To<f16> for f32 {
    #[inline(always)]
    fn to(self) -> f16 {
        f16::from_f32(self)
    }
}

impl To<bf16> for f32 {
    #[inline(always)]
    fn to(self) -> bf16 {
        bf16::from_f32(self)
    }
}

macro_rules! from_half {
    ($A:ty => $($B:ty),+) => {$(
        impl To<$B> for $A {
            #[inline(always)]
            fn to(self) -> $B {
                self.to_f32().to()
            }
        }
    )+};
}

from_half!(f16 => i8, i16, i32, i64, u8, u16, u32, u64, bf16, f32, f64);
from_half!(bf16 => i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64);

macro_rules! same {
    ($($A:ty),+) => {$(
        impl To<$A> for $A {
            #[inline(always)]
            fn to(self) -> $A {
                self
            }
        }
    )+};
}

same!(f16, bf16, Flag);

macro_rules! flags {
    ($($A:ty),+) => {$(
        impl To<Flag> for $A {
            #[inline(always)]
            fn to(self) -> Flag {
                Flag::of(self != 0 as $A)
            }
        }
        impl To<$A> for Flag {
            #[inline(always)]
            fn to(self) -> $A {
                self.get() as u8 as $A
            }
        }
    )+};
}

flags!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

macro_rules! half_flags {
    ($($A:ty),+) => {$(
        impl To<Flag> for $A {
            #[inline(always)]
            fn to(self) -> Flag {
                Flag::of(self.to_f32() != 0.0)
            }
        }
        impl To<$A> for Flag {
            #[inline(always)]
            fn to(self) -> $A {
                if self.get() { <$A>::ONE } else { <$A>::ZERO }
            }
        }
    )+};
}

half_flags!(f16, bf16);

/// The kernel that converts `from` to `to`.
pub fn kernel(from: DType, to: DType) -> Result<Kernel<1>> {
    with_all!("cast", from, A => with_all!("cast", to, R => {
        Ok(Kernel::cheap(row1(|x: A| To::<R>::to(x))))
    }))
}
