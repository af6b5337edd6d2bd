//! How much memory an op may need besides its operands and results.

use crate::host::fourier::SCRATCH;
use crate::host::stage::home;
use crate::op::{Family, Op};
use crate::value::Ty;

/// An upper bound of the bytes of padded copies, and of copies in the dtype in which an op is computed, for the memory
/// estimate: sizes that appear in no type.
pub fn scratch_bytes(op: &Op<usize>, args: &[Ty], outs: &[Ty]) -> usize {
    let padding = match op {
        Op::WindowSum { low, high, .. }
        | Op::WindowMax { low, high, .. }
        | Op::WindowMaxSpread { low, high, .. }
        | Op::WindowMaxPick { low, high, .. } => padded(&args[0], 0, low, high),
        Op::Conv { low, high, .. } | Op::ConvWeightGrad { low, high, .. } => {
            padded(&args[0], 2, low, high)
        }
        Op::ConvInputGrad { low, high, .. } => padded(&outs[0], 2, low, high),
        // The places of the rows.
        Op::Gather { .. }
        | Op::ScatterAdd { .. }
        | Op::ScatterSet { .. }
        | Op::ScatterMul { .. }
        | Op::ScatterMax { .. }
        | Op::ScatterMin { .. } => args[1].elements().saturating_mul(size_of::<usize>()),
        Op::Fft { axis, .. } | Op::Rfft { axis } => transform(&args[0], *axis),
        Op::Irfft { axis, .. } => transform(&outs[0], *axis),
        _ => 0,
    };
    if !has_scratch(op) {
        return 0;
    }
    if matches!(op, Op::Gather { .. } | Op::ScatterSet { .. }) {
        return padding;
    }
    let types = args.iter().chain(outs);
    if op.info().family == Family::Matrix {
        // Copies in column-major order, and the factors before they are packed.
        return types
            .map(Ty::bytes)
            .fold(0, usize::saturating_add)
            .saturating_mul(4);
    }
    types.map(widened).fold(padding, usize::saturating_add)
}

/// False where [`scratch_bytes`] is 0 whatever the types.
pub fn has_scratch(op: &Op<usize>) -> bool {
    matches!(
        op.info().family,
        Family::Reduction | Family::Contraction | Family::Fourier | Family::Window | Family::Matrix
    ) || matches!(
        op,
        Op::Gather { .. }
            | Op::ScatterSet { .. }
            | Op::ScatterAdd { .. }
            | Op::ScatterMul { .. }
            | Op::ScatterMax { .. }
            | Op::ScatterMin { .. }
    )
}

/// The bytes of `x` in the dtype in which it is computed, where that is another one.
fn widened(x: &Ty) -> usize {
    match home(x.dtype).itemsize() {
        same if same == x.dtype.itemsize() => 0,
        itemsize => x.elements().saturating_mul(itemsize),
    }
}

/// The tables of a Fourier transform, and what each thread works in.
fn transform(lines: &Ty, axis: i64) -> usize {
    let n = usize::try_from(axis).map_or(0, |a| lines.shape.get(a).copied().unwrap_or(0));
    let pair = 2 * lines.dtype.itemsize();
    n.saturating_mul(SCRATCH * pair)
        .saturating_mul(1 + rayon::current_num_threads())
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
        .fold(home(x.dtype).itemsize(), usize::saturating_mul)
}
