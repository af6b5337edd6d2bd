//! Flex: Burn's CPU backend. Values are strided views of shared buffers in host memory.

use burn_backend::tensor::Device;
use burn_flex::{Flex, FlexTensor, Layout};
use burn_std::{AllocationProperty, BoolStore, Bytes, Shape};

use half::{bf16, f16};

use super::{BORROW_MIN_BYTES, ExecBackend, Owner, item, storage_strides, wrap};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::{HostView, copy, is_dense};
use crate::value::{Ty, Val};

impl ExecBackend for Flex {
    const HOST: bool = true;
    const BOOL: BoolStore = BoolStore::Native;

    type Inner = Self;

    fn inner(val: Val<Self>) -> Val<Self> {
        val
    }

    fn outer(val: Val<Self>) -> Val<Self> {
        val
    }

    fn upload(bytes: Bytes, ty: &Ty, _device: &Device<Self>) -> Result<Val<Self>> {
        if bytes.len() != ty.bytes() {
            return Err(Error::argument(format!(
                "{} bytes for a value of type {ty}, which has {}",
                bytes.len(),
                ty.bytes()
            ))
            .with_code("byte-count"));
        }
        // Burn casts the bytes to elements, which must be aligned.
        let bytes = if (bytes.as_ptr() as usize).is_multiple_of(item(ty)) {
            bytes
        } else {
            Bytes::from_bytes_vec(bytes.to_vec())
        };
        let layout = dense_layout(ty);
        Ok(wrap(
            FlexTensor::new(bytes, layout, ty.dtype.to_burn()),
            ty.dtype,
        ))
    }

    unsafe fn borrow(
        ptr: *const u8,
        byte_strides: &[isize],
        ty: &Ty,
        owner: Owner,
        device: &Device<Self>,
    ) -> Result<Val<Self>> {
        let itemsize = item(ty) as isize;
        let shape = ty.storage_shape();
        let strides = storage_strides(byte_strides, ty);
        if strides.len() != shape.len() {
            return Err(Error::argument(format!(
                "{} strides for a value of type {ty}",
                byte_strides.len()
            ))
            .with_code("strides"));
        }
        let regular = (ptr as usize).is_multiple_of(itemsize as usize)
            && strides.iter().all(|s| s % itemsize == 0);
        let (low, high) = extent(&shape, &strides);
        let span = (high - low + itemsize) as usize;
        // A wide span with few elements is cheaper to copy than to keep, and kernels would find it no denser.
        if !regular || ty.bytes() < BORROW_MIN_BYTES || span > ty.bytes().saturating_mul(8) {
            // SAFETY: passed on to the caller.
            let bytes = unsafe { copy::gather_bytes(ptr, &shape, &strides, itemsize as usize) };
            drop(owner);
            return Self::upload(bytes, ty, device);
        }
        let memory = Borrowed {
            // SAFETY: `low` is the offset of the first element in memory.
            start: unsafe { ptr.offset(low) },
            len: span,
            _owner: owner,
        };
        let bytes = Bytes::from_shared(bytes::Bytes::from_owner(memory), AllocationProperty::Other);
        let layout = Layout::new(
            Shape::from(shape),
            strides.iter().map(|s| s / itemsize).collect(),
            (-low / itemsize) as usize,
        );
        Ok(wrap(
            FlexTensor::new(bytes, layout, ty.dtype.to_burn()),
            ty.dtype,
        ))
    }

    fn view(val: &Val<Self>) -> Option<HostView<'_>> {
        let (Val::Float(t) | Val::Int(t) | Val::Bool(t)) = val;
        look(t)
    }

    fn dense_mut(val: &mut Val<Self>) -> Option<*mut u8> {
        let (Val::Float(t) | Val::Int(t) | Val::Bool(t)) = val;
        // An empty view may start past the end of its buffer.
        if t.layout().shape().contains(&0) {
            return None;
        }
        if !t.is_unique() || !is_dense(t.layout().shape(), t.layout().strides()) {
            return None;
        }
        // Writing to memory that is not its own makes a buffer copy itself: a fresh result is cheaper.
        if t.data_arc().property() != AllocationProperty::Native {
            return None;
        }
        let start = t.layout().start_offset();
        macro_rules! storage {
            ($T:ty) => {
                t.storage_mut::<$T>()[start..].as_mut_ptr().cast()
            };
        }
        Some(match from_burn(t.dtype())? {
            DType::Bool | DType::U8 => storage!(u8),
            DType::I8 => storage!(i8),
            DType::I16 => storage!(i16),
            DType::I32 => storage!(i32),
            DType::I64 => storage!(i64),
            DType::U16 => storage!(u16),
            DType::U32 => storage!(u32),
            DType::U64 => storage!(u64),
            DType::F16 => storage!(f16),
            DType::BF16 => storage!(bf16),
            DType::F32 => storage!(f32),
            DType::F64 => storage!(f64),
            DType::C64 | DType::C128 | DType::Key | DType::Token => return None,
        })
    }

    fn dense(val: Val<Self>) -> Val<Self> {
        let make = |t: FlexTensor| {
            if is_dense(t.layout().shape(), t.layout().strides()) {
                t
            } else {
                t.to_contiguous()
            }
        };
        match val {
            Val::Float(t) => Val::Float(make(t)),
            Val::Int(t) => Val::Int(make(t)),
            Val::Bool(t) => Val::Bool(make(t)),
        }
    }

    fn row(val: &Val<Self>, i: usize) -> Val<Self> {
        let make = |t: &FlexTensor| {
            let layout = t.layout();
            let (shape, strides) = (layout.shape(), layout.strides());
            let start = layout.start_offset() as isize + i as isize * strides[0];
            let shape = Shape::from(shape[1..].iter().copied());
            let layout = Layout::new(shape, strides[1..].to_vec(), start as usize);
            FlexTensor::from_arc(t.data_arc(), layout, t.dtype())
        };
        match val {
            Val::Float(t) => Val::Float(make(t)),
            Val::Int(t) => Val::Int(make(t)),
            Val::Bool(t) => Val::Bool(make(t)),
        }
    }

    fn reshape(val: Val<Self>, shape: &[usize]) -> Val<Self> {
        let make = |t: FlexTensor| {
            let layout = t.layout();
            if layout.shape().as_slice() == shape {
                return t;
            }
            match reshaped_strides(layout.shape(), layout.strides(), shape) {
                Some(strides) => {
                    let layout =
                        Layout::new(Shape::from(shape.to_vec()), strides, layout.start_offset());
                    t.with_layout(layout)
                }
                None => t.to_contiguous().reshape(Shape::from(shape.to_vec())),
            }
        };
        match val {
            Val::Float(t) => Val::Float(make(t)),
            Val::Int(t) => Val::Int(make(t)),
            Val::Bool(t) => Val::Bool(make(t)),
        }
    }
}

