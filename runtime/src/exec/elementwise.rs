//! Elementwise ops: broadcasting, in place where an operand is free to be written.

use burn_backend::tensor::{Device, FloatTensor};
use burn_std::Shape;

use super::Call;
use crate::backend::{ExecBackend, item, no_host, shape_of};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::binary::Binary;
use crate::host::nest::{self, Kernel};
use crate::host::unary::Unary;
use crate::host::{HostView, Out, binary, cast, select, unary};
use crate::value::{Ty, Val};

/// Burn's primitive for floats, for backends without host memory.
pub(super) type Float1<B> = fn(FloatTensor<B>) -> FloatTensor<B>;
/// The same with two operands.
pub(super) type Float2<B> = fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn identity(mut self) -> Result<Val<B>> {
        let [x] = self.take()?;
        Ok(x)
    }

    pub(super) fn unary(mut self, op: Unary, burn: Option<Float1<B>>) -> Result<Val<B>> {
        let [x] = self.take()?;
        if !B::HOST {
            return match (x, burn) {
                (Val::Float(x), Some(f)) => Ok(Val::Float(f(x))),
                _ => Err(no_host::<B>(self.name)),
            };
        }
        self.map(unary::kernel(op, self.types[0].dtype)?, [x])
    }

    pub(super) fn cast(mut self) -> Result<Val<B>> {
        let [x] = self.take()?;
        let (from, to) = (self.types[0].dtype, self.out.dtype);
        if from == to {
            return Ok(x);
        }
        if !B::HOST {
            return match x {
                Val::Float(x) if to.is_float() => {
                    Ok(Val::Float(B::float_cast(x, to.to_burn().into())))
                }
                _ => Err(no_host::<B>(self.name)),
            };
        }
        self.map(cast::kernel(from, to)?, [x])
    }

    pub(super) fn binary(mut self, op: Binary, burn: Option<Float2<B>>) -> Result<Val<B>> {
        let [x, y] = self.take()?;
        if !B::HOST {
            let shape = || Shape::from(self.out.shape.clone());
            return match (x, y, burn) {
                (Val::Float(x), Val::Float(y), Some(f)) => Ok(Val::Float(f(
                    B::float_expand(x, shape()),
                    B::float_expand(y, shape()),
                ))),
                _ => Err(no_host::<B>(self.name)),
            };
        }
        self.map(binary::kernel(op, self.types[0].dtype)?, [x, y])
    }

    pub(super) fn select(mut self) -> Result<Val<B>> {
        self.need_host()?;
        let [cond, x, y] = self.take()?;
        if self.out.dtype != DType::Key {
            return self.map(select::kernel(self.out.dtype.itemsize()), [cond, x, y]);
        }
        // A key is two words: the condition gets a last dim that stretches over both.
        let mut shape = shape_of::<B>(&cond).to_vec();
        shape.push(1);
        let cond = B::reshape(cond, &shape);
        self.map(select::kernel(4), [cond, x, y])
    }

    /// Applies `kernel`, into the memory of an operand if one is free and has the shape and dtype of the result.
    fn map<const N: usize>(&self, kernel: Kernel<N>, mut args: [Val<B>; N]) -> Result<Val<B>> {
        let (itemsize, rank) = (item(self.out), self.out.rank());
        let free = (0..N).find_map(|k| {
            let ty = self.types.get(k)?;
            if ty.dtype != self.out.dtype || ty.rank() != rank || ty.shape != self.out.shape {
                return None;
            }
            Some((k, B::dense_mut(&mut args[k])?))
        });
        let mut views = [HostView {
            ptr: std::ptr::null(),
            shape: &[],
            strides: &[],
            dtype: DType::U8,
        }; N];
        for (view, arg) in views.iter_mut().zip(&args) {
            *view = B::view(arg).ok_or_else(|| no_host::<B>(self.name))?;
        }
        let itemsizes = views.map(|v| v.dtype.itemsize());
        let storage;
        let shape = if self.out.dtype == DType::Key {
            storage = self.out.storage_shape();
            &storage
        } else {
            &self.out.shape
        };
        if let Some((k, out)) = free {
            // SAFETY: the op is verified, so operands broadcast to `shape`; `out` is the dense memory of operand `k`,
            // which has this shape and dtype and which nobody else holds.
            unsafe { nest::run(kernel, shape, views, itemsizes, out, itemsize) };
            return match args.into_iter().nth(k) {
                Some(val) => Ok(val),
                None => Err(no_host::<B>(self.name)),
            };
        }
        let mut out = Out::new(shape.iter().product(), itemsize);
        // SAFETY: as above, with `out` new; the run writes every element.
        let bytes = unsafe {
            nest::run(kernel, shape, views, itemsizes, out.ptr(), itemsize);
            out.finish()
        };
        self.upload(bytes)
    }
}

/// `x` in another dtype.
pub(super) fn convert<B: ExecBackend>(
    x: Val<B>,
    from: DType,
    to: DType,
    device: &Device<B>,
) -> Result<Val<B>> {
    if from == to {
        return Ok(x);
    }
    let types = [Ty {
        dtype: from,
        shape: shape_of::<B>(&x).to_vec(),
    }];
    let out = Ty {
        dtype: to,
        shape: types[0].shape.clone(),
    };
    let c = Call {
        device,
        name: "cast",
        args: vec![x],
        types: &types,
        out: &out,
    };
    c.cast()
}
