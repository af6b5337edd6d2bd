//! Gather, scatter, dynamic slices.

use burn_std::Slice;

use super::{Call, movement};
use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::indexing::{self, Geometry, Update};
use crate::host::{HostView, Out, copy, dense_strides};
use crate::value::Val;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn gather(mut self, axis: i64, batch_dims: i64, mode: &str) -> Result<Val<B>> {
        self.need_host()?;
        let [x, indices] = self.take()?;
        let (x, indices) = (B::dense(x), B::dense(indices));
        let [x, indices] = B::views(self.name, [&x, &indices])?;
        let g = Geometry::new(x.shape, indices.shape, axis as usize, batch_dims as usize);
        self.upload(indexing::gather(&x, &indices, g, mode, self.out.dtype)?)
    }

    pub(super) fn scatter(
        mut self,
        op: Update,
        axis: i64,
        batch_dims: i64,
        mode: &str,
    ) -> Result<Val<B>> {
        self.need_host()?;
        let [x, indices, updates] = self.take()?;
        let (indices, updates) = (B::dense(indices), B::dense(updates));
        let [indices, updates] = B::views(self.name, [&indices, &updates])?;
        self.rewrite(x, |dst, shape| {
            let g = Geometry::new(shape, indices.shape, axis as usize, batch_dims as usize);
            // SAFETY: `dst` is the dense memory of an array of `shape`, which is ours alone.
            unsafe { indexing::scatter(op, dst, &indices, &updates, g, mode) }
        })
    }

    /// The same memory as elements of another dtype.
    pub(super) fn bitcast(mut self) -> Result<Val<B>> {
        self.need_host()?;
        let [x] = self.take()?;
        let x = B::dense(x);
        let [x] = B::views(self.name, [&x])?;
        let mut out = Out::new(self.out.elements(), self.out.dtype.itemsize());
        let bytes = x.elements() * x.dtype.itemsize();
        if bytes != self.out.elements() * self.out.dtype.itemsize() {
            return Err(Error::invalid_program("the bits do not fill the result"));
        }
        // SAFETY: a dense view of so many bytes, and as many in the result.
        let out = unsafe {
            std::ptr::copy_nonoverlapping(x.ptr, out.ptr(), bytes);
            out.finish()
        };
        self.upload(out)
    }

    pub(super) fn dynamic_slice(mut self, sizes: &[usize]) -> Result<Val<B>> {
        let [x, starts] = self.take()?;
        let starts = self.starts(starts, &self.types[0].shape, sizes)?;
        if self.out.elements() == 0 {
            return self.zeros();
        }
        Ok(movement::slice::<B>(x, &part(&starts, sizes)))
    }

    /// The starts, moved so that the part lies within; on a backend that records they are on the host all the same.
    fn starts(&self, starts: Val<B>, shape: &[usize], sizes: &[usize]) -> Result<Vec<usize>> {
        if !B::HOST && !B::RECORDS {
            return Err(no_host::<B>(self.name));
        }
        let starts = B::Inner::dense(B::inner(starts));
        let [starts] = B::Inner::views(self.name, [&starts])?;
        indexing::clamped_starts(&starts, shape, sizes)
    }

    pub(super) fn dynamic_update_slice(mut self) -> Result<Val<B>> {
        let [x, update, starts] = self.take()?;
        let (shape, sizes) = (&self.types[0].shape, &self.types[1].shape);
        let starts = self.starts(starts, shape, sizes)?;
        if !B::HOST {
            return match (x, update) {
                // There is nothing to slice.
                (_, update) if sizes.is_empty() => Ok(update),
                (x, _) if sizes.contains(&0) => Ok(x),
                (Val::Float(x), Val::Float(update)) => Ok(Val::Float(B::float_slice_assign(
                    x,
                    &part(&starts, sizes),
                    update,
                ))),
                _ => Err(no_host::<B>(self.name)),
            };
        }
        let [update] = B::views(self.name, [&update])?;
        self.rewrite(x, |dst, shape| {
            let strides = dense_strides(shape);
            let offset: isize = starts
                .iter()
                .zip(&strides)
                .map(|(&start, stride)| start as isize * stride)
                .sum();
            let itemsize = update.dtype.itemsize();
            if update.elements() > 0 {
                // SAFETY: the starts are clamped, so the part lies within `dst`, which is ours alone.
                unsafe {
                    let dst = dst.offset(offset * itemsize as isize);
                    copy::copy(
                        update.shape,
                        update.ptr,
                        update.strides,
                        dst,
                        &strides,
                        itemsize,
                    );
                }
            }
            Ok(())
        })
    }

    /// Lets `change` write to the dense memory of `x`, or of a copy when somebody else may see it.
    fn rewrite(
        &self,
        mut x: Val<B>,
        change: impl FnOnce(*mut u8, &[usize]) -> Result<()>,
    ) -> Result<Val<B>> {
        let storage;
        let shape = if self.types[0].dtype == DType::Key {
            storage = self.types[0].storage_shape();
            &storage
        } else {
            &self.types[0].shape
        };
        if let Some(dst) = B::dense_mut(&mut x) {
            change(dst, shape)?;
            return Ok(x);
        }
        let [view]: [HostView<'_>; 1] = B::views(self.name, [&x])?;
        let mut out = copy::dense(&view);
        change(out.ptr(), shape)?;
        // SAFETY: the copy has written every element.
        self.upload(unsafe { out.finish() })
    }
}

/// The slices of a part.
fn part(starts: &[usize], sizes: &[usize]) -> Vec<Slice> {
    let one = |(&start, &size): (&usize, &usize)| Slice {
        start: start as isize,
        end: Some((start + size) as isize),
        step: 1,
    };
    starts.iter().zip(sizes).map(one).collect()
}
