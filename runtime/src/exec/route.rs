//! Ops that move elements, where these are recorded: the op itself tells where each element comes from, run on the
//! places of the elements in their stead, and one selection moves them.

use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_std::{Bytes, IndexingUpdateOp, Shape, Slice};

use super::{Call, execute};
use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::HostView;
use crate::host::reduce::Reduce;
use crate::op::Op;
use crate::value::{Ty, Val};

impl<B: ExecBackend> Call<'_, B> {
    /// Runs an op each of whose elements is one of its float operands' or, where a place is outside of all, NaN.
    pub(super) fn routed(mut self, op: &Op<usize>) -> Result<Val<B>> {
        if !B::RECORDS {
            return Err(no_host::<B>(self.name));
        }
        let mut floats = Vec::new();
        let mut places = Vec::new();
        let mut types = Vec::new();
        let mut at = 0;
        for (arg, ty) in std::mem::take(&mut self.args).into_iter().zip(self.types) {
            match arg {
                Val::Float(x) => {
                    types.push(wide(&ty.shape));
                    places.push(self.places(at, ty)?);
                    at += ty.elements();
                    floats.push(flat::<B>(x, ty.elements()));
                }
                other => {
                    types.push(ty.clone());
                    places.push(B::inner(other));
                }
            }
        }
        let out = wide(&self.out.shape);
        let chosen = execute::<B::Inner>(self.device, op, places, &types, &out)?;
        let indices = self.indices(&chosen, at)?;
        floats.push(self.filled(f64::NAN));
        let all = B::float_cat(floats, 0);
        let moved = B::float_select(all, 0, indices);
        Ok(Val::Float(B::float_reshape(
            moved,
            Shape::from(self.out.shape.clone()),
        )))
    }

    /// `scatter_add`: a gather of the places says where each update goes; those outside go past the end.
    pub(super) fn added(mut self, axis: i64, batch_dims: i64, mode: &str) -> Result<Val<B>> {
        if !B::RECORDS {
            return Err(no_host::<B>(self.name));
        }
        let [x, indices, updates] = self.take()?;
        let (Val::Float(x), Val::Float(updates)) = (x, updates) else {
            return Err(no_host::<B>(self.name));
        };
        let n = self.types[0].elements();
        let targets = self.targets(indices, axis, batch_dims, mode)?;
        let targets = self.indices(&targets, n)?;
        let updates = flat::<B>(updates, self.types[2].elements());
        let sums = self.accumulate(flat::<B>(x, n), targets, updates);
        Ok(Val::Float(B::float_reshape(
            sums,
            Shape::from(self.out.shape.clone()),
        )))
    }

    /// A scatter that multiplies or keeps an extreme: each place is the reduction of a row, what it held and what goes
    /// there, filled up with what changes nothing.
    pub(super) fn joined(
        mut self,
        op: Reduce,
        axis: i64,
        batch_dims: i64,
        mode: &str,
    ) -> Result<Val<B>> {
        if !B::RECORDS {
            return Err(no_host::<B>(self.name));
        }
        let [x, indices, updates] = self.take()?;
        let (Val::Float(x), Val::Float(updates)) = (x, updates) else {
            return Err(no_host::<B>(self.name));
        };
        let (n, k) = (self.types[0].elements(), self.types[2].elements());
        if n == 0 {
            return Ok(Val::Float(x));
        }
        let targets = self.targets(indices, axis, batch_dims, mode)?;
        let mut rows: Vec<Vec<i64>> = (0..n as i64).map(|i| vec![i]).collect();
        for (i, to) in self.place_list(&targets, n)?.into_iter().enumerate() {
            if let Some(row) = rows.get_mut(to as usize) {
                row.push((n + i) as i64);
            }
        }
        let width = rows.iter().map(Vec::len).max().unwrap_or(1);
        for row in &mut rows {
            row.resize(width, (n + k) as i64);
        }
        let neutral = self.filled(match op {
            Reduce::Sum => 0.0,
            Reduce::Prod => 1.0,
            Reduce::Max => f64::NEG_INFINITY,
            Reduce::Min => f64::INFINITY,
        });
        let all = B::float_cat(vec![flat::<B>(x, n), flat::<B>(updates, k), neutral], 0);
        let rows = B::float_select(all, 0, self.index_list(rows.concat())?);
        let rows = B::float_reshape(rows, Shape::from(vec![n, width]));
        let out = match op {
            Reduce::Sum => B::float_sum_dim(rows, 1),
            Reduce::Prod => B::float_prod_dim(rows, 1),
            Reduce::Max => B::float_max_dim(rows, 1),
            Reduce::Min => B::float_min_dim(rows, 1),
        };
        Ok(Val::Float(B::float_reshape(
            out,
            Shape::from(self.out.shape.clone()),
        )))
    }

    /// The place that each update of a scatter goes to.
    fn targets(
        &self,
        indices: Val<B>,
        axis: i64,
        batch_dims: i64,
        mode: &str,
    ) -> Result<Val<B::Inner>> {
        let op = Op::Gather {
            axis,
            batch_dims,
            mode: mode.to_string(),
        };
        let types = [wide(&self.types[0].shape), self.types[1].clone()];
        let places = vec![self.places(0, &self.types[0])?, B::inner(indices)];
        let out = wide(&self.types[2].shape);
        execute::<B::Inner>(self.device, &op, places, &types, &out)
    }

    /// Adds `updates` to the flat `x` at their places; one past the end is dropped.
    pub(super) fn accumulate(
        &self,
        x: FloatTensor<B>,
        places: IntTensor<B>,
        updates: FloatTensor<B>,
    ) -> FloatTensor<B> {
        let n = self.out.elements();
        let room = B::float_cat(vec![x, self.filled(0.0)], 0);
        let sums = B::float_select_assign(room, 0, places, updates, IndexingUpdateOp::Add);
        let slice = Slice {
            start: 0,
            end: Some(n as isize),
            step: 1,
        };
        B::float_slice(sums, &[slice])
    }

    /// The places of the elements of an operand, counted from `first`; in f64, so that an op's NaN is no place.
    fn places(&self, first: usize, ty: &Ty) -> Result<Val<B::Inner>> {
        let places: Vec<f64> = (first..first + ty.elements()).map(|i| i as f64).collect();
        B::Inner::upload(Bytes::from_elems(places), &wide(&ty.shape), self.device)
    }

    /// Places as Burn takes them; NaN becomes `outside`.
    fn indices(&self, places: &Val<B::Inner>, outside: usize) -> Result<IntTensor<B>> {
        self.index_list(self.place_list(places, outside)?)
    }

    fn place_list(&self, places: &Val<B::Inner>, outside: usize) -> Result<Vec<i64>> {
        let dense = B::Inner::dense(places.clone());
        let [view]: [HostView<'_>; 1] = B::Inner::views(self.name, [&dense])?;
        let n = view.elements();
        let mut list = Vec::with_capacity(n);
        for i in 0..n {
            // SAFETY: a dense view of `n` elements of f64.
            let place = unsafe { view.ptr.cast::<f64>().add(i).read() };
            list.push(if place.is_nan() {
                outside as i64
            } else {
                place as i64
            });
        }
        Ok(list)
    }

    /// A list of indices.
    pub(super) fn index_list(&self, list: Vec<i64>) -> Result<IntTensor<B>> {
        let ty = Ty {
            dtype: DType::I64,
            shape: vec![list.len()],
        };
        match B::upload(Bytes::from_elems(list), &ty, self.device)? {
            Val::Int(list) => Ok(list),
            Val::Float(_) | Val::Bool(_) => Err(no_host::<B>(self.name)),
        }
    }

    /// One element of the result's dtype.
    pub(super) fn filled(&self, value: f64) -> FloatTensor<B> {
        let dtype = self.out.dtype.to_burn();
        B::float_full(
            Shape::from(vec![1]),
            value.into(),
            self.device,
            dtype.into(),
        )
    }
}

/// A float in one axis.
pub(super) fn flat<B: ExecBackend>(x: FloatTensor<B>, n: usize) -> FloatTensor<B> {
    B::float_reshape(x, Shape::from(vec![n]))
}

fn wide(shape: &[usize]) -> Ty {
    Ty {
        dtype: DType::F64,
        shape: shape.to_vec(),
    }
}
