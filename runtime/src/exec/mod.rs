//! Runs one op.
//!
//! On Flex most ops run on the kernels of [`crate::host`]; the others are views, matrix products and convolutions of
//! Burn. A backend without host memory runs Burn's primitive where it means the same.

mod contraction;
mod conv;
mod elementwise;
mod indexing;
mod movement;
mod random;
mod reduction;
mod window;

pub use elementwise::{Map, map_into, map_new};

use std::cell::Cell;

use burn_backend::tensor::Device;
use burn_std::Bytes;

use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::binary::Binary as Bi;
use crate::host::indexing::Update;
use crate::host::reduce::Reduce;
use crate::host::unary::Unary as Un;
use crate::op::{Family, Op};
use crate::value::{Ty, Val};

/// One op with its operands.
struct Call<'a, B: ExecBackend> {
    device: &'a Device<B>,
    name: &'static str,
    args: Vec<Val<B>>,
    types: &'a [Ty],
    out: &'a Ty,
    /// Set when nothing is to be run: takes the kernel that would be.
    choice: Option<&'a Cell<Option<Map>>>,
}

impl<B: ExecBackend> Call<'_, B> {
    /// The operands, when there are `N`.
    fn take<const N: usize>(&mut self) -> Result<[Val<B>; N]> {
        let args = std::mem::take(&mut self.args);
        let n = args.len();
        args.try_into()
            .map_err(|_| Error::invalid_program(format!("{} operands instead of {N}", n)))
    }

    /// A result that a host kernel made.
    fn upload(&self, bytes: Bytes) -> Result<Val<B>> {
        B::upload(bytes, self.out, self.device)
    }

    /// Refuses backends without host memory, before anything is computed.
    fn need_host(&self) -> Result<()> {
        if B::HOST {
            Ok(())
        } else {
            Err(no_host::<B>(self.name))
        }
    }
}

/// Runs a verified `op` on operands of `arg_types`, giving a value of type `out`. Operands are moved in, so that work
/// is done in place where nobody else holds them. `constant` and `call` are the engine's.
pub fn execute<B: ExecBackend>(
    device: &Device<B>,
    op: &Op<usize>,
    args: Vec<Val<B>>,
    arg_types: &[Ty],
    out: &Ty,
) -> Result<Val<B>> {
    let name = op.info().name;
    let c = Call {
        device,
        name,
        args,
        types: arg_types,
        out,
        choice: None,
    };
    run(c, op).map_err(|e| e.at_op(name))
}

/// The kernel of an elementwise op on host memory, for plans to choose once; none where there is no such kernel.
pub fn choose<B: ExecBackend>(
    device: &Device<B>,
    op: &Op<usize>,
    arg_types: &[Ty],
    out: &Ty,
) -> Option<Map> {
    let family = op.info().family;
    let elementwise = matches!(family, Family::Unary | Family::Binary | Family::Ternary);
    if !B::HOST || !elementwise || out.dtype == DType::Key {
        return None;
    }
    let choice = Cell::new(None);
    let c: Call<'_, B> = Call {
        device,
        name: op.info().name,
        args: Vec::new(),
        types: arg_types,
        out,
        choice: Some(&choice),
    };
    // What has no kernel fails for the want of operands.
    let _ = run(c, op);
    choice.take()
}

