//! Running sums and maxima along an axis.

use burn_std::Bytes;

use super::num::{Elem, Num};
use super::{GRAIN, HostView, Out, parallel, rows_per_task};
use crate::error::Result;

/// The running sum of dense `x`.
pub fn cumsum(x: &HostView<'_>, axis: usize, reverse: bool) -> Result<Bytes> {
    Ok(with_num!("cumsum", x.dtype, T => scan(
        x, axis, reverse, |x: T| x.wide(), |a, b| a.add(b), T::from_wide,
    )))
}

/// The running maximum of dense `x`; NaN stays.
pub fn cummax(x: &HostView<'_>, axis: usize, reverse: bool) -> Result<Bytes> {
    Ok(with_num!("cummax", x.dtype, T => scan(
        x, axis, reverse, |x: T| x, |a, b| a.larger(b), |a| a,
    )))
}

fn scan<T: Elem, A: Copy>(
    x: &HostView<'_>,
    axis: usize,
    reverse: bool,
    load: impl Fn(T) -> A + Sync,
    join: impl Fn(A, A) -> A + Sync,
    finish: impl Fn(A) -> T + Sync,
) -> Bytes {
    let n = x.shape[axis];
    let inner: usize = x.shape[axis + 1..].iter().product();
    let total = x.elements();
    let mut out = Out::new(total, size_of::<T>());
    let to = out.shared();
    if total > 0 {
        let src = super::Shared(x.ptr.cast_mut());
        parallel(total / n, rows_per_task(n, GRAIN), &|range| {
            // The lines of a task that lie side by side advance together.
            let mut first = range.start;
            let mut running: Vec<A> = Vec::new();
            while first < range.end {
                let (outer, column) = (first / inner, first % inner);
                let width = (inner - column).min(range.end - first).min(256);
                running.clear();
                for step in 0..n {
                    let i = if reverse { n - 1 - step } else { step };
                    let at = (outer * n + i) * inner + column;
                    for j in 0..width {
                        // SAFETY: within `x` and the result; every line belongs to one task.
                        unsafe {
                            let value = load(*src.at::<T>(at + j));
                            let value = if step == 0 {
                                running.push(value);
                                value
                            } else {
                                running[j] = join(running[j], value);
                                running[j]
                            };
                            *to.at::<T>(at + j) = finish(value);
                        }
                    }
                }
                first += width;
            }
        });
    }
    // SAFETY: every line has been written.
    unsafe { out.finish() }
}
