//! Unary, binary and ternary ops.

use super::{Rule, fail};
use crate::dtype::DType;
use crate::error::Result;
use crate::value::{MAX_RANK, Ty};

impl Rule<'_> {
    pub(super) fn unary(&self) -> Result<Ty> {
        let x = self.one()?;
        Ok(Ty {
            dtype: self.dtype(x.dtype),
            shape: x.shape.clone(),
        })
    }

    pub(super) fn cast(&self, dtype: DType) -> Result<Ty> {
        let x = self.one()?;
        if !dtype.is_stored() || dtype == DType::Key {
            return fail("dtype", format!("does not give {}", dtype.name()));
        }
        Ty::new(dtype, x.shape.clone())
    }

    pub(super) fn binary(&self) -> Result<Ty> {
        let (x, y) = self.two()?;
        Ty::new(self.dtype(x.dtype), broadcast(&x.shape, &y.shape)?)
    }

    pub(super) fn select(&self) -> Result<Ty> {
        self.arity(3)?;
        let [c, x, y] = self.args else {
            return self.arity(3).map(|()| Ty::scalar(DType::Bool));
        };
        if c.dtype != DType::Bool {
            return fail("dtype", "the condition is not bool");
        }
        self.accepts(x)?;
        self.same_dtype(x, y)?;
        Ty::new(
            x.dtype,
            broadcast(&c.shape, &broadcast(&x.shape, &y.shape)?)?,
        )
    }
}

/// NumPy's broadcasting of two shapes.
pub(super) fn broadcast(x: &[usize], y: &[usize]) -> Result<Vec<usize>> {
    let rank = x.len().max(y.len()).min(MAX_RANK);
    let size = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |at| s[at]);
    (0..rank)
        .map(|i| match (size(x, i), size(y, i)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            (a, b) => fail(
                "shape",
                format!("{x:?} and {y:?} do not broadcast: {a} against {b}"),
            ),
        })
        .collect()
}
