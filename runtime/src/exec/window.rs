//! Window ops.

use burn_backend::TensorMetadata;
use burn_backend::tensor::FloatTensor;
use burn_std::Shape;

use super::Call;
use super::elementwise::stretched;
use super::route::flat;
use crate::backend::{ExecBackend, no_host};
use crate::error::Result;
use crate::host::HostView;
use crate::host::window::{self, Windows};
use crate::value::Val;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn window_sum(mut self, w: &[i64], strides: &[i64], low: &[i64]) -> Result<Val<B>> {
        let windows = self.windows(&self.out.shape, w, strides, low);
        if !B::HOST {
            let [x] = self.floats()?;
            let all = self.patches(x, &windows, 0.0)?;
            return Ok(self.shaped(B::float_sum_dim(all, 1)));
        }
        self.over_windows(|[x]| window::sum(&x, &windows))
    }

    pub(super) fn window_max(mut self, w: &[i64], strides: &[i64], low: &[i64]) -> Result<Val<B>> {
        let windows = self.windows(&self.out.shape, w, strides, low);
        if !B::HOST {
            let [x] = self.floats()?;
            let all = self.patches(x, &windows, f64::NEG_INFINITY)?;
            return Ok(self.shaped(B::float_max_dim(all, 1)));
        }
        self.over_windows(|[x]| window::max(&x, &windows))
    }

    pub(super) fn window_max_spread(
        mut self,
        w: &[i64],
        strides: &[i64],
        low: &[i64],
    ) -> Result<Val<B>> {
        let windows = self.windows(&self.types[1].shape, w, strides, low);
        if !B::HOST {
            let [x, ct] = self.floats()?;
            let shares = self.shares(x, &windows)?;
            let outs: usize = windows.output.iter().product();
            let ct = stretched::<B>(
                B::float_reshape(ct, Shape::from(vec![outs, 1])),
                &shares.shape().to_vec(),
            );
            let each = flat::<B>(
                B::float_mul(ct, shares.clone()),
                shares.shape().num_elements(),
            );
            let places = self.index_list(windows.places())?;
            let zeros = B::float_expand(self.filled(0.0), Shape::from(vec![self.out.elements()]));
            let sums = self.accumulate(zeros, places, each);
            return Ok(self.shaped(sums));
        }
        self.over_windows(|[x, ct]| window::spread(&x, &ct, &windows))
    }

    pub(super) fn window_max_pick(
        mut self,
        w: &[i64],
        strides: &[i64],
        low: &[i64],
    ) -> Result<Val<B>> {
        let windows = self.windows(&self.out.shape, w, strides, low);
        if !B::HOST {
            let [x, t] = self.floats()?;
            let shares = self.shares(x, &windows)?;
            let all = self.patches(t, &windows, 0.0)?;
            return Ok(self.shaped(B::float_sum_dim(B::float_mul(all, shares), 1)));
        }
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

    /// The operands, where they are `N` floats that are recorded and there is something to compute.
    fn floats<const N: usize>(&mut self) -> Result<[FloatTensor<B>; N]> {
        if !B::RECORDS {
            return Err(no_host::<B>(self.name));
        }
        let name = self.name;
        let all = self.take::<N>()?.into_iter().map(|x| match x {
            Val::Float(x) => Ok(x),
            Val::Int(_) | Val::Bool(_) => Err(no_host::<B>(name)),
        });
        let all = all.collect::<Result<Vec<_>>>()?;
        all.try_into().map_err(|_| no_host::<B>(name))
    }

    /// What each window covers, as one row; `fill` where it reaches outside.
    fn patches(&self, x: FloatTensor<B>, w: &Windows, fill: f64) -> Result<FloatTensor<B>> {
        let n = w.input.iter().product();
        let places = self.index_list(w.places())?;
        let all = B::float_cat(vec![flat::<B>(x, n), self.filled(fill)], 0);
        let outs: usize = w.output.iter().product();
        let taps: usize = w.window.iter().product();
        let rows = B::float_select(all, 0, places);
        Ok(B::float_reshape(rows, Shape::from(vec![outs, taps])))
    }

    /// Of each window the elements that are its maximum, which share alike; nothing of this is recorded.
    fn shares(&self, x: FloatTensor<B>, w: &Windows) -> Result<FloatTensor<B>> {
        let rows = B::float_detach(self.patches(x, w, f64::NEG_INFINITY)?);
        let shape = rows.shape().to_vec();
        let most = stretched::<B>(B::float_max_dim(rows.clone(), 1), &shape);
        let ones = B::float_expand(
            B::float_reshape(self.filled(1.0), Shape::from(vec![1, 1])),
            Shape::from(shape.clone()),
        );
        let lost = B::float_not_equal(rows, most, B::BOOL);
        let won = B::float_mask_fill(ones, lost, 0.0.into());
        let count = stretched::<B>(B::float_sum_dim(won.clone(), 1), &shape);
        Ok(B::float_div(won, count))
    }

    fn shaped(&self, x: FloatTensor<B>) -> Val<B> {
        Val::Float(B::float_reshape(x, Shape::from(self.out.shape.clone())))
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
