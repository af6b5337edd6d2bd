//! One operand.

use super::bad_dtype;
use super::nest::{Kernel, row1};
use super::num::{Elem, Flag, Float, Int, Num, Real};
use crate::dtype::DType;
use crate::error::Result;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Floor,
    Ceil,
    Trunc,
    Round,
    Exp,
    Expm1,
    Log,
    Log1p,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Arcsinh,
    Arccosh,
    Arctanh,
    Erf,
    Sigmoid,
    Isfinite,
    Isnan,
    BitwiseNot,
}

/// The kernel for `op` on `dtype`.
pub fn kernel(op: Unary, dtype: DType) -> Result<Kernel<1>> {
    use Unary as U;
    let name = "this elementwise op";
    Ok(match op {
        U::Neg => with_num!(name, dtype, T => Kernel::cheap(row1(|x: T| x.neg()))),
        U::Abs => with_num!(name, dtype, T => Kernel::cheap(row1(|x: T| Num::abs(x)))),
        U::Sign => with_num!(name, dtype, T => Kernel::cheap(row1(|x: T| x.sign()))),
        U::BitwiseNot if dtype == DType::Bool => Kernel::cheap(row1(|x: Flag| Flag::of(!x.get()))),
        U::BitwiseNot => with_int!(name, dtype, T => Kernel::cheap(row1(|x: T| Int::not(x)))),
        _ => with_float!(name, dtype, T => float::<T>(op).ok_or_else(|| bad_dtype(name, dtype))?),
    })
}

fn float<T: Float>(op: Unary) -> Option<Kernel<1>> {
    use Unary as U;
    macro_rules! cheap {
        ($f:ident) => {
            Kernel::cheap(row1(|x: T| T::from_calc(Real::$f(x.calc()))))
        };
    }
    macro_rules! dear {
        ($f:ident) => {
            Kernel::dear(row1(|x: T| T::from_calc(Real::$f(x.calc()))))
        };
    }
    Some(match op {
        U::Neg | U::Abs | U::Sign | U::BitwiseNot => return None,
        U::Floor => cheap!(floor),
        U::Ceil => cheap!(ceil),
        U::Trunc => cheap!(trunc),
        U::Round => cheap!(round_even),
        U::Exp => dear!(exp),
        U::Expm1 => dear!(expm1),
        U::Log => dear!(log),
        U::Log1p => dear!(log1p),
        U::Sqrt => cheap!(sqrt),
        U::Rsqrt => cheap!(rsqrt),
        U::Sin => dear!(sin),
        U::Cos => dear!(cos),
        U::Tan => dear!(tan),
        U::Arcsin => dear!(arcsin),
        U::Arccos => dear!(arccos),
        U::Arctan => dear!(arctan),
        U::Sinh => dear!(sinh),
        U::Cosh => dear!(cosh),
        U::Tanh => dear!(tanh),
        U::Arcsinh => dear!(arcsinh),
        U::Arccosh => dear!(arccosh),
        U::Arctanh => dear!(arctanh),
        U::Erf => dear!(erf),
        U::Sigmoid => dear!(sigmoid),
        U::Isfinite => Kernel::cheap(row1(|x: T| Flag::of(x.calc().finite()))),
        U::Isnan => Kernel::cheap(row1(|x: T| Flag::of(Elem::is_nan(x)))),
    })
}
