//! Reductions, scans and sorting.

use super::Call;
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
        if !B::HOST {
            return match (x, op) {
                (Val::Float(x), Reduce::Sum) => {
                    let sums = axes.iter().fold(x, |x, &axis| B::float_sum_dim(x, axis));
                    Ok(B::reshape(Val::Float(sums), &self.out.shape))
                }
                _ => Err(no_host::<B>(self.name)),
            };
        }
        let empty = axes.iter().any(|&a| self.types[0].shape[a] == 0);
        let extreme = matches!(op, Reduce::Max | Reduce::Min);
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

    pub(super) fn cumsum(self, axis: i64, reverse: bool) -> Result<Val<B>> {
        self.along(|x| scan::cumsum(x, axis as usize, reverse))
    }

    pub(super) fn cummax(self, axis: i64, reverse: bool) -> Result<Val<B>> {
        self.along(|x| scan::cummax(x, axis as usize, reverse))
    }

    pub(super) fn sort(self, axis: i64) -> Result<Val<B>> {
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

fn empty_axis() -> Error {
    Error::runtime("an axis of size 0 has no largest or smallest element").with_code("empty-axis")
}
