//! How much memory an op may need besides its operands and results.

use crate::host::conv::{Conv, Which};
use crate::host::fourier::SCRATCH;
use crate::host::stage::home;
use crate::op::{Family, Op};
use crate::value::Ty;

/// An upper bound of the bytes of padded copies, packed kernels and partial sums, and of copies in the dtype in which an op is computed, for the memory
/// estimate: sizes that appear in no type.
pub fn scratch_bytes(op: &Op<usize>, args: &[Ty], outs: &[Ty]) -> usize {
    let padding = match op {
        Op::WindowSum { low, high, .. }
        | Op::WindowMax { low, high, .. }
        | Op::WindowMaxSpread { low, high, .. }
        | Op::WindowMaxPick { low, high, .. } => padded(&args[0], low, high),
        Op::Conv {
            strides,
            low,
            dilation,
            groups,
            ..
        } => convolution(
            Which::Forward,
            [&args[0], &args[1], &outs[0]],
            [strides, low, dilation],
            *groups,
        ),
        Op::ConvInputGrad {
            strides,
            low,
            dilation,
            groups,
            ..
        } => convolution(
            Which::InputGrad,
            [&outs[0], &args[1], &args[0]],
            [strides, low, dilation],
            *groups,
        ),
        Op::ConvWeightGrad {
            strides,
            low,
            dilation,
            groups,
            ..
        } => convolution(
            Which::WeightGrad,
            [&args[0], &outs[0], &args[1]],
            [strides, low, dilation],
            *groups,
        ),
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

fn padded(x: &Ty, low: &[i64], high: &[i64]) -> usize {
    let extra = |n: &i64| usize::try_from(*n).unwrap_or(0);
    let sides = low.iter().zip(high);
    x.shape
        .iter()
        .zip(sides)
        .map(|(&n, (low, high))| n.saturating_add(extra(low)).saturating_add(extra(high)))
        .fold(home(x.dtype).itemsize(), usize::saturating_mul)
}

/// What a convolution holds besides operands and result; the types are the input's, the kernel's and the output's.
fn convolution(which: Which, types: [&Ty; 3], attrs: [&[i64]; 3], groups: i64) -> usize {
    if types.iter().any(|ty| ty.elements() == 0) {
        return 0;
    }
    let sizes = |list: &[i64]| -> Vec<usize> { list.iter().map(|&n| n as usize).collect() };
    let [strides, low, dilation] = attrs.map(sizes);
    let shapes = types.map(|ty| ty.shape.as_slice());
    let c = Conv::new(shapes, &strides, &low, &dilation, groups as usize);
    c.scratch(which, home(types[0].dtype).itemsize())
}
