//! Movement: views where strides can express it.

use burn_std::{Shape, Slice};

use super::Call;
use super::elementwise::aligned;
use crate::backend::{ExecBackend, no_host, shape_of};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::{copy, pad};
use crate::value::Val;

/// Applies the primitive of the value's kind.
macro_rules! by_kind {
    ($val:expr, $float:path, $int:path, $bool:path, ($($arg:expr),*)) => {
        match $val {
            Val::Float(t) => Val::Float($float(t, $($arg),*)),
            Val::Int(t) => Val::Int($int(t, $($arg),*)),
            Val::Bool(t) => Val::Bool($bool(t, $($arg),*)),
        }
    };
}

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn reshape(mut self) -> Result<Val<B>> {
        let [x] = self.take()?;
        Ok(B::reshape(x, &self.out.storage_shape()))
    }

    pub(super) fn transpose(mut self, axes: &[i64]) -> Result<Val<B>> {
        let [x] = self.take()?;
        let mut axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
        if self.out.dtype == DType::Key {
            axes.push(axes.len());
        }
        Ok(permute::<B>(x, &axes))
    }

    pub(super) fn broadcast_to(mut self) -> Result<Val<B>> {
        let [x] = self.take()?;
        let mut shape = shape_of::<B>(&x).to_vec();
        let target = self.out.storage_shape();
        if shape == target {
            return Ok(x);
        }
        if !B::HOST {
            let x = B::reshape(x, &aligned(&shape, target.len()));
            return Ok(expand::<B>(x, target));
        }
        if self.out.dtype == DType::Key && shape.len() < target.len() {
            // Axes are added at the left, and the words of a key are at the right.
            let missing = target.len() - shape.len();
            shape.splice(0..0, std::iter::repeat_n(1, missing));
            let x = B::reshape(x, &shape);
            return Ok(expand::<B>(x, target));
        }
        Ok(expand::<B>(x, target))
    }

    pub(super) fn slice(mut self, start: &[usize], stop: &[usize], step: &[i64]) -> Result<Val<B>> {
        let [x] = self.take()?;
        if self.out.elements() == 0 {
            return self.zeros();
        }
        let slices: Vec<Slice> = (0..start.len())
            .map(|k| Slice {
                start: start[k] as isize,
                end: Some(stop[k] as isize),
                step: step[k] as isize,
            })
            .collect();
        Ok(slice::<B>(x, &slices))
    }

    pub(super) fn pad(mut self, low: &[usize], interior: &[i64]) -> Result<Val<B>> {
        self.need_host()?;
        let [x, fill] = self.take()?;
        let [x, fill] = B::views(self.name, [&x, &fill])?;
        self.upload(pad::pad(&x, &fill, low, interior, &self.out.shape))
    }

    pub(super) fn concatenate(self, axis: i64) -> Result<Val<B>> {
        let axis = axis as usize;
        if B::HOST {
            let views = self
                .args
                .iter()
                .map(|x| B::view(x).ok_or_else(|| no_host::<B>(self.name)))
                .collect::<Result<Vec<_>>>()?;
            if views.is_empty() {
                return Err(Error::invalid_program("concatenate without operands"));
            }
            let bytes = copy::concatenate(&views, axis, &self.out.storage_shape());
            return self.upload(bytes);
        }
        let (mut floats, mut ints, mut bools) = (Vec::new(), Vec::new(), Vec::new());
        for arg in self.args {
            match arg {
                Val::Float(t) => floats.push(t),
                Val::Int(t) => ints.push(t),
                Val::Bool(t) => bools.push(t),
            }
        }
        Ok(if !floats.is_empty() {
            Val::Float(B::float_cat(floats, axis))
        } else if !ints.is_empty() {
            Val::Int(B::int_cat(ints, axis))
        } else {
            Val::Bool(B::bool_cat(bools, axis))
        })
    }

    pub(super) fn flip(mut self, axes: &[i64]) -> Result<Val<B>> {
        let [x] = self.take()?;
        if self.out.elements() == 0 {
            return Ok(x); // Burn looks for the last element
        }
        let axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
        Ok(by_kind!(
            x,
            B::float_flip,
            B::int_flip,
            B::bool_flip,
            (&axes)
        ))
    }

    pub(super) fn iota(self, axis: i64) -> Result<Val<B>> {
        // Bytes are made on the host and uploaded, whatever the backend.
        self.upload(pad::iota(&self.out.shape, axis as usize, self.out.dtype)?)
    }

    pub(super) fn not_an_op(self) -> Error {
        Error::invalid_program(format!("{} is not run as an op", self.name))
    }
}

/// A view with its axes in another order.
pub(super) fn permute<B: ExecBackend>(x: Val<B>, axes: &[usize]) -> Val<B> {
    if axes.iter().enumerate().all(|(i, &a)| i == a) {
        return x;
    }
    by_kind!(x, B::float_permute, B::int_permute, B::bool_permute, (axes))
}

/// A part of `x`.
pub(super) fn slice<B: ExecBackend>(x: Val<B>, slices: &[Slice]) -> Val<B> {
    if slices.is_empty() {
        return x;
    }
    by_kind!(x, B::float_slice, B::int_slice, B::bool_slice, (slices))
}

fn expand<B: ExecBackend>(x: Val<B>, shape: Vec<usize>) -> Val<B> {
    let shape = Shape::from(shape);
    by_kind!(x, B::float_expand, B::int_expand, B::bool_expand, (shape))
}
