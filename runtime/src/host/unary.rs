//! One operand.

use super::bad_dtype;
use super::num::{Elem, Flag, Int, Num, Real};
use super::row::{Kernel, calls1, row1, turn1};
use super::stage::{home, load, ring, store};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Unary;

/// The kernel for `op` on an operand of `dtype`.
pub fn kernel(op: Unary, dtype: DType) -> Result<Kernel<1>> {
    use Unary as U;
    let name = op.info().name;
    if !op.info().accepts(dtype) {
        return Err(bad_dtype(name, dtype));
    }
    let (here, wrapped) = (home(dtype), ring(dtype));
    let through = |kernel: Kernel<1>| kernel.staged(load(dtype), store(dtype));
    let wrapping = |kernel: Kernel<1>| {
        if wrapped.itemsize() == dtype.itemsize() {
            kernel
        } else {
            kernel.staged(load(dtype), store(dtype))
        }
    };
    macro_rules! cheap {
        ($f:ident) => {
            through(with_real!(name, here, T => Kernel::cheap(row1(|x: T| Real::$f(x)))))
        };
    }
    macro_rules! dear {
        ($f:ident) => {
            through(with_real!(name, here, T => Kernel::dear(calls1(|x: T| Real::$f(x)))))
        };
    }
    Ok(match op {
        U::Neg => wrapping(with_ring!(name, wrapped, T => Kernel::cheap(row1(|x: T| Num::neg(x))))),
        U::Abs => through(with_home!(name, here, T => Kernel::cheap(row1(|x: T| Num::abs(x))))),
        U::Sign => through(with_home!(name, here, T => Kernel::cheap(row1(|x: T| x.sign())))),
        U::BitwiseNot if dtype.is_bool() => Kernel::cheap(row1(|x: u8| (x == 0) as u8)),
        U::BitwiseNot => {
            wrapping(with_words!(name, wrapped, T => Kernel::cheap(row1(|x: T| Int::not(x)))))
        }
        U::Popcount => {
            with_bits!(dtype.itemsize(), T => Kernel::cheap(row1(|x: T| x.count_ones() as T)))
        }
        U::Clz => {
            with_bits!(dtype.itemsize(), T => Kernel::cheap(row1(|x: T| x.leading_zeros() as T)))
        }
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
        U::Isfinite => {
            with_real!(name, here, T => Kernel::cheap(turn1(|x: T| Flag::of(x.finite()))))
                .staged(load(dtype), None)
        }
        U::Isnan => {
            with_real!(name, here, T => Kernel::cheap(turn1(|x: T| Flag::of(Elem::is_nan(x)))))
                .staged(load(dtype), None)
        }
    })
}
