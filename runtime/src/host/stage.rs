//! Dtypes in which nothing is computed, and how they come to one in which something is.
//!
//! Small integers wrap the same when an op is done in `i32` and cut off, small floats are computed in `f32` and rounded
//! once anyway, and `u32` fits into `i64`.

use burn_std::Bytes;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::nest;
use super::row::{Stage, turn1};
use super::{HostView, Out, cast};
use crate::dtype::DType;
use crate::error::Result;

/// The dtype in which an op on `dtype` is computed that looks at the order or the size of values.
pub fn home(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::I8 | DType::I16 | DType::U8 | DType::U16 => DType::I32,
        DType::U32 => DType::I64,
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// The same for an op that wraps around, so that the sign does not matter.
pub fn ring(dtype: DType) -> DType {
    match dtype {
        DType::U32 => DType::I32,
        DType::U64 => DType::I64,
        other => home(other),
    }
}

/// From `dtype` to its [`home`]; none where they are the same.
pub fn load(dtype: DType) -> Option<Stage> {
    let row = match dtype {
        DType::Bool | DType::U8 => turn1(|x: u8| x as i32),
        DType::I8 => turn1(|x: i8| x as i32),
        DType::I16 => turn1(|x: i16| x as i32),
        DType::U16 => turn1(|x: u16| x as i32),
        DType::U32 => turn1(|x: u32| x as i64),
        DType::F16 => load_half::<f16>,
        DType::BF16 => load_half::<bf16>,
        _ => return None,
    };
    Some(Stage {
        row,
        itemsize: home(dtype).itemsize(),
    })
}

/// From [`home`] back to `dtype`.
pub fn store(dtype: DType) -> Option<Stage> {
    let row = match dtype {
        DType::Bool | DType::U8 | DType::I8 => turn1(|x: u32| x as u8),
        DType::I16 | DType::U16 => turn1(|x: u32| x as u16),
        DType::U32 => turn1(|x: u64| x as u32),
        DType::F16 => store_half::<f16>,
        DType::BF16 => store_half::<bf16>,
        _ => return None,
    };
    Some(Stage {
        row,
        itemsize: home(dtype).itemsize(),
    })
}

/// # Safety
/// As for [`Row`](super::row::Row).
unsafe fn load_half<H>(n: usize, args: [*const u8; 1], out: *mut u8)
where
    [H]: HalfFloatSliceExt,
{
    // SAFETY: the caller vouches for `n` elements; operand and result are of different dtypes, so apart.
    unsafe {
        let from = std::slice::from_raw_parts(args[0].cast::<H>(), n);
        from.convert_to_f32_slice(std::slice::from_raw_parts_mut(out.cast(), n));
    }
}

/// # Safety
/// As for [`Row`](super::row::Row).
unsafe fn store_half<H>(n: usize, args: [*const u8; 1], out: *mut u8)
where
    [H]: HalfFloatSliceExt,
{
    // SAFETY: as in `load_half`.
    unsafe {
        let to = std::slice::from_raw_parts_mut(out.cast::<H>(), n);
        to.convert_from_f32_slice(std::slice::from_raw_parts(args[0].cast(), n));
    }
}

/// Dense `x` in another dtype, densely.
pub fn convert(x: &HostView<'_>, to: DType) -> Result<Bytes> {
    let mut out = Out::new(x.elements(), to.itemsize());
    let kernel = cast::kernel(x.dtype, to)?;
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
