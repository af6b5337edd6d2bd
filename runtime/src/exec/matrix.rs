//! Factorizations of matrices, and what is solved with them.

use burn_std::Bytes;

use super::Call;
use crate::backend::ExecBackend;
use crate::error::Result;
use crate::host::HostView;
use crate::host::matrix::{self, Factor};
use crate::value::Val;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn factor(mut self, factor: Factor, pairs: bool) -> Result<Val<B>> {
        self.need_host()?;
        let [x] = self.take()?;
        let x = B::dense(x);
        let [x] = B::views(self.name, [&x])?;
        self.upload(matrix::factor(factor, &x, pairs, &self.out.shape)?)
    }

    pub(super) fn solve(self, pairs: bool) -> Result<Val<B>> {
        self.solved(|a, b| matrix::solve(a, b, pairs))
    }

    pub(super) fn triangular_solve(
        self,
        lower: bool,
        transpose: bool,
        unit: bool,
        pairs: bool,
    ) -> Result<Val<B>> {
        let kind = matrix::Triangle {
            lower,
            transpose,
            unit,
        };
        self.solved(|a, b| matrix::triangular_solve(kind, a, b, pairs))
    }

    fn solved(
        mut self,
        kernel: impl FnOnce(&HostView<'_>, &HostView<'_>) -> Result<Bytes>,
    ) -> Result<Val<B>> {
        self.need_host()?;
        let [a, b] = self.take()?;
        let (a, b) = (B::dense(a), B::dense(b));
        let [a, b] = B::views(self.name, [&a, &b])?;
        self.upload(kernel(&a, &b)?)
    }
}
