//! Reductions, scans and sorts.

use super::{Rule, axes, axis, fail};
use crate::dtype::DType;
use crate::error::Result;
use crate::value::Ty;

impl Rule<'_> {
    /// `neutral` says that an empty reduction has a value.
    pub(super) fn reduce(&self, over: &[i64], neutral: bool) -> Result<Ty> {
        let x = self.one()?;
        let over = axes(over, x.rank())?;
        if !over.is_sorted() {
            return fail("axis", "axes are not in order");
        }
        let shape: Vec<usize> = (0..x.rank())
            .filter(|i| !over.contains(i))
            .map(|i| x.shape[i])
            .collect();
        let out = Ty {
            dtype: x.dtype,
            shape,
        };
        if !neutral && !x.dtype.is_bool() && x.elements() == 0 && out.elements() > 0 {
            return fail(
                "empty-reduction",
                "an empty axis has no largest or smallest element",
            );
        }
        Ok(out)
    }

    pub(super) fn arg_reduce(&self, over: i64) -> Result<Ty> {
        let x = self.one()?;
        let over = axis(over, x.rank())?;
        if x.shape[over] == 0 {
            return fail("empty-reduction", format!("axis {over} is empty"));
        }
        index_fits(x.shape[over])?;
        let mut shape = x.shape.clone();
        shape.remove(over);
        Ty::new(DType::I32, shape)
    }

    pub(super) fn linear_scan(&self, over: i64) -> Result<Ty> {
        let (factors, terms) = self.two()?;
        if factors.shape != terms.shape {
            return fail(
                "shape",
                format!("{:?} and {:?} differ", factors.shape, terms.shape),
            );
        }
        axis(over, factors.rank())?;
        Ok(factors.clone())
    }

    pub(super) fn along(&self, over: i64, dtype: Option<DType>) -> Result<Ty> {
        let x = self.one()?;
        let over = axis(over, x.rank())?;
        if dtype.is_some() {
            index_fits(x.shape[over])?;
        }
        Ty::new(dtype.unwrap_or(x.dtype), x.shape.clone())
    }
}

fn index_fits(n: usize) -> Result<()> {
    if n > i32::MAX as usize {
        return fail(
            "too-large",
            format!("indices into an axis of {n} do not fit in i32"),
        );
    }
    Ok(())
}
