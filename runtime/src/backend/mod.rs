//! What the interpreter asks of a Burn backend beyond Burn's own trait.

#[cfg(feature = "autodiff")]
mod autodiff;
mod flex;

pub use flex::reshaped_strides;

use burn_backend::tensor::Device;
use burn_backend::{Backend, BackendTypes, TensorMetadata};
use burn_std::{Bytes, Shape, Slice};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::HostView;
use crate::value::{Ty, Val};

/// Keeps borrowed memory alive; dropped with the last value that looks at it.
pub type Owner = Box<dyn Send + Sync>;

/// Below this many bytes, copying borrowed memory costs less than keeping track of it.
pub const BORROW_MIN_BYTES: usize = 4096;

/// A Burn backend that graphs run on.
pub trait ExecBackend: Backend {
    /// True when values lie in host memory, so that the kernels of [`crate::host`] apply. Where it is false, an op
    /// runs on Burn's primitive, or fails with a message when Burn has none of the same meaning.
    const HOST: bool;

    /// How this backend stores bools.
    const BOOL: burn_std::BoolStore;

    /// True when floats remember what they were made from, so that [`ExecBackend::backward`] can go back over it.
    const RECORDS: bool = false;

    /// What lies underneath a backend that records; any other backend itself.
    type Inner: ExecBackend + BackendTypes<Device = <Self as BackendTypes>::Device>;

    /// The value without its past.
    fn inner(val: Val<Self>) -> Val<Self::Inner>;

    /// A value that begins here.
    fn outer(val: Val<Self::Inner>) -> Val<Self>;

    /// A float that gradients will be asked for, with nothing before it.
    fn track(val: Val<Self>) -> Result<Val<Self>> {
        drop(val);
        Err(no_gradients::<Self>())
    }

    /// The gradients of the sum of `root` by values that were tracked; none where it does not depend on one.
    fn backward(root: Val<Self>, of: &[Val<Self>]) -> Result<Vec<Option<Val<Self::Inner>>>> {
        drop(root);
        let _ = of;
        Err(no_gradients::<Self>())
    }

    /// A value of type `ty` from its dense row-major bytes, which are taken over where that is possible.
    fn upload(bytes: Bytes, ty: &Ty, device: &Device<Self>) -> Result<Val<Self>>;

    /// A value over memory of the caller, without a copy where that is possible: element `i` of axis `k` lies
    /// `i * byte_strides[k]` after `ptr`. Never written to. `owner` is dropped when nothing looks at the memory any
    /// more, which is at once if it was copied.
    ///
    /// # Safety
    /// All elements of `ty` at these strides are readable, and stay so and unchanged until `owner` is dropped.
    unsafe fn borrow(
        ptr: *const u8,
        byte_strides: &[isize],
        ty: &Ty,
        owner: Owner,
        device: &Device<Self>,
    ) -> Result<Val<Self>> {
        let shape = ty.storage_shape();
        let strides = storage_strides(byte_strides, ty);
        // SAFETY: passed on to the caller.
        let bytes = unsafe { crate::host::copy::gather_bytes(ptr, &shape, &strides, item(ty)) };
        drop(owner);
        Self::upload(bytes, ty, device)
    }

    /// A look at the value's memory, where it lies in host memory.
    fn view(_val: &Val<Self>) -> Option<HostView<'_>> {
        None
    }

    /// A pointer to the dense elements of a value that nobody else holds, for work in place. None when it is shared,
    /// borrowed, or not dense.
    fn dense_mut(_val: &mut Val<Self>) -> Option<*mut u8> {
        None
    }

    /// The value with its elements dense in row-major order.
    fn dense(val: Val<Self>) -> Val<Self> {
        val
    }

    /// The value in another shape, without a copy where strides allow.
    fn reshape(val: Val<Self>, shape: &[usize]) -> Val<Self> {
        let shape = Shape::from(shape.to_vec());
        match val {
            Val::Float(t) => Val::Float(Self::float_reshape(t, shape)),
            Val::Int(t) => Val::Int(Self::int_reshape(t, shape)),
            Val::Bool(t) => Val::Bool(Self::bool_reshape(t, shape)),
        }
    }

    /// The value at index `i` of the first axis of its storage.
    fn row(val: &Val<Self>, i: usize) -> Val<Self> {
        let shape = shape_of::<Self>(val);
        let mut slices = vec![Slice::full(); shape.num_dims()];
        slices[0] = Slice::new(i as isize, Some(i as isize + 1), 1);
        let row = match val.clone() {
            Val::Float(t) => Val::Float(Self::float_slice(t, &slices)),
            Val::Int(t) => Val::Int(Self::int_slice(t, &slices)),
            Val::Bool(t) => Val::Bool(Self::bool_slice(t, &slices)),
        };
        Self::reshape(row, &shape[1..])
    }

    /// Looks at several values for a host kernel.
    fn views<'a, const N: usize>(op: &str, vals: [&'a Val<Self>; N]) -> Result<[HostView<'a>; N]> {
        let mut views = [HostView {
            ptr: std::ptr::null(),
            shape: &[],
            strides: &[],
            dtype: DType::U8,
        }; N];
        for (view, val) in views.iter_mut().zip(vals) {
            *view = Self::view(val).ok_or_else(|| no_host::<Self>(op))?;
        }
        Ok(views)
    }
}

/// The error of an op that this backend cannot run.
pub fn no_host<B: Backend>(op: &str) -> Error {
    Error::unsupported(format!(
        "{op} needs a kernel on host memory, which backend {} does not have",
        short_name::<B>()
    ))
    .with_code("no-kernel")
}

/// The error of a backend that does not record.
pub fn no_gradients<B: Backend>() -> Error {
    Error::unsupported(format!(
        "backend {} has no backward pass; the engine \"flex-autodiff\" has",
        short_name::<B>()
    ))
    .with_code("no-gradients")
}

/// The name of a backend's type without its path.
fn short_name<B>() -> String {
    let whole = std::any::type_name::<B>();
    let start = whole.split('<').next().unwrap_or_default();
    start.rsplit("::").next().unwrap_or_default().to_string()
}

/// The shape of the storage.
pub fn shape_of<B: Backend>(val: &Val<B>) -> Shape {
    match val {
        Val::Float(t) => t.shape(),
        Val::Int(t) => t.shape(),
        Val::Bool(t) => t.shape(),
    }
}

/// Bytes of one stored element: half of a key.
pub fn item(ty: &Ty) -> usize {
    match ty.dtype {
        DType::Key => 4,
        dtype => dtype.itemsize(),
    }
}

/// Byte strides of the storage: the two halves of a key are adjacent.
fn storage_strides(byte_strides: &[isize], ty: &Ty) -> Vec<isize> {
    let mut strides = byte_strides.to_vec();
    if ty.dtype == DType::Key && strides.len() == ty.rank() {
        strides.push(4);
    }
    strides
}

/// Wraps a primitive by the kind that the dtype has.
pub fn wrap<B, T>(tensor: T, dtype: DType) -> Val<B>
where
    B: Backend<FloatTensorPrimitive = T, IntTensorPrimitive = T, BoolTensorPrimitive = T>,
{
    if dtype.is_float() {
        Val::Float(tensor)
    } else if dtype.is_bool() {
        Val::Bool(tensor)
    } else {
        Val::Int(tensor)
    }
}
