//! What ops do with the storage of their operands on host memory.

use crate::op::{Family, Op};
use crate::value::Ty;

/// True when the result has the elements of the first operand where they lie, or a dense copy where they cannot be seen in
/// its shape.
pub fn permutes(op: &Op<usize>, args: &[Ty], out: &Ty) -> bool {
    match op {
        Op::Cast { .. } => args.first().is_some_and(|x| x.dtype == out.dtype),
        Op::Sum { axes } | Op::Prod { axes } | Op::Max { axes } | Op::Min { axes } => {
            axes.is_empty()
        }
        _ => matches!(
            op,
            Op::Reshape { .. }
                | Op::Transpose { .. }
                | Op::BroadcastTo { .. }
                | Op::Slice { .. }
                | Op::Flip { .. }
                | Op::StopGradient
                | Op::RandomWrap
                | Op::RandomUnwrap
        ),
    }
}

/// True when the result takes the memory of the first operand, if nobody else holds it.
pub fn rewrites(op: &Op<usize>) -> bool {
    matches!(
        op,
        Op::ScatterAdd { .. }
            | Op::ScatterSet { .. }
            | Op::ScatterMul { .. }
            | Op::ScatterMax { .. }
            | Op::ScatterMin { .. }
            | Op::DynamicUpdateSlice
    )
}

/// True when operands that are not dense are copied first.
pub fn wants_dense(op: &Op<usize>) -> bool {
    matches!(
        op.info().family,
        Family::Window | Family::Fourier | Family::Matrix
    ) || matches!(
        op,
        Op::Gather { .. }
            | Op::Cumsum { .. }
            | Op::Cummax { .. }
            | Op::Sort { .. }
            | Op::Argsort { .. }
            | Op::Argmax { .. }
            | Op::Argmin { .. }
            | Op::Conv { .. }
            | Op::ConvInputGrad { .. }
            | Op::ConvWeightGrad { .. }
            | Op::RandomFoldIn
            | Op::RandomBits { .. }
    )
}
