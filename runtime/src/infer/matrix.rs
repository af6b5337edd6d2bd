//! Factorizations of matrices, and what is solved with them. The results are packed: see `dala_defn/ops/factors.py`.

use super::{Rule, fail};
use crate::dtype::DType;
use crate::error::Result;
use crate::value::Ty;

/// The most rows whose numbers an `f32` holds exactly.
const MOST_ROWS: usize = 1 << 24;

impl Rule<'_> {
    /// The leading sizes, then rows and columns, of an operand; with `pairs` its last axis holds the parts of numbers.
    fn matrices(&self, x: &Ty, pairs: bool) -> Result<(Vec<usize>, usize, usize)> {
        self.accepts(x)?;
        let mut lead = x.shape.clone();
        if pairs && lead.pop() != Some(2) {
            return fail("shape", "the last axis does not hold pairs of parts");
        }
        let (Some(n), Some(m)) = (lead.pop(), lead.pop()) else {
            return fail("rank", "needs matrices in the last two axes");
        };
        Ok((lead, m, n))
    }

    /// A factorization of the only operand: `sizes` gives the rows and columns of the result.
    pub(super) fn factors(
        &self,
        pairs: bool,
        sizes: impl FnOnce(usize, usize, DType) -> Result<(usize, usize)>,
    ) -> Result<Ty> {
        let x = self.one()?;
        let (mut shape, m, n) = self.matrices(x, pairs)?;
        let (rows, columns) = sizes(m, n, x.dtype)?;
        shape.extend([rows, columns]);
        shape.extend(pairs.then_some(2));
        Ty::new(x.dtype, shape)
    }

    /// A solution for matrices and right sides.
    pub(super) fn solution(&self, pairs: bool) -> Result<Ty> {
        let (a, b) = self.two()?;
        let (lead, m, n) = self.matrices(a, pairs)?;
        let (lead_b, rows, _) = self.matrices(b, pairs)?;
        square(m, n)?;
        if lead != lead_b || n != rows {
            return fail("shape", "matrices and right sides do not go together");
        }
        Ok(b.clone())
    }
}

fn square(m: usize, n: usize) -> Result<()> {
    if m == n {
        Ok(())
    } else {
        fail(
            "shape",
            format!("matrices of {m} rows and {n} columns are not square"),
        )
    }
}

/// A result of as many rows and columns.
pub fn same(m: usize, n: usize, _: DType) -> Result<(usize, usize)> {
    square(m, n).map(|()| (m, n))
}

pub fn lu(m: usize, n: usize, dtype: DType) -> Result<(usize, usize)> {
    if dtype == DType::F32 && m > MOST_ROWS {
        return fail(
            "too-large",
            format!("{m} rows are more than an f32 can number"),
        );
    }
    Ok((m, n.saturating_add(1)))
}

pub fn qr(m: usize, n: usize, _: DType) -> Result<(usize, usize)> {
    Ok((m.saturating_add(n), m.min(n)))
}

pub fn complement(m: usize, n: usize, _: DType) -> Result<(usize, usize)> {
    match m.checked_sub(n) {
        Some(rest) => Ok((m, rest)),
        None => fail(
            "shape",
            format!("{n} columns of {m} rows are not orthonormal"),
        ),
    }
}

pub fn eigh(vectors: bool) -> impl FnOnce(usize, usize, DType) -> Result<(usize, usize)> {
    move |m, n, _| square(m, n).map(|()| (if vectors { n + 1 } else { 1 }, n))
}

/// Of complex numbers only.
pub fn eig(
    vectors: bool,
    pairs: bool,
) -> impl FnOnce(usize, usize, DType) -> Result<(usize, usize)> {
    move |m, n, dtype| match pairs {
        true => eigh(vectors)(m, n, dtype),
        false => fail("attribute", "takes pairs of parts"),
    }
}

pub fn svd(vectors: bool) -> impl FnOnce(usize, usize, DType) -> Result<(usize, usize)> {
    move |m, n, _| {
        let rows = if vectors {
            m.saturating_add(n).saturating_add(1)
        } else {
            1
        };
        Ok((rows, m.min(n)))
    }
}
