//! `dot_general`: strided operands go to Burn's matrix product as they are.

use super::elementwise::convert;
use super::{Call, movement};
use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::{Out, dot, gemm};
use crate::value::{Ty, Val};

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn dot_general(
        mut self,
        contract: [&[i64]; 2],
        batch: [&[i64]; 2],
    ) -> Result<Val<B>> {
        let [x, y] = self.take()?;
        let (xs, ys) = (&self.types[0].shape, &self.types[1].shape);
        let (free_x, free_y) = (
            free(xs.len(), contract[0], batch[0]),
            free(ys.len(), contract[1], batch[1]),
        );
        let size = |shape: &[usize], axes: &[usize]| axes.iter().map(|&a| shape[a]).product();
        let axes = |list: &[i64]| list.iter().map(|&a| a as usize).collect::<Vec<_>>();
        let (batch_x, batch_y) = (axes(batch[0]), axes(batch[1]));
        let (contract_x, contract_y) = (axes(contract[0]), axes(contract[1]));
        let m: usize = size(xs, &free_x);
        let n: usize = size(ys, &free_y);
        let k: usize = size(xs, &contract_x);
        let batches: usize = size(xs, &batch_x);
        if batches * m * n * k == 0 {
            return self.zeros();
        }
        let mut shape: Vec<usize> = batch_x.iter().map(|&a| xs[a]).collect();
        let rank = shape.len();
        shape.extend([m, k]);
        let x = B::reshape(
            movement::permute::<B>(x, &[batch_x, free_x, contract_x].concat()),
            &shape,
        );
        shape.truncate(rank);
        shape.extend([k, n]);
        let y = B::reshape(
            movement::permute::<B>(y, &[batch_y, contract_y, free_y].concat()),
            &shape,
        );
        let product = match (x, y) {
            (Val::Float(x), Val::Float(y)) => {
                let dtype = self.out.dtype;
                // Small floats add up in f32 and are rounded once.
                let calc = wide(dtype);
                let x = self.plain(convert::<B>(Val::Float(x), dtype, calc, self.device)?)?;
                let y = self.plain(convert::<B>(Val::Float(y), dtype, calc, self.device)?)?;
                if B::HOST {
                    let bytes = {
                        let [x, y] = B::views(self.name, [&x, &y])?;
                        gemm::matmul(&x, &y)?
                    };
                    let ty = Ty {
                        dtype: calc,
                        shape: self.out.shape.clone(),
                    };
                    let product = B::upload(bytes, &ty, self.device)?;
                    return convert::<B>(product, calc, dtype, self.device);
                }
                let (Val::Float(x), Val::Float(y)) = (x, y) else {
                    return Err(no_host::<B>(self.name));
                };
                let product = Val::Float(B::float_matmul(x, y));
                convert::<B>(product, calc, dtype, self.device)?
            }
            (x, y) => {
                self.need_host()?;
                let (x, y) = (B::dense(x), B::dense(y));
                let [x, y] = B::views(self.name, [&x, &y])?;
                return self.upload(dot::matmul(&x, &y, [batches, m, k, n])?);
            }
        };
        Ok(B::reshape(product, &self.out.shape))
    }

    /// A result of zeros.
    pub(super) fn zeros(&self) -> Result<Val<B>> {
        let out = Out::zeros(self.out.elements(), self.out.dtype.itemsize());
        // SAFETY: made of zeros.
        self.upload(unsafe { out.finish() })
    }

    /// Without reversed or stretched rows and columns, for which the matrix product has no fast path.
    fn plain(&self, x: Val<B>) -> Result<Val<B>> {
        let odd = B::view(&x).is_some_and(|v| {
            let matrix = v.shape.len() - 2;
            v.shape[matrix..]
                .iter()
                .zip(&v.strides[matrix..])
                .any(|(&n, &s)| n > 1 && s <= 0)
        });
        Ok(if odd { B::dense(x) } else { x })
    }
}

/// The dtype in which products of `dtype` are added up.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// The axes that are neither contracted nor batched.
fn free(rank: usize, contract: &[i64], batch: &[i64]) -> Vec<usize> {
    (0..rank)
        .filter(|&a| !contract.contains(&(a as i64)) && !batch.contains(&(a as i64)))
        .collect()
}
