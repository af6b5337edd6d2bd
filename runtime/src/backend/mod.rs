//! What the interpreter needs of a Burn backend beyond Burn's own trait.

mod flex;

use burn_backend::Backend;
use burn_backend::tensor::Device;
use burn_std::{BoolStore, Bytes};

use crate::error::Result;
use crate::host::HostView;
use crate::value::{Ty, Val};

/// Keeps borrowed memory alive.
pub type Owner = Box<dyn Send + Sync>;

/// A backend that can run programs.
pub trait ExecBackend: Backend {
    /// How booleans are stored.
    const BOOL: BoolStore;

    /// A new value with a copy of `bytes` (dense, row-major, `ty.bytes()` long).
    fn upload(bytes: Bytes, ty: &Ty, device: &Device<Self>) -> Result<Val<Self>>;

    /// A value over memory of someone else: no copy where alignment and strides allow one, else a copy.
    ///
    /// # Safety
    /// The elements that `ptr`, `strides` (bytes) and the shape describe must be readable, and stay unchanged, for
    /// as long as the value (or a view of it) lives.
    unsafe fn borrow(
        ptr: *const u8,
        byte_strides: &[isize],
        ty: &Ty,
        owner: Owner,
        device: &Device<Self>,
    ) -> Result<Val<Self>>;

    /// Where the value lies in host memory, or `None` when it lies elsewhere.
    fn view(val: &Val<Self>) -> Option<HostView<'_>>;
}