/// A look at the memory of a tensor.
pub(super) fn look(t: &FlexTensor) -> Option<HostView<'_>> {
    let dtype = from_burn(t.dtype())?;
    let layout = t.layout();
    let offset = layout.start_offset() * dtype.itemsize();
    Some(HostView {
        // An empty view may start past the end of its buffer: the pointer is then never read.
        ptr: t.bytes().as_ptr().wrapping_add(offset),
        shape: layout.shape(),
        strides: layout.strides(),
        dtype,
    })
}

/// Burn makes two lists of strides for it, this one.
fn dense_layout(ty: &Ty) -> Layout {
    if ty.dtype == DType::Key {
        return Layout::contiguous(Shape::from(ty.storage_shape()));
    }
    let strides = crate::host::dense_strides(&ty.shape);
    Layout::new(Shape::from(ty.shape.iter().copied()), strides, 0)
}

/// Memory of the caller.
struct Borrowed {
    start: *const u8,
    len: usize,
    _owner: Owner,
}

// SAFETY: the memory is only read, and the owner may be dropped on any thread.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: whoever called `borrow` vouches for the memory for as long as the owner lives.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// The lowest and highest byte offset of an element.
fn extent(shape: &[usize], strides: &[isize]) -> (isize, isize) {
    let mut range = (0, 0);
    for (&n, &s) in shape.iter().zip(strides) {
        let last = s * (n as isize - 1).max(0);
        if last < 0 {
            range.0 += last;
        } else {
            range.1 += last;
        }
    }
    range
}

/// The strides that show an array of `old` shape and strides in another shape of as many elements, if there are any.
pub fn reshaped_strides(old: &[usize], strides: &[isize], new: &[usize]) -> Option<Vec<isize>> {
    // Burn takes a stride of 0 for a broadcast, even along an axis of size 1.
    let mut result = vec![1; new.len()];
    if new.contains(&0) {
        return Some(crate::host::dense_strides(new));
    }
    let axes: Vec<(usize, isize)> = old
        .iter()
        .zip(strides)
        .filter(|(n, _)| **n != 1)
        .map(|(n, s)| (*n, *s))
        .collect();
    let (mut i, mut j) = (0, 0);
    while i < axes.len() {
        let (mut have, mut want) = (axes[i].0, 1);
        let first = j;
        let start = i;
        while want != have {
            if want < have {
                want *= *new.get(j)?;
                j += 1;
            } else {
                i += 1;
                have *= axes.get(i)?.0;
            }
        }
        if axes[start..=i]
            .windows(2)
            .any(|w| w[0].1 != w[1].1 * w[1].0 as isize)
        {
            return None;
        }
        let mut stride = axes[i].1;
        for k in (first..j).rev() {
            result[k] = stride;
            stride *= new[k] as isize;
        }
        i += 1;
    }
    Some(result)
}

fn from_burn(dtype: burn_backend::DType) -> Option<DType> {
    use burn_backend::DType as D;
    Some(match dtype {
        D::Bool(_) => DType::Bool,
        D::I8 => DType::I8,
        D::I16 => DType::I16,
        D::I32 => DType::I32,
        D::I64 => DType::I64,
        D::U8 => DType::U8,
        D::U16 => DType::U16,
        D::U32 => DType::U32,
        D::U64 => DType::U64,
        D::F16 => DType::F16,
        D::BF16 => DType::BF16,
        D::F32 => DType::F32,
        D::F64 => DType::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_keeps_strides_where_it_can() {
        assert_eq!(
            reshaped_strides(&[4, 3], &[1, 4], &[2, 2, 3]),
            Some(vec![2, 1, 4])
        );
        assert_eq!(reshaped_strides(&[4, 3], &[1, 4], &[12]), None);
        assert_eq!(
            reshaped_strides(&[2, 3, 4], &[12, 4, 1], &[6, 4]),
            Some(vec![4, 1])
        );
        assert_eq!(
            reshaped_strides(&[1, 5], &[9, 2], &[5, 1]).map(|s| s[0]),
            Some(2)
        );
        assert!(reshaped_strides(&[], &[], &[1, 1]).is_some());
        assert!(reshaped_strides(&[0, 3], &[3, 1], &[0]).is_some());
    }
}
