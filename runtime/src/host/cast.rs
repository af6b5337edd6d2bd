//! Conversions between dtypes: floats truncate and saturate to integers, integers wrap, everything else rounds.

use burn_std::Bytes;
use half::{bf16, f16};

use super::nest;
use super::num::Flag;
use super::row::{Kernel, Row, Stage, row1, turn1};
use super::stage;
use super::{HostView, Out, bad_dtype};
use crate::dtype::DType;
use crate::error::Result;

/// `x` rounded to odd: a second rounding, to fewer than 22 bits, then gives what rounding once would.
#[inline(always)]
fn round_to_odd(x: f64) -> f32 {
    let y = x as f32;
    if y as f64 == x || x.is_nan() {
        return y;
    }
    let mut bits = y.to_bits();
    if (y as f64).abs() > x.abs() {
        bits -= 1;
    }
    f32::from_bits(bits | 1)
}

/// The widest dtype of the same kind, which has every value of `dtype`.
fn hub(dtype: DType) -> DType {
    match dtype {
        DType::U64 => DType::U64,
        dtype if dtype.is_float() => DType::F64,
        _ => DType::I64,
    }
}

/// From `dtype` to its hub.
fn to_hub(dtype: DType) -> Option<Stage> {
    let row = match dtype {
        DType::Bool => turn1(|x: Flag| x.get() as i64),
        DType::I8 => turn1(|x: i8| x as i64),
        DType::I16 => turn1(|x: i16| x as i64),
        DType::I32 => turn1(|x: i32| x as i64),
        DType::U8 => turn1(|x: u8| x as i64),
        DType::U16 => turn1(|x: u16| x as i64),
        DType::U32 => turn1(|x: u32| x as i64),
        DType::F16 => turn1(|x: f16| x.to_f64()),
        DType::BF16 => turn1(|x: bf16| x.to_f64()),
        DType::F32 => turn1(|x: f32| x as f64),
        _ => return None,
    };
    Some(Stage { row, itemsize: 8 })
}

/// From a hub to `dtype`.
fn from_hub(hub: DType, to: DType) -> Option<Row<1>> {
    use DType as D;
    Some(match (hub, to) {
        (D::F64, D::Bool) => turn1(|x: f64| Flag::of(x != 0.0)),
        (D::F64, D::I8) => turn1(|x: f64| x as i8),
        (D::F64, D::I16) => turn1(|x: f64| x as i16),
        (D::F64, D::I32) => turn1(|x: f64| x as i32),
        (D::F64, D::I64) => turn1(|x: f64| x as i64),
        (D::F64, D::U8) => turn1(|x: f64| x as u8),
        (D::F64, D::U16) => turn1(|x: f64| x as u16),
        (D::F64, D::U32) => turn1(|x: f64| x as u32),
        (D::F64, D::U64) => turn1(|x: f64| x as u64),
        (D::F64, D::F16) => turn1(|x: f64| f16::from_f32(round_to_odd(x))),
        (D::F64, D::BF16) => turn1(|x: f64| bf16::from_f32(x as f32)),
        (D::F64, D::F32) => turn1(|x: f64| x as f32),
        (D::F64, D::F64) => row1(|x: f64| x),
        (_, D::Bool) => turn1(|x: u64| Flag::of(x != 0)),
        (_, D::I8 | D::U8) => turn1(|x: u64| x as u8),
        (_, D::I16 | D::U16) => turn1(|x: u64| x as u16),
        (_, D::I32 | D::U32) => turn1(|x: u64| x as u32),
        (_, D::I64 | D::U64) => row1(|x: u64| x),
        // Exact up to 2^53, far above the largest finite value.
        (D::I64, D::F16) => turn1(|x: i64| f16::from_f32(round_to_odd(x as f64))),
        (D::I64, D::BF16) => turn1(|x: i64| bf16::from_f32(x as f32)),
        (D::I64, D::F32) => turn1(|x: i64| x as f32),
        (D::I64, D::F64) => turn1(|x: i64| x as f64),
        (_, D::F16) => turn1(|x: u64| f16::from_f32(round_to_odd(x as f64))),
        (_, D::BF16) => turn1(|x: u64| bf16::from_f32(x as f32)),
        (_, D::F32) => turn1(|x: u64| x as f32),
        (_, D::F64) => turn1(|x: u64| x as f64),
        (_, D::C64 | D::C128 | D::Key | D::Token) => return None,
    })
}

