//! Fourier transforms. Where they are recorded they are products with the matrix of the transform.

use std::f64::consts::PI;

use burn_backend::tensor::FloatTensor;
use burn_std::{Bytes, Shape};

use super::Call;
use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::HostView;
use crate::host::fourier::{self, Lines};
use crate::value::{Ty, Val};

/// The cosine and the sine of the turn `j * k / n`.
fn turn(j: usize, k: usize, n: usize) -> (f64, f64) {
    let part = (j as u128 * k as u128 % n as u128) as f64 / n as f64;
    let (sin, cos) = (2.0 * PI * part).sin_cos();
    (cos, sin)
}

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn fft(self, axis: i64, inverse: bool) -> Result<Val<B>> {
        let axis = axis as usize;
        let n = self.types[0].shape[axis];
        let sign = if inverse { 1.0 } else { -1.0 };
        self.transform(
            axis,
            n,
            true,
            true,
            |g, x| fourier::fft(x, g, inverse),
            move |j, p, k, q| {
                let (cos, sin) = turn(j, k, n);
                match (p, q) {
                    (0, 0) | (1, 1) => cos,
                    (0, _) => sign * sin,
                    _ => -sign * sin,
                }
            },
        )
    }

    pub(super) fn rfft(self, axis: i64) -> Result<Val<B>> {
        let axis = axis as usize;
        let n = self.types[0].shape[axis];
        self.transform(
            axis,
            n / 2 + 1,
            false,
            true,
            |g, x| fourier::rfft(x, g),
            move |j, _, k, q| {
                let (cos, sin) = turn(j, k, n);
                if q == 0 { cos } else { -sin }
            },
        )
    }

    pub(super) fn irfft(self, axis: i64, n: usize) -> Result<Val<B>> {
        let axis = axis as usize;
        self.transform(
            axis,
            n,
            true,
            false,
            |g, x| fourier::irfft(x, g),
            move |k, p, j, _| {
                let (cos, sin) = turn(j, k, n);
                let edge = k == 0 || 2 * k == n;
                match p {
                    0 => {
                        if edge {
                            cos
                        } else {
                            2.0 * cos
                        }
                    }
                    _ => {
                        if edge {
                            0.0
                        } else {
                            -2.0 * sin
                        }
                    }
                }
            },
        )
    }

    /// `entry(j, p, k, q)`: what part `p` of element `j` of a line adds to part `q` of element `k` of its transform.
    fn transform(
        mut self,
        axis: usize,
        to: usize,
        pairs_in: bool,
        pairs_out: bool,
        kernel: impl FnOnce(Lines, &HostView<'_>) -> Result<Bytes>,
        entry: impl Fn(usize, usize, usize, usize) -> f64,
    ) -> Result<Val<B>> {
        let shape = &self.types[0].shape;
        let rank = shape.len() - usize::from(pairs_in);
        let g = Lines::new(&shape[..rank], axis, to);
        let [x] = self.take()?;
        if B::HOST {
            let x = B::dense(x);
            let [x] = B::views(self.name, [&x])?;
            return self.upload(kernel(g, &x)?);
        }
        let Val::Float(x) = x else {
            return Err(no_host::<B>(self.name));
        };
        if !B::RECORDS || self.out.elements() == 0 {
            return if B::RECORDS {
                self.zeros()
            } else {
                Err(no_host::<B>(self.name))
            };
        }
        let parts = |pairs: bool| if pairs { 2 } else { 1 };
        let (p, q) = (parts(pairs_in), parts(pairs_out));
        let mut entries = Vec::with_capacity(g.from * p * g.to * q);
        for row in 0..g.from * p {
            for column in 0..g.to * q {
                entries.push(entry(row / p, row % p, column / q, column % q));
            }
        }
        let matrix = self.matrix(entries, g.from * p, g.to * q)?;
        let lines = B::float_reshape(x, Shape::from(vec![g.outer, g.from, g.inner, p]));
        let lines = B::float_permute(lines, &[0, 2, 1, 3]);
        let lines = B::float_reshape(lines, Shape::from(vec![g.outer * g.inner, g.from * p]));
        let out = B::float_matmul(lines, matrix);
        let out = B::float_reshape(out, Shape::from(vec![g.outer, g.inner, g.to, q]));
        let out = B::float_permute(out, &[0, 2, 1, 3]);
        Ok(Val::Float(B::float_reshape(
            out,
            Shape::from(self.out.shape.clone()),
        )))
    }

    fn matrix(&self, entries: Vec<f64>, rows: usize, columns: usize) -> Result<FloatTensor<B>> {
        let ty = Ty {
            dtype: self.out.dtype,
            shape: vec![rows, columns],
        };
        let bytes = match ty.dtype {
            DType::F64 => Bytes::from_elems(entries),
            _ => Bytes::from_elems(entries.into_iter().map(|v| v as f32).collect::<Vec<f32>>()),
        };
        match B::upload(bytes, &ty, self.device)? {
            Val::Float(matrix) => Ok(matrix),
            Val::Int(_) | Val::Bool(_) => Err(no_host::<B>(self.name)),
        }
    }
}
