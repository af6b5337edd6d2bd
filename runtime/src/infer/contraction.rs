//! Contractions and windows.

use super::{Rule, axes, fail, sizes};
use crate::error::Result;
use crate::value::Ty;

/// The geometry that the three convolutions share.
pub(super) struct Geometry<'a> {
    pub strides: &'a [i64],
    pub low: &'a [i64],
    pub high: &'a [i64],
    pub dilation: &'a [i64],
    pub groups: i64,
}

impl Geometry<'_> {
    /// Output sizes for input sizes `space` and kernel sizes `kernel`.
    fn out(&self, space: &[usize], kernel: &[usize]) -> Result<Vec<usize>> {
        let rank = space.len();
        if !(1..=3).contains(&rank) || kernel.len() != rank {
            return fail("shape", "a convolution has 1, 2 or 3 spatial dims");
        }
        let strides = sizes("strides", self.strides, rank, 1)?;
        let low = sizes("low", self.low, rank, 0)?;
        let high = sizes("high", self.high, rank, 0)?;
        let dilation = sizes("dilation", self.dilation, rank, 1)?;
        (0..rank)
            .map(|i| {
                if kernel[i] == 0 {
                    return fail("shape", "the kernel is empty");
                }
                let reach = dilation[i] as u128 * (kernel[i] as u128 - 1) + 1;
                let padded = space[i] as u128 + low[i] as u128 + high[i] as u128;
                Ok(windows(padded, reach, strides[i]))
            })
            .collect()
    }

    /// Channels per group of a weight `[C_out, C_in / groups, ...]`.
    fn channels(&self, c_out: usize, c_in: usize) -> Result<usize> {
        match usize::try_from(self.groups) {
            Ok(g) if g >= 1 && c_in.is_multiple_of(g) && c_out.is_multiple_of(g) => Ok(c_in / g),
            _ => fail(
                "groups",
                format!(
                    "{c_in} and {c_out} channels do not divide into {} groups",
                    self.groups
                ),
            ),
        }
    }
}

/// How many windows of `reach` fit into `padded`, `stride` apart.
fn windows(padded: u128, reach: u128, stride: usize) -> usize {
    match padded.checked_sub(reach) {
        Some(room) => usize::try_from(room / stride as u128 + 1).unwrap_or(usize::MAX),
        None => 0,
    }
}

impl Rule<'_> {
    pub(super) fn dot_general(
        &self,
        contract_x: &[i64],
        contract_y: &[i64],
        batch_x: &[i64],
        batch_y: &[i64],
    ) -> Result<Ty> {
        let (x, y) = self.two()?;
        let used_x = axes(&[batch_x, contract_x].concat(), x.rank())?;
        let used_y = axes(&[batch_y, contract_y].concat(), y.rank())?;
        if batch_x.len() != batch_y.len() || contract_x.len() != contract_y.len() {
            return fail("axis", "the two operands name different numbers of axes");
        }
        for (a, b) in used_x.iter().zip(&used_y) {
            let (n, m) = (x.shape[*a], y.shape[*b]);
            if n != m {
                return fail("shape", format!("axis {a} of {n} against axis {b} of {m}"));
            }
        }
        let free = |ty: &Ty, used: &[usize]| -> Vec<usize> {
            (0..ty.rank())
                .filter(|i| !used.contains(i))
                .map(|i| ty.shape[i])
                .collect()
        };
        let batch = used_x[..batch_x.len()]
            .iter()
            .map(|a| x.shape[*a])
            .collect();
        Ty::new(
            x.dtype,
            [batch, free(x, &used_x), free(y, &used_y)].concat(),
        )
    }

    pub(super) fn conv(&self, g: &Geometry) -> Result<Ty> {
        let (x, w) = self.two()?;
        let (&[n, c_in, ref space @ ..], &[c_out, c_group, ref kernel @ ..]) =
            (x.shape.as_slice(), w.shape.as_slice())
        else {
            return fail("shape", "operands are not [N, C, ...] and [C, C, ...]");
        };
        let out = g.out(space, kernel)?;
        if g.channels(c_out, c_in)? != c_group {
            return fail(
                "groups",
                format!("{c_in} channels in {} groups against {c_group}", g.groups),
            );
        }
        Ty::new(x.dtype, [vec![n, c_out], out].concat())
    }

    pub(super) fn conv_input_grad(&self, g: &Geometry, size: &[usize]) -> Result<Ty> {
        let (ct, w) = self.two()?;
        let (&[n, c_out, ref seen @ ..], &[c_out_w, c_group, ref kernel @ ..]) =
            (ct.shape.as_slice(), w.shape.as_slice())
        else {
            return fail("shape", "operands are not [N, C, ...] and [C, C, ...]");
        };
        if c_out != c_out_w || g.out(size, kernel)? != seen {
            return fail(
                "shape",
                "the cotangent does not have the shape of the convolution",
            );
        }
        let c_in = usize::try_from(g.groups)
            .ok()
            .and_then(|n| c_group.checked_mul(n));
        let Some(c_in) = c_in else {
            return fail("groups", format!("{} groups", g.groups));
        };
        g.channels(c_out, c_in)?;
        Ty::new(ct.dtype, [&[n, c_in], size].concat())
    }

    pub(super) fn conv_weight_grad(&self, g: &Geometry, size: &[i64]) -> Result<Ty> {
        let (x, ct) = self.two()?;
        let (&[n, c_in, ref space @ ..], &[n_ct, c_out, ref seen @ ..]) =
            (x.shape.as_slice(), ct.shape.as_slice())
        else {
            return fail("shape", "operands are not [N, C, ...] and [N, C, ...]");
        };
        let kernel = sizes("size", size, space.len(), 1)?;
        if n != n_ct || g.out(space, &kernel)? != seen {
            return fail(
                "shape",
                "the cotangent does not have the shape of the convolution",
            );
        }
        let c_group = g.channels(c_out, c_in)?;
        Ty::new(x.dtype, [vec![c_out, c_group], kernel].concat())
    }

    /// The shape of the windows of the first operand.
    pub(super) fn window(
        &self,
        window: &[i64],
        strides: &[i64],
        low: &[i64],
        high: &[i64],
    ) -> Result<Ty> {
        let x = &self.args[0];
        self.accepts(x)?;
        let rank = x.rank();
        let window = sizes("window", window, rank, 1)?;
        let strides = sizes("strides", strides, rank, 1)?;
        let low = sizes("low", low, rank, 0)?;
        let high = sizes("high", high, rank, 0)?;
        let shape = (0..rank)
            .map(|i| {
                let padded = x.shape[i] as u128 + low[i] as u128 + high[i] as u128;
                windows(padded, window[i] as u128, strides[i])
            })
            .collect();
        Ty::new(x.dtype, shape)
    }

    pub(super) fn window_spread(
        &self,
        window: &[i64],
        strides: &[i64],
        low: &[i64],
        high: &[i64],
    ) -> Result<Ty> {
        let (x, ct) = self.two()?;
        let seen = self.window(window, strides, low, high)?;
        if ct.shape != seen.shape {
            return fail(
                "shape",
                format!("the cotangent is {:?}, not {:?}", ct.shape, seen.shape),
            );
        }
        Ok(x.clone())
    }

    pub(super) fn window_pick(
        &self,
        window: &[i64],
        strides: &[i64],
        low: &[i64],
        high: &[i64],
    ) -> Result<Ty> {
        let (x, t) = self.two()?;
        if x.shape != t.shape {
            return fail("shape", "the two operands differ in shape");
        }
        self.window(window, strides, low, high)
    }
}