/// The kernel that converts `from` to `to`: in one step where that is often done, else by way of a hub.
pub fn kernel(from: DType, to: DType) -> Result<Kernel<1>> {
    use DType as D;
    if !from.is_stored() || from == D::Key {
        return Err(bad_dtype("cast", from));
    }
    let direct = match (from, to) {
        (D::Bool, D::F32) => Some(turn1(|x: Flag| x.get() as u8 as f32)),
        (D::Bool, D::I32) => Some(turn1(|x: Flag| x.get() as i32)),
        (D::U8, D::F32) => Some(turn1(|x: u8| x as f32)),
        (D::I32, D::F32) => Some(turn1(|x: i32| x as f32)),
        (D::I32, D::F64) => Some(turn1(|x: i32| x as f64)),
        (D::U32, D::F32) => Some(turn1(|x: u32| x as f32)),
        (D::F32, D::I32) => Some(turn1(|x: f32| x as i32)),
        (D::F32, D::Bool) => Some(turn1(|x: f32| Flag::of(x != 0.0))),
        (D::F32, D::F16 | D::BF16) => stage::store(to).map(|s| s.row),
        (D::F16 | D::BF16, D::F32) => stage::load(from).map(|s| s.row),
        (_, D::I32) if from.itemsize() < 4 && !from.is_float() => stage::load(from).map(|s| s.row),
        (_, to) if to == hub(from) => to_hub(from).map(|s| s.row),
        _ => None,
    };
    if let Some(row) = direct {
        return Ok(Kernel::cheap(row));
    }
    match from_hub(hub(from), to) {
        Some(row) => Ok(Kernel::cheap(row).staged(to_hub(from), None)),
        None => Err(bad_dtype("cast", to)),
    }
}

/// Dense `x` in another dtype, densely.
pub fn convert(x: &HostView<'_>, to: DType) -> Result<Bytes> {
    let mut out = Out::new(x.elements(), to.itemsize());
    let kernel = kernel(x.dtype, to)?;
    let itemsizes = [x.dtype.itemsize()];
    // SAFETY: `out` is new and has room; the run writes every element.
    Ok(unsafe {
        nest::run(kernel, x.shape, [*x], itemsizes, out.ptr(), to.itemsize());
        out.finish()
    })
}

/// Runs `work` on `x` in dtype `inner`. With `back`, the result is brought back to the dtype of `x`.
pub fn within(
    x: &HostView<'_>,
    inner: DType,
    back: bool,
    work: &dyn Fn(&HostView<'_>) -> Result<Bytes>,
) -> Result<Bytes> {
    let outer = x.dtype;
    if inner.itemsize() == outer.itemsize() {
        // The same bits: `inner` differs in its sign at most.
        return work(&HostView { dtype: inner, ..*x });
    }
    let bytes = convert(x, inner)?;
    let strides = super::dense_strides(x.shape);
    let result = work(&dense_view(&bytes, x.shape, &strides, inner))?;
    if !back {
        return Ok(result);
    }
    let n = result.len() / inner.itemsize();
    convert(&dense_view(&result, &[n], &[1], inner), outer)
}

/// The same with two operands of one dtype.
pub fn pair(
    x: &HostView<'_>,
    y: &HostView<'_>,
    inner: DType,
    work: &dyn Fn(&HostView<'_>, &HostView<'_>) -> Result<Bytes>,
) -> Result<Bytes> {
    within(x, inner, true, &|x| {
        within(y, inner, false, &|y| work(x, y))
    })
}

/// A view of dense bytes.
pub fn dense_view<'a>(
    bytes: &'a Bytes,
    shape: &'a [usize],
    strides: &'a [isize],
    dtype: DType,
) -> HostView<'a> {
    HostView {
        ptr: bytes.as_ptr(),
        shape,
        strides,
        dtype,
    }
}
