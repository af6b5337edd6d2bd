//! How much memory a body holds at a time, estimated from above: for those that are too many to look into.

use crate::op::Op;
use crate::value::Ty;

/// One step: values by number.
pub struct Use<'a> {
    pub args: &'a [usize],
    pub outs: &'a [usize],
    /// Its result shares the storage of its first operand.
    pub view: bool,
    /// What it needs besides operands and results.
    pub scratch: usize,
}

/// Walks the steps, with views (reshape, transpose, slice ...) sharing the storage of what they look at.
/// `resident` values stay for the whole run.
pub fn estimate(
    types: &[&Ty],
    steps: &[Use],
    results: &[usize],
    resident: &dyn Fn(usize) -> bool,
) -> usize {
    let mut storage: Vec<usize> = (0..types.len()).collect();
    for step in steps.iter().filter(|s| s.view) {
        for out in step.outs {
            storage[*out] = storage[step.args[0]];
        }
    }
    let mut last = vec![0; types.len()];
    for (i, step) in steps.iter().enumerate() {
        for v in step.args.iter().chain(step.outs) {
            last[storage[*v]] = i;
        }
    }
    for v in results {
        last[storage[*v]] = usize::MAX;
    }
    let bytes = |v: usize| types[v].bytes();
    let mut live: usize = (0..types.len())
        .filter(|v| resident(*v))
        .fold(0, |n: usize, v| n.saturating_add(bytes(v)));
    let mut peak = live;
    let mut freed = vec![false; types.len()];
    for (i, step) in steps.iter().enumerate() {
        for out in step.outs.iter().filter(|v| storage[**v] == **v) {
            live = live.saturating_add(bytes(*out));
        }
        peak = peak.max(live.saturating_add(step.scratch));
        for v in step.args.iter().chain(step.outs) {
            let v = storage[*v];
            if last[v] == i && !resident(v) && !std::mem::replace(&mut freed[v], true) {
                live = live.saturating_sub(bytes(v));
            }
        }
    }
    peak
}

/// True where the result shares the storage of the operand.
pub fn is_view(op: &Op<usize>) -> bool {
    matches!(
        op,
        Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Flip { .. }
            | Op::StopGradient
            | Op::RandomWrap
            | Op::RandomUnwrap
    )
}
