//! Tensors of an engine, and how arguments become values.

use std::any::Any;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_backend::tensor::Device;
use burn_std::Bytes;

use crate::backend::ExecBackend;
use crate::dtype::DType;
use crate::engine::{Arg, HostArray, Tensor};
use crate::error::{Error, Result};
use crate::host::HostView;
use crate::host::copy::gather_bytes;
use crate::value::{Ty, Val};

/// A value behind a handle; empty once donated.
pub struct Held<B: ExecBackend> {
    ty: Ty,
    val: Mutex<Option<Val<B>>>,
}

/// Locks; a panic of another thread does not make the data wrong, as every change is a single assignment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: ExecBackend> Held<B> {
    pub fn boxed(ty: Ty, val: Val<B>) -> Box<dyn Tensor> {
        Box::new(Held {
            ty,
            val: Mutex::new(Some(val)),
        })
    }

    /// The engine's own tensor behind a handle.
    pub fn of(tensor: &dyn Tensor) -> Result<&Self> {
        tensor
            .as_any()
            .downcast_ref()
            .ok_or_else(|| Error::argument("a tensor of another engine").with_code("wrong-engine"))
    }

    pub fn get(&self) -> Result<Val<B>> {
        lock(&self.val).clone().ok_or_else(donated)
    }

    /// Empties the handle.
    pub fn take(&self) -> Option<Val<B>> {
        lock(&self.val).take()
    }
}

fn donated() -> Error {
    Error::argument("the tensor was donated to an earlier run").with_code("donated")
}

impl<B: ExecBackend> Tensor for Held<B> {
    fn ty(&self) -> &Ty {
        &self.ty
    }

