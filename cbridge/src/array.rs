//! Arrays, arguments, results and tensors.

use std::ffi::c_void;

use dala_runtime::dtype::DType;
use dala_runtime::error::{Error, Result};
use dala_runtime::host::HostView;
use dala_runtime::value::Ty;
use dala_runtime::{Arg, HostArray, Tensor};

use crate::guard::{get, slice};

/// `DALA_ARG_DONATE`.
pub const DONATE: i32 = 1;

/// An array as C sees it.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dala_array {
    pub dtype: i32,
    pub ndim: i32,
    pub shape: *const i64,
    pub strides: *const i64,
    pub data: *mut c_void,
}

/// An argument as C sees it.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct dala_arg {
    pub tensor: *mut dala_tensor,
    pub array: dala_array,
    pub flags: i32,
}

/// A result as C sees it.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct dala_result {
    pub tensor: *mut dala_tensor,
    pub array: dala_array,
}

/// Shape, then strides in bytes; for small ranks inside the handle, whose place in memory is fixed.
enum Dims {
    Few([i64; 2 * FEW]),
    Many(Box<[i64]>),
}

const FEW: usize = 4;

impl Dims {
    fn new(view: &HostView<'_>, item: i64) -> Self {
        let ndim = view.shape.len();
        let shape = view.shape.iter().map(|d| *d as i64);
        let strides = view.strides.iter().map(|s| *s as i64 * item);
        if ndim > FEW {
            return Dims::Many(shape.chain(strides).collect());
        }
        let mut few = [0; 2 * FEW];
        for (slot, value) in few.iter_mut().zip(shape.chain(strides)) {
            *slot = value;
        }
        Dims::Few(few)
    }

    fn as_ptr(&self) -> *const i64 {
        match self {
            Dims::Few(dims) => dims.as_ptr(),
            Dims::Many(dims) => dims.as_ptr(),
        }
    }
}

/// A tensor with its description, which lives as long as the handle.
#[allow(non_camel_case_types)]
pub struct dala_tensor {
    tensor: Box<dyn Tensor>,
    dims: Dims,
    dtype: DType,
    data: *mut c_void,
}

// SAFETY: `data` is only handed out, never followed; the rest is Send and Sync.
unsafe impl Send for dala_tensor {}
// SAFETY: as above.
unsafe impl Sync for dala_tensor {}

impl dala_tensor {
    /// Describes a tensor.
    pub fn new(tensor: Box<dyn Tensor>) -> Result<Self> {
        let mut dims = Dims::Few([0; 2 * FEW]);
        let mut data = std::ptr::null_mut();
        let dtype = tensor.ty().dtype;
        tensor.view(&mut |view| match view {
            Some(view) => {
                if !view.shape.contains(&0) {
                    data = view.ptr.cast_mut().cast();
                }
                dims = Dims::new(&view, dtype.part_size() as i64);
            }
            None => {
                let shape = tensor.ty().storage_shape();
                let strides = vec![0; shape.len()];
                let ptr = std::ptr::null();
                dims = Dims::new(
                    &HostView {
                        ptr,
                        shape: &shape,
                        strides: &strides,
                        dtype,
                    },
                    0,
                );
            }
        })?;
        Ok(dala_tensor {
            tensor,
            dims,
            dtype,
            data,
        })
    }

    pub fn tensor(&self) -> &dyn Tensor {
        &*self.tensor
    }

    /// Fails when the tensor was donated.
    pub fn array(&self) -> Result<dala_array> {
        self.tensor.view(&mut |_| {})?;
        Ok(self.describe())
    }

    fn describe(&self) -> dala_array {
        let ndim = self.tensor.ty().rank() + usize::from(self.dtype == DType::Key);
        dala_array {
            dtype: self.dtype as i32,
            ndim: ndim as i32,
            shape: self.dims.as_ptr(),
            strides: self.dims.as_ptr().wrapping_add(ndim),
            data: self.data,
        }
    }
}

/// Hands tensors to the caller.
pub fn give(
    tensors: Vec<Box<dyn Tensor>>,
    results: &mut [std::mem::MaybeUninit<dala_result>],
) -> Result<()> {
    if tensors.len() != results.len() {
        return Err(Error::argument(format!(
            "there are {} results, not {}",
            tensors.len(),
            results.len()
        ))
        .with_code("result-count"));
    }
    let mut given = 0;
    for (tensor, result) in tensors.into_iter().zip(results.iter_mut()) {
        match dala_tensor::new(tensor) {
            Ok(handle) => {
                let handle = Box::new(handle);
                let array = handle.describe();
                let tensor = Box::into_raw(handle);
                result.write(dala_result { tensor, array });
                given += 1;
            }
            Err(error) => {
                for result in &results[..given] {
                    // SAFETY: written above; on an error the caller owns nothing.
                    drop(unsafe { Box::from_raw(result.assume_init_ref().tensor) });
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Its type, whatever lies in it.
///
/// # Safety
/// The shape is as `dala.h` says.
pub unsafe fn ty_of(array: &dala_array) -> Result<Ty> {
    let dtype = DType::from_code(array.dtype)
        .ok_or_else(|| Error::argument(format!("there is no dtype {}", array.dtype)))?;
    let ndim = usize::try_from(array.ndim)
        .map_err(|_| Error::argument(format!("ndim is {}", array.ndim)))?;
    // SAFETY: the caller's promise.
    let mut shape = unsafe { slice(array.shape, ndim, "shape") }?;
    if dtype == DType::Key {
        let (words, rest) = shape
            .split_last()
            .ok_or_else(|| Error::argument("a key has a last dimension of 2"))?;
        if *words != 2 {
            return Err(Error::argument("a key has a last dimension of 2"));
        }
        shape = rest;
    }
    let sizes = shape.iter().map(|d| usize::try_from(*d));
    let sizes = sizes.collect::<std::result::Result<Vec<usize>, _>>();
    Ty::new(
        dtype,
        sizes.map_err(|_| Error::argument(format!("the shape is {shape:?}")))?,
    )
}

/// The caller's array.
///
/// # Safety
/// The array is as `dala.h` says, and lives for `'a`.
pub unsafe fn host_array<'a>(array: &'a dala_array) -> Result<HostArray<'a>> {
    let dtype = DType::from_code(array.dtype)
        .ok_or_else(|| Error::argument(format!("there is no dtype {}", array.dtype)))?;
    let ndim = usize::try_from(array.ndim)
        .map_err(|_| Error::argument(format!("ndim is {}", array.ndim)))?;
    // SAFETY: the caller's promise.
    unsafe {
        let shape = slice(array.shape, ndim, "shape")?;
        let strides = if array.strides.is_null() || ndim == 0 {
            None
        } else {
            Some(slice(array.strides, ndim, "strides")?)
        };
        HostArray::new(dtype, shape, strides, array.data.cast::<u8>())
    }
}

/// The caller's argument.
///
/// # Safety
/// The argument is as `dala.h` says, and lives for `'a`.
pub unsafe fn argument<'a>(arg: &'a dala_arg) -> Result<Arg<'a>> {
    // SAFETY: the caller's promise.
    unsafe {
        if arg.tensor.is_null() {
            return host_array(&arg.array).map(Arg::Array);
        }
        let tensor = get(arg.tensor, "tensor")?.tensor();
        Ok(Arg::Tensor {
            tensor,
            donate: arg.flags & DONATE != 0,
        })
    }
}
