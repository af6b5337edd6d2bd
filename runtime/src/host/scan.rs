//! Running sums and maxima along an axis.

use burn_std::Bytes;

use super::num::{Elem, Num};
use super::stage::{home, ring, within};
use super::{GRAIN, HostView, Out, bad_dtype, parallel, rows_per_task};
use crate::error::Result;

/// The running sum of dense `x`.
pub fn cumsum(x: &HostView<'_>, axis: usize, reverse: bool) -> Result<Bytes> {
    if x.dtype.is_bool() {
        return Err(bad_dtype("cumsum", x.dtype));
    }
    within(x, ring(x.dtype), true, &|x| {
        Ok(with_ring!("cumsum", x.dtype, T => scan(
            x, axis, reverse, |x: T| x.wide(), |a, b| a.add(b), T::from_wide,
        )))
    })
}

/// The running maximum of dense `x`; NaN stays.
pub fn cummax(x: &HostView<'_>, axis: usize, reverse: bool) -> Result<Bytes> {
    within(x, home(x.dtype), true, &|x| {
        Ok(with_home!("cummax", x.dtype, T => scan(
            x, axis, reverse, |x: T| x, |a, b| a.larger(b), |a| a,
        )))
    })
}

/// The running product of dense `x`.
pub fn cumprod(x: &HostView<'_>, axis: usize, reverse: bool) -> Result<Bytes> {
    if x.dtype.is_bool() {
        return Err(bad_dtype("cumprod", x.dtype));
    }
    within(x, ring(x.dtype), true, &|x| {
        Ok(with_ring!("cumprod", x.dtype, T => scan(
            x, axis, reverse, |x: T| x.wide(), |a, b| a.mul(b), T::from_wide,
        )))
    })
}

/// The logarithm of the running sum of the exponentials of dense `x`.
pub fn cumlogsumexp(x: &HostView<'_>, axis: usize, reverse: bool) -> Result<Bytes> {
    within(x, home(x.dtype), true, &|x| {
        Ok(with_real!("cumlogsumexp", x.dtype, T => scan(
            x, axis, reverse, |x: T| x.wide(), log_add_exp, T::from_wide,
        )))
    })
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    let most = a.larger(b);
    // Of two equal infinities there is no difference.
    if a == b {
        return most + std::f64::consts::LN_2;
    }
    most + (-(a - b).abs()).exp().ln_1p()
}

/// `y[i] = terms[i] + factors[i] * y[i - 1]` of dense operands; a product with a zero is 0.
pub fn linear_scan(
    factors: &HostView<'_>,
    terms: &HostView<'_>,
    axis: usize,
    reverse: bool,
) -> Result<Bytes> {
    let inner = home(factors.dtype);
    within(factors, inner, true, &|factors| {
        within(terms, inner, false, &|terms| {
            Ok(with_real!("linear_scan", inner, T => recur::<T>(factors, terms, axis, reverse)))
        })
    })
}

fn recur<T: Num>(
    factors: &HostView<'_>,
    terms: &HostView<'_>,
    axis: usize,
    reverse: bool,
) -> Bytes {
    let n = terms.shape[axis];
    let inner: usize = terms.shape[axis + 1..].iter().product();
    let total = terms.elements();
    let mut out = Out::new(total, size_of::<T>());
    let to = out.shared();
    if total > 0 {
        let (a, b) = (
            super::Shared(factors.ptr.cast_mut()),
            super::Shared(terms.ptr.cast_mut()),
        );
        let place = |step: usize| if reverse { n - 1 - step } else { step };
        // Lines that lie side by side advance together.
        let width = inner.min(128);
        let blocks = inner.div_ceil(width);
        let tasks = total / n / inner * blocks;
        let zero = <T::Wide as Num>::ZERO;
        parallel(tasks, rows_per_task(n * width, GRAIN), &|range| {
            for task in range {
                let (outer, block) = (task / blocks, task % blocks);
                let columns = block * width..((block + 1) * width).min(inner);
                let mut running = [zero; 128];
                for step in 0..n {
                    let row = (outer * n + place(step)) * inner;
                    for (j, y) in columns.clone().zip(&mut running) {
                        // SAFETY: dense operands of one shape; every line of the result belongs to one task.
                        unsafe {
                            let (a, b) = ((*a.at::<T>(row + j)).wide(), *b.at::<T>(row + j));
                            let product = if a == zero || *y == zero {
                                zero
                            } else {
                                a.mul(*y)
                            };
                            *y = b.wide().add(product);
                            *to.at::<T>(row + j) = T::from_wide(*y);
                        }
                    }
                }
            }
        });
    }
    // SAFETY: every line has been written.
    unsafe { out.finish() }
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
        // SAFETY: `x` is dense.
        let load = |i: usize| load(unsafe { *src.at::<T>(i) });
        // SAFETY: every line belongs to one task.
        let store = |i: usize, a: A| unsafe { *to.at::<T>(i) = finish(a) };
        let place = |step: usize| if reverse { n - 1 - step } else { step };
        if inner == 1 {
            parallel(total / n, rows_per_task(n, GRAIN), &|range| {
                for line in range.map(|line| line * n) {
                    let mut running = load(line + place(0));
                    store(line + place(0), running);
                    for step in 1..n {
                        running = join(running, load(line + place(step)));
                        store(line + place(step), running);
                    }
                }
            });
        } else {
            // Lines that lie side by side advance together.
            let width = inner.min(128);
            let blocks = inner.div_ceil(width);
            let tasks = total / n / inner * blocks;
            parallel(tasks, rows_per_task(n * width, GRAIN), &|range| {
                for task in range {
                    let (outer, block) = (task / blocks, task % blocks);
                    let columns = block * width..((block + 1) * width).min(inner);
                    let row = |step: usize| (outer * n + place(step)) * inner;
                    let mut running: Vec<A> = columns.clone().map(|j| load(row(0) + j)).collect();
                    for step in 0..n {
                        for (j, a) in columns.clone().zip(&mut running) {
                            if step > 0 {
                                *a = join(*a, load(row(step) + j));
                            }
                            store(row(step) + j, *a);
                        }
                    }
                }
            });
        }
    }
    // SAFETY: every line has been written.
    unsafe { out.finish() }
}