fn run<B: ExecBackend>(c: Call<'_, B>, op: &Op<usize>) -> Result<Val<B>> {
    match op {
        Op::Neg => c.unary(Un::Neg, Some(B::float_neg)),
        Op::Abs => c.unary(Un::Abs, Some(B::float_abs)),
        Op::Sign => c.unary(Un::Sign, None),
        Op::Floor => c.unary(Un::Floor, Some(B::float_floor)),
        Op::Ceil => c.unary(Un::Ceil, Some(B::float_ceil)),
        Op::Trunc => c.unary(Un::Trunc, Some(B::float_trunc)),
        Op::Round => c.unary(Un::Round, Some(B::float_round)),
        Op::Exp => c.unary(Un::Exp, Some(B::float_exp)),
        Op::Expm1 => c.unary(Un::Expm1, None),
        Op::Log => c.unary(Un::Log, Some(B::float_log)),
        Op::Log1p => c.unary(Un::Log1p, Some(B::float_log1p)),
        Op::Sqrt => c.unary(Un::Sqrt, Some(B::float_sqrt)),
        Op::Rsqrt => c.unary(Un::Rsqrt, Some(|x| B::float_recip(B::float_sqrt(x)))),
        Op::Sin => c.unary(Un::Sin, Some(B::float_sin)),
        Op::Cos => c.unary(Un::Cos, Some(B::float_cos)),
        Op::Tan => c.unary(Un::Tan, Some(B::float_tan)),
        Op::Arcsin => c.unary(Un::Arcsin, Some(B::float_asin)),
        Op::Arccos => c.unary(Un::Arccos, Some(B::float_acos)),
        Op::Arctan => c.unary(Un::Arctan, Some(B::float_atan)),
        Op::Sinh => c.unary(Un::Sinh, Some(B::float_sinh)),
        Op::Cosh => c.unary(Un::Cosh, Some(B::float_cosh)),
        Op::Tanh => c.unary(Un::Tanh, Some(B::float_tanh)),
        Op::Arcsinh => c.unary(Un::Arcsinh, Some(B::float_asinh)),
        Op::Arccosh => c.unary(Un::Arccosh, Some(B::float_acosh)),
        Op::Arctanh => c.unary(Un::Arctanh, Some(B::float_atanh)),
        Op::Erf => c.unary(Un::Erf, Some(B::float_erf)),
        Op::Sigmoid => c.unary(Un::Sigmoid, Some(B::sigmoid)),
        Op::Isfinite => c.unary(Un::Isfinite, None),
        Op::Isnan => c.unary(Un::Isnan, None),
        Op::BitwiseNot => c.unary(Un::BitwiseNot, None),
        Op::StopGradient => c.identity(),
        Op::Cast { .. } => c.cast(),
        Op::Add => c.binary(Bi::Add, Some(B::float_add)),
        Op::Sub => c.binary(Bi::Sub, Some(B::float_sub)),
        Op::Mul => c.binary(Bi::Mul, Some(B::float_mul)),
        Op::Div => c.binary(Bi::Div, Some(B::float_div)),
        Op::FloorDivide => c.binary(Bi::FloorDivide, None),
        Op::Remainder => c.binary(Bi::Remainder, None),
        Op::Power => c.binary(Bi::Power, Some(B::float_powf)),
        Op::Maximum => c.binary(Bi::Maximum, None),
        Op::Minimum => c.binary(Bi::Minimum, None),
        Op::Arctan2 => c.binary(Bi::Arctan2, Some(B::float_atan2)),
        Op::MulStrongZero => c.binary(Bi::MulStrongZero, None),
        Op::Equal => c.binary(Bi::Equal, None),
        Op::NotEqual => c.binary(Bi::NotEqual, None),
        Op::Less => c.binary(Bi::Less, None),
        Op::LessEqual => c.binary(Bi::LessEqual, None),
        Op::Greater => c.binary(Bi::Greater, None),
        Op::GreaterEqual => c.binary(Bi::GreaterEqual, None),
        Op::BitwiseAnd => c.binary(Bi::BitwiseAnd, None),
        Op::BitwiseOr => c.binary(Bi::BitwiseOr, None),
        Op::BitwiseXor => c.binary(Bi::BitwiseXor, None),
        Op::LeftShift => c.binary(Bi::LeftShift, None),
        Op::RightShift => c.binary(Bi::RightShift, None),
        Op::Select => c.select(),
        Op::Reshape { .. } => c.reshape(),
        Op::Transpose { axes } => c.transpose(axes),
        Op::BroadcastTo { .. } => c.broadcast_to(),
        Op::Slice { start, stop, step } => c.slice(start, stop, step),
        Op::Pad { low, interior, .. } => c.pad(low, interior),
        Op::Concatenate { axis } => c.concatenate(*axis),
        Op::Flip { axes } => c.flip(axes),
        Op::Iota { axis, .. } => c.iota(*axis),
        Op::Constant { .. } => Err(c.not_an_op()),
        Op::Gather {
            axis,
            batch_dims,
            mode,
        } => c.gather(*axis, *batch_dims, mode),
        Op::ScatterAdd {
            axis,
            batch_dims,
            mode,
        } => c.scatter(Update::Add, *axis, *batch_dims, mode),
        Op::ScatterSet {
            axis,
            batch_dims,
            mode,
        } => c.scatter(Update::Set, *axis, *batch_dims, mode),
        Op::DynamicSlice { sizes } => c.dynamic_slice(sizes),
        Op::DynamicUpdateSlice => c.dynamic_update_slice(),
        Op::Sum { axes } => c.reduce(Reduce::Sum, axes),
        Op::Prod { axes } => c.reduce(Reduce::Prod, axes),
        Op::Max { axes } => c.reduce(Reduce::Max, axes),
        Op::Min { axes } => c.reduce(Reduce::Min, axes),
        Op::Argmax { axis } => c.arg_extreme(*axis, true),
        Op::Argmin { axis } => c.arg_extreme(*axis, false),
        Op::Cumsum { axis, reverse } => c.cumsum(*axis, *reverse),
        Op::Cummax { axis, reverse } => c.cummax(*axis, *reverse),
        Op::Sort { axis } => c.sort(*axis),
        Op::Argsort { axis } => c.argsort(*axis),
        Op::DotGeneral {
            contract_x,
            contract_y,
            batch_x,
            batch_y,
        } => c.dot_general([contract_x, contract_y], [batch_x, batch_y]),
        Op::Conv {
            strides,
            low,
            high,
            dilation,
            groups,
        } => c.conv(conv::Geometry::new(strides, low, high, dilation, *groups)),
        Op::ConvInputGrad {
            strides,
            low,
            high,
            dilation,
            groups,
            ..
        } => c.conv_input_grad(conv::Geometry::new(strides, low, high, dilation, *groups)),
        Op::ConvWeightGrad {
            strides,
            low,
            high,
            dilation,
            groups,
            ..
        } => c.conv_weight_grad(conv::Geometry::new(strides, low, high, dilation, *groups)),
        Op::WindowSum {
            window,
            strides,
            low,
            ..
        } => c.window_sum(window, strides, low),
        Op::WindowMax {
            window,
            strides,
            low,
            ..
        } => c.window_max(window, strides, low),
        Op::WindowMaxSpread {
            window,
            strides,
            low,
            ..
        } => c.window_max_spread(window, strides, low),
        Op::WindowMaxPick {
            window,
            strides,
            low,
            ..
        } => c.window_max_pick(window, strides, low),
        Op::RandomWrap => c.identity(),
        Op::RandomUnwrap => c.identity(),
        Op::RandomFoldIn => c.random_fold_in(),
        Op::RandomBits { .. } => c.random_bits(),
        Op::Call { .. } | Op::Fused { .. } => Err(c.not_an_op()),
    }
}
