//! Two operands of one dtype.

use super::bad_dtype;
use super::nest::{Kernel, row2};
use super::num::{Elem, Flag, Float, Int, Num, Real};
use crate::dtype::DType;
use crate::error::Result;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDivide,
    Remainder,
    Power,
    Maximum,
    Minimum,
    Arctan2,
    MulStrongZero,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    LeftShift,
    RightShift,
}

/// The kernel for `op` on operands of `dtype`.
pub fn kernel(op: Binary, dtype: DType) -> Result<Kernel<2>> {
    use Binary as B;
    let name = "this elementwise op";
    macro_rules! num {
        ($make:ident, $f:expr) => {
            with_num!(name, dtype, T => Kernel::$make(row2::<T, T, T, _>($f)))
        };
    }
    macro_rules! all {
        ($R:ty, $f:expr) => {
            with_all!(name, dtype, T => Kernel::cheap(row2::<T, T, $R, _>($f)))
        };
    }
    macro_rules! bits {
        ($int:ident, $flag:expr) => {
            match dtype {
                DType::Bool => Kernel::cheap(row2($flag)),
                _ => with_int!(name, dtype, T => Kernel::cheap(row2(|a: T, b: T| Int::$int(a, b)))),
            }
        };
    }
    Ok(match op {
        B::Add => num!(cheap, |a, b| a.add(b)),
        B::Sub => num!(cheap, |a, b| a.sub(b)),
        B::Mul => num!(cheap, |a, b| a.mul(b)),
        B::FloorDivide => num!(dear, |a, b| a.floor_div(b)),
        B::Remainder => num!(dear, Num::rem),
        B::Power => num!(dear, Num::pow),
        B::Maximum => with_all!(name, dtype, T => Kernel::cheap(row2(|a: T, b: T| a.larger(b)))),
        B::Minimum => with_all!(name, dtype, T => Kernel::cheap(row2(|a: T, b: T| a.smaller(b)))),
        B::Equal => all!(Flag, |a, b| Flag::of(a == b)),
        B::NotEqual => all!(Flag, |a, b| Flag::of(a != b)),
        B::Less => all!(Flag, |a, b| Flag::of(a < b)),
        B::LessEqual => all!(Flag, |a, b| Flag::of(a <= b)),
        B::Greater => all!(Flag, |a, b| Flag::of(a > b)),
        B::GreaterEqual => all!(Flag, |a, b| Flag::of(a >= b)),
        B::BitwiseAnd => bits!(and, |a: Flag, b: Flag| Flag::of(a.get() & b.get())),
        B::BitwiseOr => bits!(or, |a: Flag, b: Flag| Flag::of(a.get() | b.get())),
        B::BitwiseXor => bits!(xor, |a: Flag, b: Flag| Flag::of(a.get() ^ b.get())),
        B::LeftShift => {
            with_int!(name, dtype, T => Kernel::cheap(row2(|a: T, b: T| Int::shl(a, b))))
        }
        B::RightShift => {
            with_int!(name, dtype, T => Kernel::cheap(row2(|a: T, b: T| Int::shr(a, b))))
        }
        B::Div | B::Arctan2 | B::MulStrongZero => {
            with_float!(name, dtype, T => float::<T>(op).ok_or_else(|| bad_dtype(name, dtype))?)
        }
    })
}

fn float<T: Float>(op: Binary) -> Option<Kernel<2>> {
    Some(match op {
        Binary::Div => Kernel::cheap(row2(|a: T, b: T| {
            T::from_calc(Real::div(a.calc(), b.calc()))
        })),
        Binary::Arctan2 => {
            Kernel::dear(row2(|a: T, b: T| T::from_calc(a.calc().arctan2(b.calc()))))
        }
        Binary::MulStrongZero => Kernel::cheap(row2(|a: T, b: T| {
            if a.calc() == T::Calc::ZERO {
                T::ZERO
            } else {
                a.mul(b)
            }
        })),
        _ => return None,
    })
}
