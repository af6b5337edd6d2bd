//! Runs one op.
//!
//! On Flex most ops run on the kernels of [`crate::host`]; the others are views, matrix products and convolutions of
//! Burn. A backend without host memory runs Burn's primitive where it means the same.

mod contraction;
mod conv;
mod elementwise;
mod fourier;
mod indexing;
mod matrix;
mod movement;
mod random;
mod reduction;
mod route;
mod window;

pub use elementwise::{Map, map_into, map_new};

use std::cell::Cell;

use burn_backend::tensor::Device;
use burn_std::Bytes;

use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::indexing::Update;
use crate::host::matrix::Factor;
use crate::host::reduce::Reduce;
use crate::op::{Binary, Family, Op};
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
    if B::RECORDS && !is_recorded(op, arg_types, out) {
        let args = args.into_iter().map(B::inner).collect();
        return execute::<B::Inner>(device, op, args, arg_types, out).map(B::outer);
    }
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

/// True where a gradient may go through: from floats to floats, and not by steps.
fn is_recorded(op: &Op<usize>, args: &[Ty], out: &Ty) -> bool {
    let steps = matches!(op, Op::StopGradient | Op::Binary(Binary::FloorDivide));
    out.dtype.is_float() && args.iter().any(|t| t.dtype.is_float()) && !steps
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
        Op::Unary(op) => c.unary(*op),
        Op::StopGradient => c.identity(),
        Op::Cast { .. } => c.cast(),
        Op::Binary(op) => c.binary(*op),
        Op::Select => c.select(),
        Op::Reshape { .. } => c.reshape(),
        Op::Transpose { axes } => c.transpose(axes),
        Op::BroadcastTo { .. } => c.broadcast_to(),
        Op::Slice { start, stop, step } => c.slice(start, stop, step),
        Op::Pad { .. } | Op::Gather { .. } | Op::ScatterSet { .. } if !B::HOST => c.routed(op),
        Op::ScatterAdd {
            axis,
            batch_dims,
            mode,
        } if !B::HOST => c.added(*axis, *batch_dims, mode),
        Op::ScatterMul {
            axis,
            batch_dims,
            mode,
        } if !B::HOST => c.joined(Reduce::Prod, *axis, *batch_dims, mode),
        Op::ScatterMax {
            axis,
            batch_dims,
            mode,
        } if !B::HOST => c.joined(Reduce::Max, *axis, *batch_dims, mode),
        Op::ScatterMin {
            axis,
            batch_dims,
            mode,
        } if !B::HOST => c.joined(Reduce::Min, *axis, *batch_dims, mode),
        Op::Pad { low, interior, .. } => c.pad(low, interior),
        Op::Concatenate { axis } => c.concatenate(*axis),
        Op::Flip { axes } => c.flip(axes),
        Op::Iota { axis, .. } => c.iota(*axis),
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
        Op::ScatterMul {
            axis,
            batch_dims,
            mode,
        } => c.scatter(Update::Mul, *axis, *batch_dims, mode),
        Op::ScatterMax {
            axis,
            batch_dims,
            mode,
        } => c.scatter(Update::Max, *axis, *batch_dims, mode),
        Op::ScatterMin {
            axis,
            batch_dims,
            mode,
        } => c.scatter(Update::Min, *axis, *batch_dims, mode),
        Op::Bitcast { .. } => c.bitcast(),
        Op::Fft { axis, inverse } => c.fft(*axis, *inverse),
        Op::Rfft { axis } => c.rfft(*axis),
        Op::Irfft { axis, length } => c.irfft(*axis, length[0]),
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
        Op::Cumprod { axis, reverse } => c.cumprod(*axis, *reverse),
        Op::LinearScan { axis, reverse } => c.linear_scan(*axis, *reverse),
        Op::Cumlogsumexp { axis, reverse } => c.cumlogsumexp(*axis, *reverse),
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
        Op::Cholesky { pairs } => c.factor(Factor::Cholesky, *pairs),
        Op::Lu { pairs } => c.factor(Factor::Lu, *pairs),
        Op::Qr { pairs } => c.factor(Factor::Qr, *pairs),
        Op::Complement { pairs } => c.factor(Factor::Complement, *pairs),
        Op::Eigh { vectors, pairs } => c.factor(Factor::Eigh { vectors: *vectors }, *pairs),
        Op::Svd { vectors, pairs } => c.factor(Factor::Svd { vectors: *vectors }, *pairs),
        Op::Eig { vectors, pairs } => c.factor(Factor::Eig { vectors: *vectors }, *pairs),
        Op::Solve { pairs } => c.solve(*pairs),
        Op::TriangularSolve {
            lower,
            transpose,
            unit,
            pairs,
        } => c.triangular_solve(*lower, *transpose, *unit, *pairs),
        Op::RandomWrap => c.identity(),
        Op::RandomUnwrap => c.identity(),
        Op::RandomFoldIn => c.random_fold_in(),
        Op::RandomBits { .. } => c.random_bits(),
        Op::Constant { .. }
        | Op::Call { .. }
        | Op::CustomVjp { .. }
        | Op::Checkpoint { .. }
        | Op::Cond { .. }
        | Op::WhileLoop { .. }
        | Op::Scan { .. }
        | Op::Fused { .. }
        | Op::CustomJvp { .. }
        | Op::Token
        | Op::Print { .. }
        | Op::Tap { .. }
        | Op::Assert { .. }
        | Op::Callback { .. } => Err(c.not_an_op()),
    }
}
