//! Window ops.

use super::Call;
use crate::backend::ExecBackend;
use crate::error::Result;
use crate::host::HostView;
use crate::host::window::{self, Windows};
use crate::value::Val;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn window_sum(mut self, w: &[i64], strides: &[i64], low: &[i64]) -> Result<Val<B>> {
        let windows = self.windows(&self.out.shape, w, strides, low);
        self.over_windows(|[x]| window::sum(&x, &windows))
    }

    pub(super) fn window_max(mut self, w: &[i64], strides: &[i64], low: &[i64]) -> Result<Val<B>> {
        let windows = self.windows(&self.out.shape, w, strides, low);
        self.over_windows(|[x]| window::max(&x, &windows))
    }

    pub(super) fn window_max_spread(
        mut self,
        w: &[i64],
        strides: &[i64],
        low: &[i64],
    ) -> Result<Val<B>> {
        let windows = self.windows(&self.types[1].shape, w, strides, low);
        self.over_windows(|[x, ct]| window::spread(&x, &ct, &windows))
    }

    pub(super) fn window_max_pick(
        mut self,
        w: &[i64],
        strides: &[i64],
        low: &[i64],
    ) -> Result<Val<B>> {
        let windows = self.windows(&self.out.shape, w, strides, low);
        self.over_windows(|[x, t]| window::pick(&x, &t, &windows))
    }

    fn windows(&self, output: &[usize], w: &[i64], strides: &[i64], low: &[i64]) -> Windows {
        let sizes = |list: &[i64]| list.iter().map(|&n| n as usize).collect();
        Windows {
            input: self.types[0].shape.clone(),
            output: output.to_vec(),
            window: sizes(w),
            strides: sizes(strides),
            low: sizes(low),
        }
    }

    fn over_windows<const N: usize>(
        &mut self,
        kernel: impl FnOnce([HostView<'_>; N]) -> Result<burn_std::Bytes>,
    ) -> Result<Val<B>> {
        self.need_host()?;
        let args = self.take::<N>()?.map(B::dense);
        let views = B::views(self.name, args.each_ref())?;
        self.upload(kernel(views)?)
    }
}
