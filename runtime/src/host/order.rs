//! Sorting, and the places of extremes.

use std::cmp::Ordering;

use burn_std::Bytes;

use super::num::Elem;
use super::{FINE_GRAIN, HostView, Out, Shared, parallel, rows_per_task};
use crate::error::Result;

/// The lines of dense `x` along `axis`: how many, how long, and where each starts and steps.
struct Lines {
    count: usize,
    len: usize,
    inner: usize,
}

impl Lines {
    fn new(x: &HostView<'_>, axis: usize) -> Self {
        let outer: usize = x.shape[..axis].iter().product();
        let inner: usize = x.shape[axis + 1..].iter().product();
        Lines {
            count: outer * inner,
            len: x.shape[axis],
            inner,
        }
    }

    fn start(&self, line: usize) -> usize {
        line / self.inner * self.len * self.inner + line % self.inner
    }

    fn each(&self, work: &(dyn Fn(usize) + Sync)) {
        parallel(self.count, rows_per_task(self.len, FINE_GRAIN), &|range| {
            range.for_each(work);
        });
    }
}

/// Ascending, NaN last, equal values (-0 and 0 too) in their old order.
#[inline]
fn compare<T: Elem>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Dense `x` sorted along `axis`.
pub fn sort(x: &HostView<'_>, axis: usize) -> Result<Bytes> {
    let lines = Lines::new(x, axis);
    let mut out = Out::new(x.elements(), x.dtype.itemsize());
    let (src, to) = (Shared(x.ptr.cast_mut()), out.shared());
    with_all!("sort", x.dtype, T => lines.each(&|line| {
        let start = lines.start(line);
        // SAFETY: lines are within `x` and the result, and disjoint.
        unsafe {
            let mut values: Vec<T> = (0..lines.len)
                .map(|i| *src.at::<T>(start + i * lines.inner))
                .collect();
            values.sort_by(compare);
            for (i, value) in values.into_iter().enumerate() {
                *to.at::<T>(start + i * lines.inner) = value;
            }
        }
    }));
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// The order that sorts dense `x` along `axis`, as `i32`.
pub fn argsort(x: &HostView<'_>, axis: usize) -> Result<Bytes> {
    let lines = Lines::new(x, axis);
    let mut out = Out::new(x.elements(), 4);
    let (src, to) = (Shared(x.ptr.cast_mut()), out.shared());
    with_all!("argsort", x.dtype, T => lines.each(&|line| {
        let start = lines.start(line);
        // SAFETY: as in `sort`.
        unsafe {
            let mut pairs: Vec<(T, i32)> = (0..lines.len)
                .map(|i| (*src.at::<T>(start + i * lines.inner), i as i32))
                .collect();
            pairs.sort_by(|a, b| compare(&a.0, &b.0));
            for (i, pair) in pairs.into_iter().enumerate() {
                *to.at::<i32>(start + i * lines.inner) = pair.1;
            }
        }
    }));
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// Where the largest (or smallest) element of dense `x` along `axis` is first, as `i32`; the first NaN wins.
pub fn arg_extreme(x: &HostView<'_>, axis: usize, largest: bool) -> Result<Bytes> {
    let lines = Lines::new(x, axis);
    let mut out = Out::new(lines.count, 4);
    let (src, to) = (Shared(x.ptr.cast_mut()), out.shared());
    with_all!("argmax", x.dtype, T => {
        let better = |value: T, best: T| {
            let beats = if largest { value > best } else { value < best };
            (beats | value.is_nan()) & !best.is_nan()
        };
        if lines.inner == 1 {
            lines.each(&|line| {
                // SAFETY: a line of `x`, which is dense; the result has one element a line.
                unsafe {
                    let x = std::slice::from_raw_parts(src.at::<T>(line * lines.len), lines.len);
                    *to.at::<i32>(line) = first_extreme(x, largest) as i32;
                }
            });
            // SAFETY: every line has been written.
            return Ok(unsafe { out.finish() });
        }
        // Lines that lie side by side advance together.
        let width = lines.inner.clamp(1, 128);
        let blocks = lines.inner.div_ceil(width);
        let tasks = lines.count / lines.inner.max(1) * blocks;
        parallel(tasks, rows_per_task(lines.len * width, FINE_GRAIN), &|range| {
            for task in range {
                let (outer, block) = (task / blocks, task % blocks);
                let columns = block * width..((block + 1) * width).min(lines.inner);
                let first = outer * lines.len * lines.inner;
                // SAFETY: within `x`.
                let load = |i: usize, j: usize| unsafe { *src.at::<T>(first + i * lines.inner + j) };
                let mut best: Vec<(T, i32)> = columns.clone().map(|j| (load(0, j), 0)).collect();
                for i in 1..lines.len {
                    for (j, best) in columns.clone().zip(&mut best) {
                        let value = load(i, j);
                        if better(value, best.0) {
                            *best = (value, i as i32);
                        }
                    }
                }
                for (j, best) in columns.zip(best) {
                    // SAFETY: the result has one element a line; every line belongs to one task.
                    unsafe { *to.at::<i32>(outer * lines.inner + j) = best.1 };
                }
            }
        });
    });
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// Where the extreme of a line is first. Finding its value and then its place are two loops without dependencies.
fn first_extreme<T: Elem>(x: &[T], largest: bool) -> usize {
    let join = |a: T, b: T| if largest { a.larger(b) } else { a.smaller(b) };
    let mut lanes = [x[0]; 8];
    let chunks = x.chunks_exact(8);
    for &value in chunks.remainder() {
        lanes[0] = join(lanes[0], value);
    }
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, value);
        }
    }
    let best = lanes.into_iter().reduce(join).unwrap_or(x[0]);
    let place = if best.is_nan() {
        x.iter().position(|v| v.is_nan())
    } else {
        x.iter().position(|v| *v == best)
    };
    place.unwrap_or(0)
}
