//! The CPU backend.

use burn_backend::tensor::Device;
use burn_backend::{DType as BurnType, Shape};
use burn_flex::{Flex, FlexTensor, Layout};
use burn_std::{BoolStore, Bytes};

use super::{ExecBackend, Owner};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::HostView;
use crate::value::{Ty, Val};

impl ExecBackend for Flex {
    const BOOL: BoolStore = BoolStore::Native;

    fn upload(bytes: Bytes, ty: &Ty, _device: &Device<Self>) -> Result<Val<Self>> {
        let layout = Layout::contiguous(Shape::from(ty.storage_shape()));
        Ok(wrap(
            FlexTensor::new(bytes, layout, ty.dtype.to_burn()),
            ty.dtype,
        ))
    }

    unsafe fn borrow(
        ptr: *const u8,
        strides: &[isize],
        ty: &Ty,
        owner: Owner,
        device: &Device<Self>,
    ) -> Result<Val<Self>> {
        let shape = ty.storage_shape();
        let mut strides = strides.to_vec();
        let mut item = ty.dtype.itemsize();
        if ty.dtype == DType::Key {
            strides.push(4);
            item = 4;
        }
        // SAFETY: passed on to the caller.
        let bytes = unsafe { crate::host::copy::gather_bytes(ptr, &shape, &strides, item) };
        drop(owner);
        Self::upload(bytes, ty, device)
    }

    fn view(val: &Val<Self>) -> Option<HostView<'_>> {
        let (Val::Float(t) | Val::Int(t) | Val::Bool(t)) = val;
        let dtype = match t.dtype() {
            BurnType::F64 => DType::F64,
            BurnType::F32 => DType::F32,
            BurnType::F16 => DType::F16,
            BurnType::BF16 => DType::BF16,
            BurnType::I64 => DType::I64,
            BurnType::I32 => DType::I32,
            BurnType::I16 => DType::I16,
            BurnType::I8 => DType::I8,
            BurnType::U64 => DType::U64,
            BurnType::U32 => DType::U32,
            BurnType::U16 => DType::U16,
            BurnType::U8 => DType::U8,
            BurnType::Bool(_) => DType::Bool,
            _ => return None,
        };
        let layout = t.layout();
        Some(HostView {
            ptr: t
                .bytes()
                .as_ptr()
                .wrapping_add(layout.start_offset() * dtype.itemsize()),
            shape: layout.shape(),
            strides: layout.strides(),
            dtype,
        })
    }
}

fn wrap(t: FlexTensor, dtype: DType) -> Val<Flex> {
    if dtype.is_float() {
        Val::Float(t)
    } else if dtype.is_bool() {
        Val::Bool(t)
    } else {
        Val::Int(t)
    }
}