    fn view(&self, f: &mut dyn FnMut(Option<HostView<'_>>)) -> Result<()> {
        let val = lock(&self.val);
        f(B::view(val.as_ref().ok_or_else(donated)?));
        Ok(())
    }

    fn duplicate(&self) -> Result<Box<dyn Tensor>> {
        Ok(Self::boxed(self.ty.clone(), self.get()?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Memory of the caller that values of a run may lie in.
pub type Borrowed = Vec<Range<usize>>;

/// Below this many bytes an array is copied.
const COPY_BELOW: usize = 4096;

/// True for arrays that a run reads where they lie.
pub fn is_lent(ty: &Ty) -> bool {
    ty.bytes() >= COPY_BELOW && ty.dtype != DType::Bool
}

/// A value over (or with a copy of) the caller's memory.
pub fn from_array<B: ExecBackend>(
    array: &HostArray<'_>,
    ty: &Ty,
    device: &Device<B>,
    borrowed: Option<&mut Borrowed>,
) -> Result<Val<B>> {
    if ty.elements() == 0 {
        return B::upload(Bytes::from_bytes_vec(Vec::new()), ty, device);
    }
    let lend = borrowed.filter(|_| is_lent(ty));
    if lend.is_none() && ty.dtype != DType::Bool && array.is_dense() {
        // SAFETY: whoever made the array vouched for its memory.
        let bytes = unsafe { copy_dense(array.data(), ty.bytes(), ty.dtype.part_size()) };
        return B::upload(bytes, ty, device);
    }
    let (shape, strides) = (ty.storage_shape(), array.byte_strides());
    let item = ty.dtype.part_size();
    if let Some(borrowed) = lend {
        borrowed.push(extent(array.data() as usize, &shape, &strides, item));
        // SAFETY: whoever made the array vouched for its memory until the end of the call, and a run copies results
        // that lie in it before it returns.
        return unsafe { B::borrow(array.data(), &strides, ty, Box::new(()), device) };
    }
    // SAFETY: as above; and this is a copy.
    let bytes = unsafe { gather_bytes(array.data(), &shape, &strides, item) };
    let bytes = if ty.dtype == DType::Bool {
        // Any byte but 0 is true outside; inside only 1 is.
        Bytes::from_bytes_vec(bytes.iter().map(|b| u8::from(*b != 0)).collect())
    } else {
        bytes
    };
    B::upload(bytes, ty, device)
}

/// A copy of `bytes` bytes, aligned for elements of `item` bytes.
///
/// # Safety
/// The bytes are readable, and a whole number of elements.
unsafe fn copy_dense(ptr: *const u8, bytes: usize, item: usize) -> Bytes {
    macro_rules! copied {
        ($t:ty) => {{
            let n = bytes / size_of::<$t>();
            let mut out: Vec<$t> = Vec::with_capacity(n);
            // SAFETY: there is room for `n` elements, all of which are written; any bytes make a value.
            unsafe {
                std::ptr::copy_nonoverlapping(ptr, out.as_mut_ptr().cast::<u8>(), bytes);
                out.set_len(n);
            }
            Bytes::from_elems(out)
        }};
    }
    match item {
        1 => copied!(u8),
        2 => copied!(u16),
        4 => copied!(u32),
        _ => copied!(u64),
    }
}

/// The value of an argument.
pub fn from_arg<B: ExecBackend>(
    arg: &Arg<'_>,
    ty: &Ty,
    device: &Device<B>,
    borrowed: &mut Borrowed,
) -> Result<Val<B>> {
    match arg {
        Arg::Array(array) => from_array(array, ty, device, Some(borrowed)),
        Arg::Tensor { tensor, .. } => Held::<B>::of(*tensor)?.get(),
    }
}

/// The bytes that a strided array touches.
fn extent(ptr: usize, shape: &[usize], strides: &[isize], item: usize) -> Range<usize> {
    let (mut low, mut high) = (ptr, ptr.wrapping_add(item));
    for (&n, &s) in shape.iter().zip(strides) {
        let reach = s.wrapping_mul(n.saturating_sub(1) as isize);
        if reach < 0 {
            low = low.wrapping_add_signed(reach);
        } else {
            high = high.wrapping_add_signed(reach);
        }
    }
    low..high
}

/// The value, copied when it lies in memory of the caller.
pub fn detach<B: ExecBackend>(
    val: Val<B>,
    ty: &Ty,
    device: &Device<B>,
    borrowed: &Borrowed,
) -> Result<Val<B>> {
    if borrowed.is_empty() || ty.elements() == 0 {
        return Ok(val);
    }
    let Some(view) = B::view(&val) else {
        return Ok(val);
    };
    let item = view.dtype.itemsize();
    let strides = byte_strides(&view);
    let span = extent(view.ptr as usize, view.shape, &strides, item);
    let inside = borrowed
        .iter()
        .any(|b| span.start < b.end && b.start < span.end);
    if !inside {
        return Ok(val);
    }
    // SAFETY: a view describes elements that its value keeps alive.
    let bytes = unsafe { gather_bytes(view.ptr, view.shape, &strides, item) };
    B::upload(bytes, ty, device)
}

/// The dense bytes of a value.
pub fn to_bytes<B: ExecBackend>(val: &Val<B>) -> Result<Vec<u8>> {
    let view =
        B::view(val).ok_or_else(|| Error::unsupported("the tensor does not lie in host memory"))?;
    if view.shape.contains(&0) {
        return Ok(Vec::new());
    }
    // SAFETY: a view describes elements that its value keeps alive.
    let bytes = unsafe {
        gather_bytes(
            view.ptr,
            view.shape,
            &byte_strides(&view),
            view.dtype.itemsize(),
        )
    };
    Ok(bytes.to_vec())
}

fn byte_strides(view: &HostView<'_>) -> Vec<isize> {
    let item = view.dtype.itemsize() as isize;
    view.strides.iter().map(|s| s * item).collect()
}

/// Empties the donated handles.
pub fn donate<B: ExecBackend>(args: &[Arg<'_>]) -> Result<()> {
    for arg in args {
        if let Arg::Tensor {
            tensor,
            donate: true,
        } = arg
        {
            Held::<B>::of(*tensor)?.take();
        }
    }
    Ok(())
}
