//! Sums and maxima over windows, and the two adjoints of the maximum.

use burn_std::Bytes;
use rayon::prelude::*;

use super::num::{Elem, Float, Num};
use super::{GRAIN, HostView, Out, parallel, rows_per_task};
use crate::error::Result;

/// A window over each axis of a dense array.
#[derive(Clone, Debug)]
pub struct Windows {
    pub input: Vec<usize>,
    pub output: Vec<usize>,
    pub window: Vec<usize>,
    pub strides: Vec<usize>,
    pub low: Vec<usize>,
}

impl Windows {
    /// True where the window is one element at the same place.
    fn trivial(&self, axis: usize) -> bool {
        self.window[axis] == 1
            && self.strides[axis] == 1
            && self.low[axis] == 0
            && self.input[axis] == self.output[axis]
    }

    /// The input places that output place `o` covers.
    fn range(&self, axis: usize, o: usize) -> (usize, usize) {
        let start = o * self.strides[axis];
        let first = start.saturating_sub(self.low[axis]);
        let end = (start + self.window[axis]).saturating_sub(self.low[axis]);
        let end = end.min(self.input[axis]);
        (first.min(end), end)
    }
}

/// The elements of a dense view.
fn elements<'a, T>(x: &HostView<'a>) -> &'a [T] {
    let n = x.elements();
    if n == 0 {
        return &[];
    }
    // SAFETY: the view is dense and aligned, and lives for `'a`.
    unsafe { std::slice::from_raw_parts(x.ptr.cast(), n) }
}

/// The sum of each window of dense `x`.
pub fn sum(x: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    Ok(with_num!("window_sum", x.dtype, T => separable(
        elements::<T>(x), w, <T as Num>::Acc::ZERO, |x| x.acc(), |a, b| a.add(b), T::from_acc,
    )))
}

/// The maximum of each window of dense `x`.
pub fn max(x: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    Ok(with_num!("window_max", x.dtype, T => separable(
        elements::<T>(x), w, T::LOWEST, |x| x, |a, b| a.larger(b), |a| a,
    )))
}

/// One axis after the other: a window of `a` by `b` costs `a + b`.
fn separable<T: Elem, A: Elem>(
    x: &[T],
    w: &Windows,
    start: A,
    load: impl Fn(T) -> A + Sync,
    join: impl Fn(A, A) -> A + Sync,
    finish: impl Fn(A) -> T + Sync,
) -> Bytes {
    let mut shape = w.input.clone();
    let mut data: Option<Vec<A>> = None;
    for axis in (0..shape.len()).rev().filter(|&axis| !w.trivial(axis)) {
        let next = match &data {
            None => along(x, &shape, axis, w, start, &load, &join),
            Some(data) => along(data, &shape, axis, w, start, &|a| a, &join),
        };
        shape[axis] = w.output[axis];
        data = Some(next);
    }
    let total = w.output.iter().product();
    let mut out = Out::new(total, size_of::<T>());
    let to = out.shared();
    parallel(total, GRAIN, &|range| {
        for i in range {
            let value = match &data {
                Some(data) => data[i],
                None => load(x[i]),
            };
            // SAFETY: within the result; tasks have disjoint ranges.
            unsafe { *to.at::<T>(i) = finish(value) };
        }
    });
    // SAFETY: filled above.
    unsafe { out.finish() }
}

fn along<T: Elem, A: Elem>(
    x: &[T],
    shape: &[usize],
    axis: usize,
    w: &Windows,
    start: A,
    load: &(impl Fn(T) -> A + Sync),
    join: &(impl Fn(A, A) -> A + Sync),
) -> Vec<A> {
    let (n, places) = (shape[axis], w.output[axis]);
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut out = vec![start; outer * places * inner];
    if out.is_empty() {
        return out;
    }
    if inner == 1 {
        let ranges: Vec<(usize, usize)> = (0..places).map(|o| w.range(axis, o)).collect();
        let rows = rows_per_task(places * w.window[axis], GRAIN);
        out.par_chunks_mut(places * rows)
            .enumerate()
            .for_each(|(task, out)| {
                for (k, out) in out.chunks_mut(places).enumerate() {
                    let x = &x[(task * rows + k) * n..][..n];
                    for (a, &(first, end)) in out.iter_mut().zip(&ranges) {
                        *a = x[first..end].iter().fold(start, |a, &x| join(a, load(x)));
                    }
                }
            });
        return out;
    }
    let rows = rows_per_task(inner * w.window[axis], GRAIN);
    out.par_chunks_mut(inner * rows)
        .enumerate()
        .for_each(|(task, out)| {
            for (k, out) in out.chunks_mut(inner).enumerate() {
                let row = task * rows + k;
                let (first, end) = w.range(axis, row % places);
                for i in first..end {
                    let from = (row / places * n + i) * inner;
                    for (a, &x) in out.iter_mut().zip(&x[from..from + inner]) {
                        *a = join(*a, load(x));
                    }
                }
            }
        });
    out
}

