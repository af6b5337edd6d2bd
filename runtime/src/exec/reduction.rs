//! Reductions, scans and sorting.

use burn_backend::tensor::FloatTensor;
use burn_std::Slice;

use super::Call;
use super::elementwise::{aligned, stretched, tamed};
use crate::backend::{ExecBackend, no_host};
use crate::error::{Error, Result};
use crate::host::reduce::{self, Reduce};
use crate::host::{HostView, order, scan};
use crate::value::Val;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn reduce(mut self, op: Reduce, axes: &[i64]) -> Result<Val<B>> {
        let [x] = self.take()?;
        if axes.is_empty() {
            return Ok(x);
        }
        let axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
        let empty = axes.iter().any(|&a| self.types[0].shape[a] == 0);
        let extreme = matches!(op, Reduce::Max | Reduce::Min);
        if !B::HOST {
            let Val::Float(x) = x else {
                return Err(no_host::<B>(self.name));
            };
            if empty || self.out.elements() == 0 {
                return self.of_nothing(op);
            }
            let step = match op {
                Reduce::Sum => B::float_sum_dim,
                Reduce::Prod => B::float_prod_dim,
                Reduce::Max => B::float_max_dim,
                Reduce::Min => B::float_min_dim,
            };
            let out = axes.iter().fold(x, |x, &axis| step(x, axis));
            return Ok(B::reshape(Val::Float(out), &self.out.shape));
        }
        if empty && extreme && !reduce::has_empty_extreme(self.out.dtype) && self.out.elements() > 0
        {
            return Err(empty_axis());
        }
        let [x] = B::views(self.name, [&x])?;
        self.upload(reduce::reduce(op, &x, &axes)?)
    }

    pub(super) fn arg_extreme(self, axis: i64, largest: bool) -> Result<Val<B>> {
        let axis = axis as usize;
        if self.types[0].shape[axis] == 0 && self.out.elements() > 0 {
            return Err(empty_axis());
        }
        self.along(|x| order::arg_extreme(x, axis, largest))
    }

    /// The result of a reduction over no elements, for floats.
    fn of_nothing(&self, op: Reduce) -> Result<Val<B>> {
        let value = match op {
            Reduce::Sum => 0.0,
            Reduce::Prod => 1.0,
            Reduce::Max => f64::NEG_INFINITY,
            Reduce::Min => f64::INFINITY,
        };
        let one = B::reshape(
            Val::Float(self.filled(value)),
            &aligned(&[], self.out.rank()),
        );
        match one {
            Val::Float(one) => Ok(Val::Float(stretched::<B>(one, &self.out.shape))),
            Val::Int(_) | Val::Bool(_) => Err(no_host::<B>(self.name)),
        }
    }

    /// A scan or a sort by Burn's primitive; backwards by turning it around.
    fn scanned(
        mut self,
        axis: i64,
        reverse: bool,
        f: impl FnOnce(FloatTensor<B>, usize) -> FloatTensor<B>,
    ) -> Result<Val<B>> {
        let [x] = self.take()?;
        let Val::Float(x) = x else {
            return Err(no_host::<B>(self.name));
        };
        if self.out.elements() == 0 {
            return Ok(Val::Float(x));
        }
        let axis = axis as usize;
        if !reverse {
            return Ok(Val::Float(f(x, axis)));
        }
        let turned = f(B::float_flip(x, &[axis]), axis);
        Ok(Val::Float(B::float_flip(turned, &[axis])))
    }

    pub(super) fn cumsum(self, axis: i64, reverse: bool) -> Result<Val<B>> {
        if !B::HOST {
            return self.scanned(axis, reverse, B::float_cumsum);
        }
        self.along(|x| scan::cumsum(x, axis as usize, reverse))
    }

    pub(super) fn cummax(self, axis: i64, reverse: bool) -> Result<Val<B>> {
        if !B::HOST {
            return self.scanned(axis, reverse, B::float_cummax);
        }
        self.along(|x| scan::cummax(x, axis as usize, reverse))
    }

    pub(super) fn cumprod(self, axis: i64, reverse: bool) -> Result<Val<B>> {
        if !B::HOST {
            return self.scanned(axis, reverse, B::float_cumprod);
        }
        self.along(|x| scan::cumprod(x, axis as usize, reverse))
    }

    pub(super) fn cumlogsumexp(self, axis: i64, reverse: bool) -> Result<Val<B>> {
        if !B::HOST {
            return self.stepped::<1>(axis, reverse, |before, [x]| match before {
                None => x,
                Some(before) => log_add_exp::<B>(before, x),
            });
        }
        self.along(|x| scan::cumlogsumexp(x, axis as usize, reverse))
    }

    pub(super) fn linear_scan(mut self, axis: i64, reverse: bool) -> Result<Val<B>> {
        if !B::HOST {
            return self.stepped::<2>(axis, reverse, |before, [factor, term]| match before {
                None => term,
                Some(before) => {
                    let tame = tamed::<B>(&factor, before.clone());
                    let product = B::float_mul(tamed::<B>(&before, factor), tame);
                    B::float_add(term, product)
                }
            });
        }
        self.need_host()?;
        let [factors, terms] = self.take()?.map(B::dense);
        let [factors, terms] = B::views(self.name, [&factors, &terms])?;
        self.upload(scan::linear_scan(&factors, &terms, axis as usize, reverse)?)
    }

    /// A recurrence along an axis, one step after the other, of as many floats.
    fn stepped<const N: usize>(
        mut self,
        axis: i64,
        reverse: bool,
        step: impl Fn(Option<FloatTensor<B>>, [FloatTensor<B>; N]) -> FloatTensor<B>,
    ) -> Result<Val<B>> {
        let args = self.take::<N>()?;
        let mut operands = Vec::with_capacity(N);
        for x in args {
            match x {
                Val::Float(x) => operands.push(x),
                Val::Int(_) | Val::Bool(_) => return Err(no_host::<B>(self.name)),
            }
        }
        let axis = axis as usize;
        let n = self.out.shape[axis];
        if self.out.elements() == 0 {
            return Ok(Val::Float(operands.swap_remove(0)));
        }
        let mut rows = Vec::with_capacity(n);
        let mut state = None;
        for i in 0..n {
            let at = if reverse { n - 1 - i } else { i };
            let mut part = vec![Slice::full(); self.out.rank()];
            part[axis] = Slice::new(at as isize, Some(at as isize + 1), 1);
            let now = std::array::from_fn(|k| B::float_slice(operands[k].clone(), &part));
            let next = step(state, now);
            rows.push(next.clone());
            state = Some(next);
        }
        if reverse {
            rows.reverse();
        }
        Ok(Val::Float(B::float_cat(rows, axis)))
    }

    pub(super) fn sort(self, axis: i64) -> Result<Val<B>> {
        if !B::HOST {
            return self.scanned(axis, false, |x, axis| B::float_sort(x, axis, false));
        }
        self.along(|x| order::sort(x, axis as usize))
    }

    pub(super) fn argsort(self, axis: i64) -> Result<Val<B>> {
        self.along(|x| order::argsort(x, axis as usize))
    }

    /// Runs a kernel that wants its operand dense.
    fn along(
        mut self,
        kernel: impl FnOnce(&HostView<'_>) -> Result<burn_std::Bytes>,
    ) -> Result<Val<B>> {
        self.need_host()?;
        let [x] = self.take()?;
        let x = B::dense(x);
        let [x] = B::views(self.name, [&x])?;
        self.upload(kernel(&x)?)
    }
}

/// `log(exp(x) + exp(y))`, scaled by the larger one, which is not recorded.
fn log_add_exp<B: ExecBackend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    let below = B::float_lower(x.clone(), y.clone(), B::BOOL);
    let most = B::float_detach(B::float_mask_where(x.clone(), below, y.clone()));
    let endless = B::float_is_nan(B::float_sub(most.clone(), most.clone()), B::BOOL);
    let most = B::float_mask_fill(most, endless, 0.0.into());
    let part = |v| B::float_exp(B::float_sub(v, most.clone()));
    B::float_add(B::float_log(B::float_add(part(x), part(y))), most.clone())
}

fn empty_axis() -> Error {
    Error::runtime("an axis of size 0 has no largest or smallest element").with_code("empty-axis")
}
