//! Random keys and bits: counters, so the same on every engine.

use super::Call;
use crate::backend::ExecBackend;
use crate::error::Result;
use crate::host::random;
use crate::value::Val;

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn random_fold_in(mut self) -> Result<Val<B>> {
        self.need_host()?;
        let [key, data] = self.take()?;
        let (key, data) = (B::dense(key), B::dense(data));
        let [key, data] = B::views(self.name, [&key, &data])?;
        self.upload(random::fold_in(&key, &data))
    }

    pub(super) fn random_bits(mut self) -> Result<Val<B>> {
        self.need_host()?;
        let [key] = self.take()?;
        let key = B::dense(key);
        let [key] = B::views(self.name, [&key])?;
        let keys_rank = self.types[0].rank();
        let per_key = self.out.shape[keys_rank..].iter().product();
        self.upload(random::bits(&key, per_key, self.out.dtype)?)
    }
}