/// Each window's `ct`, shared by the places of its maximum.
pub fn spread(x: &HostView<'_>, ct: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    Ok(with_float!("window_max_spread", x.dtype, T => {
        let (x, ct) = (elements::<T>(x), elements::<T>(ct));
        let slabs = Slabs::new(w);
        let mut out = Out::new(x.len(), size_of::<T>());
        let to = out.shared();
        parallel(slabs.count, slabs.per_task(), &|range| {
            let mut sums = vec![<T as Num>::Acc::ZERO; slabs.input];
            for slab in range {
                let x = &x[slab * slabs.input..][..slabs.input];
                let ct = &ct[slab * slabs.output..][..slabs.output];
                sums.fill(<T as Num>::Acc::ZERO);
                slabs.each_window(|o, runs| {
                    let Some((best, count)) = peak(x, runs) else { return };
                    let share = divide::<T>(ct[o].acc(), count);
                    for &(at, n) in runs {
                        for i in at..at + n {
                            if same(x[i], best) {
                                sums[i] = sums[i].add(share);
                            }
                        }
                    }
                });
                for (i, &sum) in sums.iter().enumerate() {
                    // SAFETY: every slab belongs to one task.
                    unsafe { *to.at::<T>(slab * slabs.input + i) = T::from_acc(sum) };
                }
            }
        });
        // SAFETY: the slabs make up the result.
        unsafe { out.finish() }
    }))
}

/// The mean of `t` over the places of each window's maximum; 0 for a window that lies in the padding.
pub fn pick(x: &HostView<'_>, t: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    Ok(with_float!("window_max_pick", x.dtype, T => {
        let (x, t) = (elements::<T>(x), elements::<T>(t));
        let slabs = Slabs::new(w);
        let mut out = Out::zeros(slabs.count * slabs.output, size_of::<T>());
        let to = out.shared();
        parallel(slabs.count, slabs.per_task(), &|range| {
            for slab in range {
                let x = &x[slab * slabs.input..][..slabs.input];
                let t = &t[slab * slabs.input..][..slabs.input];
                slabs.each_window(|o, runs| {
                    let Some((best, count)) = peak(x, runs) else { return };
                    let mut sum = <T as Num>::Acc::ZERO;
                    for &(at, n) in runs {
                        for i in at..at + n {
                            if same(x[i], best) {
                                sum = sum.add(t[i].acc());
                            }
                        }
                    }
                    let mean = divide::<T>(sum, count);
                    // SAFETY: every slab belongs to one task.
                    unsafe { *to.at::<T>(slab * slabs.output + o) = T::from_acc(mean) };
                });
            }
        });
        // SAFETY: made of zeros.
        unsafe { out.finish() }
    }))
}

/// The maximum over `runs` and how many places have it; none when there is no place.
#[inline]
fn peak<T: Elem>(x: &[T], runs: &[(usize, usize)]) -> Option<(T, usize)> {
    let mut best = None;
    for &(at, n) in runs {
        for &value in &x[at..at + n] {
            best = Some(best.map_or(value, |b: T| b.larger(value)));
        }
    }
    let best = best?;
    let count = runs
        .iter()
        .flat_map(|&(at, n)| &x[at..at + n])
        .filter(|&&v| same(v, best))
        .count();
    Some((best, count))
}

#[inline]
fn same<T: Elem>(a: T, b: T) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

fn divide<T: Float>(sum: T::Acc, count: usize) -> T::Acc {
    if count == 1 {
        return sum;
    }
    T::divide_acc(sum, count)
}

/// An array cut into parts that no window crosses.
struct Slabs<'a> {
    w: &'a Windows,
    /// The first axis with a real window.
    axis: usize,
    count: usize,
    input: usize,
    output: usize,
}

impl<'a> Slabs<'a> {
    fn new(w: &'a Windows) -> Self {
        let rank = w.input.len();
        let axis = (0..rank)
            .find(|&axis| !w.trivial(axis))
            .unwrap_or(rank.saturating_sub(1));
        Slabs {
            w,
            axis,
            count: w.input[..axis].iter().product(),
            input: w.input[axis..].iter().product(),
            output: w.output[axis..].iter().product(),
        }
    }

    fn per_task(&self) -> usize {
        rows_per_task(self.input.max(self.output) * 4, GRAIN)
    }

    /// Calls `work` with every output place of a slab and the runs (start, length) of the input that it covers.
    fn each_window(&self, mut work: impl FnMut(usize, &[(usize, usize)])) {
        let w = self.w;
        let axes = self.axis..w.input.len();
        let strides = super::dense_strides(&w.input);
        let mut at = vec![0usize; w.input.len()];
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut next: Vec<(usize, usize)> = Vec::new();
        for o in 0..self.output {
            runs.clear();
            runs.push((0, 1));
            for axis in axes.clone() {
                let (first, end) = w.range(axis, at[axis]);
                let stride = strides[axis] as usize;
                next.clear();
                for &(start, _) in &runs {
                    if axis + 1 == axes.end {
                        if end > first {
                            next.push((start + first, end - first));
                        }
                    } else {
                        next.extend((first..end).map(|i| (start + i * stride, 1)));
                    }
                }
                std::mem::swap(&mut runs, &mut next);
            }
            work(o, &runs);
            for axis in axes.clone().rev() {
                at[axis] += 1;
                if at[axis] < w.output[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
    }
}
