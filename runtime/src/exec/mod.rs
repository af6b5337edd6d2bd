//! Executes one op on a backend.

use burn_backend::tensor::Device;
use burn_backend::{FloatDType, IntDType, Shape};

use crate::backend::ExecBackend;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::value::{Ty, Val};

/// Runs `op`; arguments are moved in, so that Burn can work in place at a value's last use.
pub fn execute<B: ExecBackend>(
    device: &Device<B>,
    op: &Op<usize>,
    args: Vec<Val<B>>,
    arg_types: &[Ty],
    outs: &[Ty],
) -> Result<Vec<Val<B>>> {
    let _ = (device, arg_types, IntDType::I32);
    let none = || Error::unsupported("not there yet").at_op(op.info().name);
    let shape = Shape::from(outs[0].storage_shape());
    let mut args = args.into_iter();
    let mut next = || args.next().ok_or_else(none);
    let float = |v: Val<B>| match v {
        Val::Float(t) => Ok(t),
        _ => Err(none()),
    };
    Ok(vec![match op {
        Op::Neg => Val::Float(B::float_neg(float(next()?)?)),
        Op::Exp => Val::Float(B::float_exp(float(next()?)?)),
        Op::Tanh => Val::Float(B::float_tanh(float(next()?)?)),
        Op::Add => match (next()?, next()?) {
            (Val::Float(x), Val::Float(y)) => Val::Float(B::float_add(x, y)),
            (Val::Int(x), Val::Int(y)) => Val::Int(B::int_add(x, y)),
            _ => return Err(none()),
        },
        Op::Mul => match (next()?, next()?) {
            (Val::Float(x), Val::Float(y)) => Val::Float(B::float_mul(x, y)),
            (Val::Int(x), Val::Int(y)) => Val::Int(B::int_mul(x, y)),
            _ => return Err(none()),
        },
        Op::Maximum => {
            let (x, y) = (float(next()?)?, float(next()?)?);
            let less = B::float_lower(
                x.clone(),
                y.clone(),
                match B::BOOL {
                    burn_std::BoolStore::Native => burn_std::BoolDType::Native,
                    burn_std::BoolStore::U8 => burn_std::BoolDType::U8,
                    burn_std::BoolStore::U32 => burn_std::BoolDType::U32,
                },
            );
            Val::Float(B::float_mask_where(x, less, y))
        }
        Op::Sum { axes } => {
            let axes: Vec<usize> = axes.iter().map(|a| *a as usize).collect();
            Val::Float(B::float_reshape(
                B::float_sum_dims(float(next()?)?, &axes),
                shape,
            ))
        }
        Op::DotGeneral { .. } if outs[0].rank() == 2 => {
            Val::Float(B::float_matmul(float(next()?)?, float(next()?)?))
        }
        Op::BroadcastTo { .. } => Val::Float(B::float_expand(float(next()?)?, shape)),
        Op::Reshape { .. } => Val::Float(B::float_reshape(float(next()?)?, shape)),
        Op::Transpose { axes } => {
            let axes: Vec<usize> = axes.iter().map(|a| *a as usize).collect();
            Val::Float(B::float_permute(float(next()?)?, &axes))
        }
        Op::Cast { .. } => Val::Float(B::float_cast(float(next()?)?, FloatDType::F32)),
        _ => return Err(none()),
    }])
}
