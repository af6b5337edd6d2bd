//! How much memory an op may need besides its operands and results.

use crate::op::Op;
use crate::value::Ty;

/// An upper bound of the bytes of padded copies, for the memory estimate: sizes that appear in no type.
pub fn scratch_bytes(op: &Op<usize>, args: &[Ty], outs: &[Ty]) -> usize {
    match op {
        Op::WindowSum { low, high, .. }
        | Op::WindowMax { low, high, .. }
        | Op::WindowMaxSpread { low, high, .. }
        | Op::WindowMaxPick { low, high, .. } => padded(&args[0], 0, low, high),
        Op::Conv { low, high, .. } | Op::ConvWeightGrad { low, high, .. } => {
            padded(&args[0], 2, low, high)
        }
        Op::ConvInputGrad { low, high, .. } => padded(&outs[0], 2, low, high),
        _ => 0,
    }
}

fn padded(x: &Ty, lead: usize, low: &[i64], high: &[i64]) -> usize {
    x.shape
        .iter()
        .enumerate()
        .map(|(i, &n)| {
            let at = i.checked_sub(lead);
            let extra = |list: &[i64]| {
                at.and_then(|a| list.get(a))
                    .map_or(0, |n| usize::try_from(*n).unwrap_or(0))
            };
            n.saturating_add(extra(low)).saturating_add(extra(high))
        })
        .fold(x.dtype.itemsize(), usize::saturating_mul)
}
