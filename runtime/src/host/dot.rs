//! Integer matrix products, which wrap.

use burn_std::Bytes;

use super::cast::within;
use super::num::Num;
use super::stage::ring;
use super::{GRAIN, HostView, Out, Shared, parallel, rows_per_task};
use crate::error::Result;

/// Dense `x[batch, m, k]` times dense `y[batch, k, n]`.
pub fn matmul(x: &HostView<'_>, y: &HostView<'_>, sizes: [usize; 4]) -> Result<Bytes> {
    let inner = ring(x.dtype);
    within(x, inner, true, &|x| {
        within(y, inner, false, &|y| product(x, y, sizes))
    })
}

fn product(x: &HostView<'_>, y: &HostView<'_>, [batch, m, k, n]: [usize; 4]) -> Result<Bytes> {
    let mut out = Out::zeros(batch * m * n, x.dtype.itemsize());
    let (a, b) = (Shared(x.ptr.cast_mut()), Shared(y.ptr.cast_mut()));
    let to = out.shared();
    with_words!("dot_general", x.dtype, T => {
        parallel(batch * m, rows_per_task(k * n, GRAIN), &|range| {
            for row in range {
                // SAFETY: rows of the operands at this batch; every row of the result belongs to one task.
                unsafe {
                    let x = a.at::<T>(row * k).cast_const();
                    let y = b.at::<T>(row / m * k * n).cast_const();
                    let out = std::slice::from_raw_parts_mut(to.at::<T>(row * n), n);
                    for i in 0..k {
                        let (x, y) = (*x.add(i), y.add(i * n));
                        for (j, out) in out.iter_mut().enumerate() {
                            *out = out.add(x.mul(*y.add(j)));
                        }
                    }
                }
            }
        });
    });
    // SAFETY: made of zeros.
    Ok(unsafe { out.finish() })
}
