//! What the process hands in: a handler of effects, and native kernels.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use dala_runtime::dtype::DType;
use dala_runtime::effects::{Event, Handler, Shown, set_handler};
use dala_runtime::error::{Error, Result};
use dala_runtime::host::dense_strides;
use dala_runtime::kernels::{self, Kernel};
use dala_runtime::value::Ty;

use crate::array::{dala_array, dala_result};
use crate::error::{dala_error, guard, text};
use crate::guard::{null, quiet, string};

/// A handler as C sees it.
#[allow(non_camel_case_types)]
pub type dala_handler = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        kind: *const c_char,
        name: *const c_char,
        values: *const dala_array,
        n_values: usize,
        results: *mut dala_result,
        n_results: usize,
    ) -> i32,
>;

struct Hook {
    call: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        *const c_char,
        *const dala_array,
        usize,
        *mut dala_result,
        usize,
    ) -> i32,
    user: *mut c_void,
}

// SAFETY: whoever sets a handler vouches that it may be called from any thread.
unsafe impl Send for Hook {}
// SAFETY: as above.
unsafe impl Sync for Hook {}

impl Handler for Hook {
    fn handle(&self, event: Event<'_>) -> bool {
        match event {
            Event::Print { format, values } => self.call(c"print", format, values, &mut []),
            Event::Tap { name, values } => self.call(c"tap", name, values, &mut []),
            Event::Callback {
                name,
                values,
                results,
            } => self.call(c"callback", name, values, results),
            Event::Poll => self.call(c"poll", "", &[], &mut []),
        }
    }
}

impl Hook {
    fn call(
        &self,
        kind: &CStr,
        name: &str,
        values: &[Shown<'_>],
        results: &mut [(&Ty, &mut [u8])],
    ) -> bool {
        let shown: Vec<Dims> = values.iter().map(Dims::of).collect();
        let rooms: Vec<Dims> = results
            .iter_mut()
            .map(|(ty, bytes)| Dims::new(ty, bytes.as_mut_ptr()))
            .collect();
        let values: Vec<dala_array> = shown.iter().map(Dims::array).collect();
        let mut results: Vec<dala_result> = rooms
            .iter()
            .map(|dims| dala_result {
                tensor: std::ptr::null_mut(),
                array: dims.array(),
            })
            .collect();
        let name = text(name);
        // SAFETY: the arrays are as `dala.h` says and live until the call returns; the rest is the promise of whoever
        // set the handler.
        let status = unsafe {
            (self.call)(
                self.user,
                kind.as_ptr(),
                name.as_ptr(),
                values.as_ptr(),
                values.len(),
                results.as_mut_ptr(),
                results.len(),
            )
        };
        status == 0
    }
}

/// An array with the memory that its description points to.
struct Dims {
    dtype: DType,
    shape: Vec<i64>,
    strides: Vec<i64>,
    data: *mut u8,
}

impl Dims {
    fn of(value: &Shown<'_>) -> Self {
        let view = &value.view;
        let item = view.dtype.itemsize() as i64;
        Dims {
            dtype: value.ty.dtype,
            shape: view.shape.iter().map(|d| *d as i64).collect(),
            strides: view.strides.iter().map(|s| *s as i64 * item).collect(),
            data: view.ptr.cast_mut(),
        }
    }

    /// Room for a result, dense.
    fn new(ty: &Ty, data: *mut u8) -> Self {
        let item = ty.dtype.itemsize() as i64;
        let strides = dense_strides(&ty.shape);
        Dims {
            dtype: ty.dtype,
            shape: ty.shape.iter().map(|d| *d as i64).collect(),
            strides: strides.iter().map(|s| *s as i64 * item).collect(),
            data,
        }
    }

    fn array(&self) -> dala_array {
        let empty = self.shape.contains(&0);
        dala_array {
            dtype: self.dtype as i32,
            ndim: self.shape.len() as i32,
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            data: if empty {
                std::ptr::null_mut()
            } else {
                self.data.cast()
            },
        }
    }
}

/// Sets the handler of the process.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_set_handler(handler: dala_handler, user: *mut c_void) {
    quiet((), || {
        set_handler(handler.map(|call| -> Arc<dyn Handler> { Arc::new(Hook { call, user }) }));
    });
}

/// Registers a kernel.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_kernel_register(
    name: *const c_char,
    kernel: *mut c_void,
    abi_version: u32,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe { guard(err, || register(name, kernel, abi_version)) }
}

/// # Safety
/// As `dala_kernel_register` in `dala.h`.
unsafe fn register(name: *const c_char, kernel: *mut c_void, version: u32) -> Result<()> {
    if kernel.is_null() {
        return Err(null("kernel"));
    }
    const { assert!(size_of::<Kernel>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's promise: the pointer is a function of this type, and keeps a kernel's promises.
    unsafe {
        let kernel = std::mem::transmute::<*mut c_void, Kernel>(kernel);
        let name = string(name, "name").map_err(|e: Error| e.with_code("kernel-name"))?;
        kernels::register(name, kernel, version)
    }
}
