//! Movement and random ops.

use super::elementwise::broadcast;
use super::{Rule, axes, axis, fail, sizes};
use crate::dtype::DType;
use crate::error::Result;
use crate::value::{MAX_BYTES, Ty};

impl Rule<'_> {
    pub(super) fn reshape(&self, shape: &[usize]) -> Result<Ty> {
        let x = self.one()?;
        let out = Ty::new(x.dtype, shape.to_vec())?;
        if out.elements() != x.elements() {
            return fail(
                "shape",
                format!("{:?} does not hold as many elements as {shape:?}", x.shape),
            );
        }
        Ok(out)
    }

    pub(super) fn transpose(&self, order: &[i64]) -> Result<Ty> {
        let x = self.one()?;
        let order = axes(order, x.rank())?;
        if order.len() != x.rank() {
            return fail(
                "axis",
                format!("{} axes for a rank of {}", order.len(), x.rank()),
            );
        }
        Ok(Ty {
            dtype: x.dtype,
            shape: order.iter().map(|a| x.shape[*a]).collect(),
        })
    }

    pub(super) fn broadcast_to(&self, shape: &[usize]) -> Result<Ty> {
        let x = self.one()?;
        if broadcast(&x.shape, shape)? != shape {
            return fail(
                "shape",
                format!("{:?} does not broadcast to {shape:?}", x.shape),
            );
        }
        Ty::new(x.dtype, shape.to_vec())
    }

    pub(super) fn slice(&self, start: &[usize], stop: &[usize], step: &[i64]) -> Result<Ty> {
        let x = self.one()?;
        let step = sizes("step", step, x.rank(), 1)?;
        if start.len() != x.rank() || stop.len() != x.rank() {
            return fail("attribute", "start and stop do not have one entry per axis");
        }
        let mut shape = Vec::with_capacity(x.rank());
        for (i, &n) in x.shape.iter().enumerate() {
            let (a, b) = (start[i], stop[i]);
            if a > b || b > n {
                return fail(
                    "slice",
                    format!("{a}:{b} is not within axis {i} of size {n}"),
                );
            }
            shape.push((b - a).div_ceil(step[i]));
        }
        Ok(Ty {
            dtype: x.dtype,
            shape,
        })
    }

    pub(super) fn pad(&self, low: &[usize], high: &[usize], interior: &[i64]) -> Result<Ty> {
        let (x, fill) = self.two()?;
        if fill.rank() != 0 {
            return fail("shape", "the fill is not a scalar");
        }
        let interior = sizes("interior", interior, x.rank(), 0)?;
        if low.len() != x.rank() || high.len() != x.rank() {
            return fail("attribute", "low and high do not have one entry per axis");
        }
        let mut shape = Vec::with_capacity(x.rank());
        for (i, &n) in x.shape.iter().enumerate() {
            let size = low[i] as u128
                + high[i] as u128
                + n as u128
                + interior[i] as u128 * n.saturating_sub(1) as u128;
            if size > MAX_BYTES as u128 {
                return fail("too-large", format!("axis {i} would have {size} elements"));
            }
            shape.push(size as usize);
        }
        Ty::new(x.dtype, shape)
    }

    pub(super) fn concatenate(&self, along: i64) -> Result<Ty> {
        let Some(first) = self.args.first() else {
            return fail("arity", "takes one operand or more");
        };
        self.accepts(first)?;
        let along = axis(along, first.rank())?;
        let mut total = 0usize;
        for x in self.args {
            self.same_dtype(first, x)?;
            let fits = x.rank() == first.rank()
                && (0..x.rank()).all(|i| i == along || x.shape[i] == first.shape[i]);
            if !fits {
                return fail(
                    "shape",
                    format!(
                        "{:?} and {:?} differ beside axis {along}",
                        first.shape, x.shape
                    ),
                );
            }
            total = total.saturating_add(x.shape[along]);
        }
        let mut shape = first.shape.clone();
        shape[along] = total;
        Ty::new(first.dtype, shape)
    }

    pub(super) fn flip(&self, which: &[i64]) -> Result<Ty> {
        let x = self.one()?;
        axes(which, x.rank())?;
        Ok(x.clone())
    }

    pub(super) fn iota(&self, shape: &[usize], along: i64, dtype: DType) -> Result<Ty> {
        self.arity(0)?;
        axis(along, shape.len())?;
        let out = Ty::new(dtype, shape.to_vec())?;
        self.accepts(&out)?;
        Ok(out)
    }

    /// `x: B + pre + [n] + post` and `indices: B + K` give `B + pre + K + post`.
    fn gathered(&self, x: &Ty, at: &Ty, along: i64, batch: i64, mode: &str) -> Result<Ty> {
        if !matches!(mode, "clip" | "fill" | "error") {
            return fail("attribute", "mode is not clip, fill or error");
        }
        if !at.dtype.is_int() {
            return fail("dtype", format!("indices are {}", at.dtype.name()));
        }
        let along = axis(along, x.rank())?;
        let batch = match usize::try_from(batch) {
            Ok(b) if b <= along && b <= at.rank() => b,
            _ => {
                return fail(
                    "axis",
                    format!("batch_dims {batch} does not fit axis {along}"),
                );
            }
        };
        if x.shape[..batch] != at.shape[..batch] {
            return fail("shape", "the batch dims of operand and indices differ");
        }
        let shape = [&x.shape[..along], &at.shape[batch..], &x.shape[along + 1..]].concat();
        let out = Ty::new(x.dtype, shape)?;
        if mode == "clip" && x.shape[along] == 0 && out.elements() > 0 {
            return fail(
                "shape",
                format!("axis {along} is empty: there is nothing to clip to"),
            );
        }
        Ok(out)
    }

    pub(super) fn gather(&self, along: i64, batch: i64, mode: &str) -> Result<Ty> {
        self.arity(2)?;
        self.accepts(&self.args[0])?;
        self.gathered(&self.args[0], &self.args[1], along, batch, mode)
    }

    pub(super) fn scatter(&self, along: i64, batch: i64, mode: &str) -> Result<Ty> {
        self.arity(3)?;
        let (x, at, updates) = (&self.args[0], &self.args[1], &self.args[2]);
        self.accepts(x)?;
        self.same_dtype(x, updates)?;
        let wanted = self.gathered(x, at, along, batch, mode)?;
        if updates.shape != wanted.shape {
            return fail(
                "shape",
                format!("updates are {:?}, not {:?}", updates.shape, wanted.shape),
            );
        }
        Ok(x.clone())
    }

    fn starts(&self, x: &Ty, starts: &Ty) -> Result<()> {
        if !starts.dtype.is_int() {
            return fail("dtype", format!("starts are {}", starts.dtype.name()));
        }
        if starts.shape != [x.rank()] {
            return fail(
                "shape",
                format!("starts are {:?}, not [{}]", starts.shape, x.rank()),
            );
        }
        Ok(())
    }

    fn within(&self, x: &Ty, part: &[usize]) -> Result<()> {
        let fits = part.len() == x.rank() && part.iter().zip(&x.shape).all(|(p, n)| p <= n);
        if fits {
            Ok(())
        } else {
            fail("shape", format!("{part:?} is not a part of {:?}", x.shape))
        }
    }

    pub(super) fn dynamic_slice(&self, part: &[usize]) -> Result<Ty> {
        self.arity(2)?;
        let x = &self.args[0];
        self.accepts(x)?;
        self.starts(x, &self.args[1])?;
        self.within(x, part)?;
        Ty::new(x.dtype, part.to_vec())
    }

    pub(super) fn dynamic_update_slice(&self) -> Result<Ty> {
        self.arity(3)?;
        let (x, u) = (&self.args[0], &self.args[1]);
        self.accepts(x)?;
        self.same_dtype(x, u)?;
        self.starts(x, &self.args[2])?;
        self.within(x, &u.shape)?;
        Ok(x.clone())
    }

    pub(super) fn bitcast(&self, dtype: DType) -> Result<Ty> {
        let x = self.one()?;
        if !dtype.is_stored() || dtype == DType::Key || dtype.is_bool() {
            return fail("dtype", format!("does not give {}", dtype.name()));
        }
        let (old, new) = (x.dtype.itemsize(), dtype.itemsize());
        let mut shape = x.shape.clone();
        match shape.last_mut() {
            _ if old == new => {}
            Some(last) if (*last as u128 * old as u128).is_multiple_of(new as u128) => {
                *last = (*last as u128 * old as u128 / new as u128) as usize;
            }
            _ => {
                return fail(
                    "shape",
                    format!(
                        "{:?} does not hold whole numbers of {}",
                        x.shape,
                        dtype.name()
                    ),
                );
            }
        }
        Ty::new(dtype, shape)
    }

    pub(super) fn random_wrap(&self) -> Result<Ty> {
        let x = self.one()?;
        match x.shape.split_last() {
            Some((2, shape)) => Ty::new(DType::Key, shape.to_vec()),
            _ => fail("shape", "the last dim is not 2"),
        }
    }

    pub(super) fn random_unwrap(&self) -> Result<Ty> {
        Ty::new(DType::U32, self.one()?.storage_shape())
    }

    pub(super) fn random_fold_in(&self) -> Result<Ty> {
        self.arity(2)?;
        let (key, data) = (&self.args[0], &self.args[1]);
        self.accepts(key)?;
        if data.dtype != DType::U32 || data.shape != key.shape {
            return fail("shape", "data is not u32 of the key's shape");
        }
        Ok(key.clone())
    }

    pub(super) fn random_bits(&self, shape: &[usize], dtype: DType) -> Result<Ty> {
        let key = self.one()?;
        if !dtype.is_unsigned() {
            return fail("dtype", format!("does not give {}", dtype.name()));
        }
        Ty::new(dtype, [&key.shape, shape].concat())
    }
}
