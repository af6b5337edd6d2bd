//! The concrete type rule of every op. Together with `verify` this is what stands between a hostile file and the
//! backend: whatever passes here has valid axes, sizes and dtypes.

mod contraction;
mod elementwise;
mod fourier;
mod matrix;
mod movement;
mod reduction;
mod scratch;
mod storage;

pub use scratch::{has_scratch, scratch_bytes};
pub use storage::{permutes, rewrites, wants_dense};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Family, Op, OpInfo, ResultType};
use crate::value::Ty;

/// The result types of `op`, or an error that names the op and the operands.
pub fn infer(op: &Op<usize>, args: &[Ty]) -> Result<Vec<Ty>> {
    let info = op.info();
    let rule = Rule { info, args };
    rule.no_tokens()
        .and_then(|()| rule.result(op))
        .map(|ty| vec![ty])
        .map_err(|e| {
            let types: Vec<String> = args.iter().map(Ty::to_string).collect();
            let mut e = e.at_op(info.name);
            if !types.is_empty() {
                e.message = format!("{} (operands: {})", e.message, types.join(", "));
            }
            e.with("operands", types)
        })
}

/// One application under judgement.
struct Rule<'a> {
    info: &'static OpInfo,
    args: &'a [Ty],
}

fn fail<T>(code: &str, message: impl Into<String>) -> Result<T> {
    Err(Error::argument(message).with_code(code))
}

impl<'a> Rule<'a> {
    fn result(&self, op: &Op<usize>) -> Result<Ty> {
        match op {
            Op::Unary(_) | Op::StopGradient => self.unary(),
            Op::Cast { dtype } => self.cast(*dtype),
            Op::Binary(_) => self.binary(),
            Op::Select => self.select(),
            Op::Reshape { shape } => self.reshape(shape),
            Op::Transpose { axes } => self.transpose(axes),
            Op::BroadcastTo { shape } => self.broadcast_to(shape),
            Op::Slice { start, stop, step } => self.slice(start, stop, step),
            Op::Pad {
                low,
                high,
                interior,
            } => self.pad(low, high, interior),
            Op::Concatenate { axis } => self.concatenate(*axis),
            Op::Flip { axes } => self.flip(axes),
            Op::Iota { shape, axis, dtype } => self.iota(shape, *axis, *dtype),
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
            | Op::Callback { .. } => fail("structure", "has a meaning inside a program only"),
            Op::Gather {
                axis,
                batch_dims,
                mode,
            } => self.gather(*axis, *batch_dims, mode),
            Op::ScatterAdd {
                axis,
                batch_dims,
                mode,
            }
            | Op::ScatterSet {
                axis,
                batch_dims,
                mode,
            }
            | Op::ScatterMul {
                axis,
                batch_dims,
                mode,
            }
            | Op::ScatterMax {
                axis,
                batch_dims,
                mode,
            }
            | Op::ScatterMin {
                axis,
                batch_dims,
                mode,
            } => self.scatter(*axis, *batch_dims, mode),
            Op::DynamicSlice { sizes } => self.dynamic_slice(sizes),
            Op::DynamicUpdateSlice => self.dynamic_update_slice(),
            Op::Sum { axes } | Op::Prod { axes } => self.reduce(axes, true),
            Op::Max { axes } | Op::Min { axes } => self.reduce(axes, false),
            Op::Argmax { axis } | Op::Argmin { axis } => self.arg_reduce(*axis),
            Op::Cumsum { axis, .. }
            | Op::Cummax { axis, .. }
            | Op::Cumprod { axis, .. }
            | Op::Cumlogsumexp { axis, .. }
            | Op::Sort { axis } => self.along(*axis, None),
            Op::LinearScan { axis, .. } => self.linear_scan(*axis),
            Op::Bitcast { dtype } => self.bitcast(*dtype),
            Op::Fft { axis, .. } => self.fft(*axis),
            Op::Rfft { axis } => self.rfft(*axis),
            Op::Irfft { axis, length } => self.irfft(*axis, length),
            Op::Argsort { axis } => self.along(*axis, Some(DType::I32)),
            Op::DotGeneral {
                contract_x,
                contract_y,
                batch_x,
                batch_y,
            } => self.dot_general(contract_x, contract_y, batch_x, batch_y),
            Op::Conv {
                strides,
                low,
                high,
                dilation,
                groups,
            } => self.conv(&contraction::Geometry {
                strides,
                low,
                high,
                dilation,
                groups: *groups,
            }),
            Op::ConvInputGrad {
                strides,
                low,
                high,
                dilation,
                groups,
                size,
            } => self.conv_input_grad(
                &contraction::Geometry {
                    strides,
                    low,
                    high,
                    dilation,
                    groups: *groups,
                },
                size,
            ),
            Op::ConvWeightGrad {
                strides,
                low,
                high,
                dilation,
                groups,
                size,
            } => self.conv_weight_grad(
                &contraction::Geometry {
                    strides,
                    low,
                    high,
                    dilation,
                    groups: *groups,
                },
                size,
            ),
            Op::WindowSum {
                window,
                strides,
                low,
                high,
            }
            | Op::WindowMax {
                window,
                strides,
                low,
                high,
            } => {
                self.arity(1)?;
                self.window(window, strides, low, high)
            }
            Op::WindowMaxSpread {
                window,
                strides,
                low,
                high,
            } => self.window_spread(window, strides, low, high),
            Op::WindowMaxPick {
                window,
                strides,
                low,
                high,
            } => self.window_pick(window, strides, low, high),
            Op::Cholesky { pairs } => self.factors(*pairs, matrix::same),
            Op::Lu { pairs } => self.factors(*pairs, matrix::lu),
            Op::Qr { pairs } => self.factors(*pairs, matrix::qr),
            Op::Complement { pairs } => self.factors(*pairs, matrix::complement),
            Op::Eigh { vectors, pairs } => self.factors(*pairs, matrix::eigh(*vectors)),
            Op::Svd { vectors, pairs } => self.factors(*pairs, matrix::svd(*vectors)),
            Op::Eig { vectors, pairs } => self.factors(*pairs, matrix::eig(*vectors, *pairs)),
            Op::Solve { pairs } | Op::TriangularSolve { pairs, .. } => self.solution(*pairs),
            Op::RandomWrap => self.random_wrap(),
            Op::RandomUnwrap => self.random_unwrap(),
            Op::RandomFoldIn => self.random_fold_in(),
            Op::RandomBits { shape, dtype } => self.random_bits(shape, *dtype),
        }
    }

