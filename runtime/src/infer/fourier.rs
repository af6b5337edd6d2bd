//! Fourier transforms.

use super::{Rule, axis, fail};
use crate::error::Result;
use crate::value::Ty;

impl<'a> Rule<'a> {
    pub(super) fn fft(&self, along: i64) -> Result<Ty> {
        let (x, along) = self.lines(along, true)?;
        some(x.shape[along])?;
        Ok(x.clone())
    }

    pub(super) fn rfft(&self, along: i64) -> Result<Ty> {
        let (x, along) = self.lines(along, false)?;
        some(x.shape[along])?;
        let mut shape = x.shape.clone();
        shape[along] = shape[along] / 2 + 1;
        shape.push(2);
        Ty::new(x.dtype, shape)
    }

    pub(super) fn irfft(&self, along: i64, length: &[usize]) -> Result<Ty> {
        let (x, along) = self.lines(along, true)?;
        let &[n] = length else {
            return fail(
                "attribute",
                format!("{} lengths instead of one", length.len()),
            );
        };
        some(n)?;
        if x.shape[along] != n / 2 + 1 {
            return fail(
                "shape",
                format!("{n} numbers do not have {} frequencies", x.shape[along]),
            );
        }
        let mut shape = x.shape.clone();
        shape[along] = n;
        shape.pop();
        Ty::new(x.dtype, shape)
    }

    /// The operand and the axis of its lines; with `pairs` the last axis is one of pairs.
    fn lines(&self, along: i64, pairs: bool) -> Result<(&'a Ty, usize)> {
        let x = self.one()?;
        if pairs && x.shape.last() != Some(&2) {
            return fail("shape", "the last axis is not one of pairs");
        }
        Ok((x, axis(along, x.rank() - usize::from(pairs))?))
    }
}

fn some(n: usize) -> Result<()> {
    match n {
        0 => fail("shape", "there are no samples"),
        _ => Ok(()),
    }
}
