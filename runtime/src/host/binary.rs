//! Two operands of one dtype.

use super::bad_dtype;
use super::num::{Elem, Flag, Int, Num, Real};
use super::row::{Kernel, calls2, row2, turn2};
use super::stage::{home, load, ring, store};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Binary;

/// The kernel for `op` on operands of `dtype`.
pub fn kernel(op: Binary, dtype: DType) -> Result<Kernel<2>> {
    use Binary as B;
    let name = op.info().name;
    if !op.info().accepts(dtype) {
        return Err(bad_dtype(name, dtype));
    }
    let (here, wrapped) = (home(dtype), ring(dtype));
    // Of the results of an op that wraps, only the low bits are kept: then `u32` counts as `i32`.
    let through = |kernel: Kernel<2>| kernel.staged(load(dtype), store(dtype));
    let wrapping = |kernel: Kernel<2>| {
        if wrapped.itemsize() == dtype.itemsize() {
            kernel
        } else {
            kernel.staged(load(dtype), store(dtype))
        }
    };
    let flags = |kernel: Kernel<2>| kernel.staged(load(dtype), None);
    let equality = |kernel: Kernel<2>| {
        if wrapped.itemsize() == dtype.itemsize() {
            kernel
        } else {
            kernel.staged(load(dtype), None)
        }
    };
    macro_rules! order {
        ($f:expr) => {
            flags(with_home!(name, here, T => Kernel::cheap(turn2::<T, Flag, _>($f))))
        };
    }
    macro_rules! bits {
        ($int:ident, $op:tt) => {
            match dtype.itemsize() {
                1 => Kernel::cheap(row2(|a: u8, b: u8| a $op b)),
                _ => wrapping(with_words!(name, wrapped, T => Kernel::cheap(row2(|a: T, b: T| Int::$int(a, b))))),
            }
        };
    }
    Ok(match op {
        B::Add => {
            wrapping(with_ring!(name, wrapped, T => Kernel::cheap(row2(|a: T, b: T| a.add(b)))))
        }
        B::Sub => {
            wrapping(with_ring!(name, wrapped, T => Kernel::cheap(row2(|a: T, b: T| a.sub(b)))))
        }
        B::Mul => {
            wrapping(with_ring!(name, wrapped, T => Kernel::cheap(row2(|a: T, b: T| a.mul(b)))))
        }
        B::FloorDivide => {
            through(with_home!(name, here, T => Kernel::dear(calls2(|a: T, b: T| a.floor_div(b)))))
        }
        B::Remainder => {
            through(with_home!(name, here, T => Kernel::dear(calls2(|a: T, b: T| Num::rem(a, b)))))
        }
        B::Power => {
            through(with_home!(name, here, T => Kernel::dear(calls2(|a: T, b: T| Num::pow(a, b)))))
        }
        B::Maximum => {
            through(with_home!(name, here, T => Kernel::cheap(row2(|a: T, b: T| a.larger(b)))))
        }
        B::Minimum => {
            through(with_home!(name, here, T => Kernel::cheap(row2(|a: T, b: T| a.smaller(b)))))
        }
        B::Equal => equality(
            with_ring!(name, wrapped, T => Kernel::cheap(turn2(|a: T, b: T| Flag::of(a == b)))),
        ),
        B::NotEqual => equality(
            with_ring!(name, wrapped, T => Kernel::cheap(turn2(|a: T, b: T| Flag::of(a != b)))),
        ),
        B::Less => order!(|a, b| Flag::of(a < b)),
        B::LessEqual => order!(|a, b| Flag::of(a <= b)),
        B::Greater => order!(|a, b| Flag::of(a > b)),
        B::GreaterEqual => order!(|a, b| Flag::of(a >= b)),
        B::BitwiseAnd => bits!(and, &),
        B::BitwiseOr => bits!(or, |),
        B::BitwiseXor => bits!(xor, ^),
        B::LeftShift => wrapping(
            with_words!(name, wrapped, T => Kernel::cheap(row2(|a: T, b: T| Int::shl(a, b)))),
        ),
        B::RightShift => match dtype {
            // Random numbers are made with it.
            DType::U32 => Kernel::cheap(row2(|a: u32, b: u32| Int::shr(a, b))),
            DType::U64 => Kernel::cheap(row2(|a: u64, b: u64| Int::shr(a, b))),
            DType::I64 => Kernel::cheap(row2(|a: i64, b: i64| Int::shr(a, b))),
            _ => through(Kernel::cheap(row2(|a: i32, b: i32| Int::shr(a, b)))),
        },
        B::Div => {
            through(with_real!(name, here, T => Kernel::cheap(row2(|a: T, b: T| Real::div(a, b)))))
        }
        B::Arctan2 => {
            through(with_real!(name, here, T => Kernel::dear(calls2(|a: T, b: T| a.arctan2(b)))))
        }
        B::MulStrongZero => through(with_real!(name, here, T => Kernel::cheap(row2(
            |a: T, b: T| if a == T::ZERO { T::ZERO } else { a.mul(b) },
        )))),
    })
}