    fn no_tokens(&self) -> Result<()> {
        match self.args.iter().any(|t| t.dtype == DType::Token) {
            true => fail("dtype", "does not take a token"),
            false => Ok(()),
        }
    }

    fn arity(&self, n: usize) -> Result<()> {
        if self.args.len() == n {
            Ok(())
        } else {
            fail(
                "arity",
                format!("takes {n} operands, not {}", self.args.len()),
            )
        }
    }

    /// Refuses a dtype that the table does not list.
    fn accepts(&self, ty: &Ty) -> Result<()> {
        if self.info.accepts(ty.dtype) {
            Ok(())
        } else {
            fail("dtype", format!("does not take {}", ty.dtype.name()))
        }
    }

    /// The only operand.
    fn one(&self) -> Result<&'a Ty> {
        self.arity(1)?;
        self.accepts(&self.args[0])?;
        Ok(&self.args[0])
    }

    /// Two operands of one dtype.
    fn two(&self) -> Result<(&'a Ty, &'a Ty)> {
        self.arity(2)?;
        let (x, y) = (&self.args[0], &self.args[1]);
        self.accepts(x)?;
        self.same_dtype(x, y)?;
        Ok((x, y))
    }

    fn same_dtype(&self, x: &Ty, y: &Ty) -> Result<()> {
        if x.dtype == y.dtype {
            Ok(())
        } else {
            fail(
                "dtype",
                format!("operands are {} and {}", x.dtype.name(), y.dtype.name()),
            )
        }
    }

    /// The dtype by the table, for families that share it.
    fn dtype(&self, operand: DType) -> DType {
        match self.info.result {
            ResultType::Bool => DType::Bool,
            ResultType::Same | ResultType::Own => operand,
        }
    }
}

/// True for ops that cannot fail once their types are right and need little memory: they may work in place on
/// values that a failed run must leave as they were.
pub fn is_infallible(op: &Op<usize>) -> bool {
    match op.info().family {
        Family::Unary | Family::Binary | Family::Ternary => true,
        Family::Movement => !matches!(
            op,
            Op::Gather { .. }
                | Op::ScatterAdd { .. }
                | Op::ScatterSet { .. }
                | Op::ScatterMul { .. }
                | Op::ScatterMax { .. }
                | Op::ScatterMin { .. }
        ),
        Family::Reduction
        | Family::Contraction
        | Family::Fourier
        | Family::Window
        | Family::Random
        | Family::Matrix
        | Family::Structure
        | Family::Effect => false,
    }
}

/// Axis numbers within `0..rank`, each once.
fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; rank];
    list.iter()
        .map(|&a| {
            let axis = axis(a, rank)?;
            if std::mem::replace(&mut seen[axis], true) {
                return fail("axis", format!("axis {a} stands twice"));
            }
            Ok(axis)
        })
        .collect()
}

fn axis(a: i64, rank: usize) -> Result<usize> {
    match usize::try_from(a) {
        Ok(axis) if axis < rank => Ok(axis),
        _ => fail("axis", format!("axis {a} is not in a rank of {rank}")),
    }
}

/// A list with one entry per axis, each at least `least`.
fn sizes(name: &str, list: &[i64], rank: usize, least: usize) -> Result<Vec<usize>> {
    if list.len() != rank {
        return fail(
            "attribute",
            format!("{name} has {} entries for {rank} axes", list.len()),
        );
    }
    list.iter()
        .map(|&n| match usize::try_from(n) {
            Ok(n) if n >= least && n <= LARGEST => Ok(n),
            _ => fail("attribute", format!("{name} holds {n}")),
        })
        .collect()
}

/// The largest size that an attribute may name: sums and products of a few of these fit in 128 bits, and sums in 64.
const LARGEST: usize = 1 << 46;
