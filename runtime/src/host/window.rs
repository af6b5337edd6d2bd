//! Sums and maxima over windows, and the two adjoints of the maximum.

use burn_std::Bytes;

use super::cast::{pair, within};
use super::num::{Elem, Num, Real};
use super::stage::{home, ring};
use super::{GRAIN, HostView, Out, Shared, bad_dtype, parallel, rows_per_task};
use crate::dtype::DType;
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

impl Windows {
    /// For each window in order the places of its elements in the flat input, and the input's size for those outside.
    pub fn places(&self) -> Vec<i64> {
        let rank = self.input.len();
        let outs: usize = self.output.iter().product();
        let taps: usize = self.window.iter().product();
        let outside = self.input.iter().product::<usize>() as i64;
        let mut list = Vec::with_capacity(outs * taps);
        for o in 0..outs {
            for t in 0..taps {
                let (mut o, mut t) = (o, t);
                let (mut place, mut stride, mut inside) = (0usize, 1usize, true);
                for axis in (0..rank).rev() {
                    let at = (o % self.output[axis]) * self.strides[axis] + t % self.window[axis];
                    o /= self.output[axis];
                    t /= self.window[axis];
                    let at = at.wrapping_sub(self.low[axis]);
                    inside &= at < self.input[axis];
                    place = at.wrapping_mul(stride).wrapping_add(place);
                    stride *= self.input[axis];
                }
                list.push(if inside { place as i64 } else { outside });
            }
        }
        list
    }
}

/// The sum of each window of dense `x`.
pub fn sum(x: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    if x.dtype.is_bool() {
        return Err(bad_dtype("window_sum", x.dtype));
    }
    within(x, ring(x.dtype), true, &|x| {
        Ok(with_ring!("window_sum", x.dtype, T => {
            separable(x.dense_elements::<T>(), w, T::ZERO, |a, b| a.add(b))
        }))
    })
}

/// The maximum of each window of dense `x`.
pub fn max(x: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    // What a window in the padding gives, where it is not the lowest number of the dtype in which this is computed.
    let lowest = match x.dtype {
        DType::I8 => Some(i8::MIN as i64),
        DType::I16 => Some(i16::MIN as i64),
        DType::Bool | DType::U8 | DType::U16 | DType::U32 => Some(0),
        _ => None,
    };
    within(x, home(x.dtype), true, &|x| {
        Ok(with_home!("window_max", x.dtype, T => {
            let start = lowest.map_or(T::LOWEST, |low| T::from_index(low as u64));
            separable(x.dense_elements::<T>(), w, start, |a, b| a.larger(b))
        }))
    })
}

/// One axis after the other: a window of `a` by `b` costs `a + b`.
fn separable<T: Elem>(x: &[T], w: &Windows, start: T, join: impl Fn(T, T) -> T + Sync) -> Bytes {
    let mut shape = w.input.clone();
    let mut data: Option<Vec<T>> = None;
    for axis in (0..shape.len()).rev().filter(|&axis| !w.trivial(axis)) {
        let next = along(data.as_deref().unwrap_or(x), &shape, axis, w, start, &join);
        shape[axis] = w.output[axis];
        data = Some(next);
    }
    let data = data.unwrap_or_else(|| x.to_vec());
    let mut out = Out::new(data.len(), size_of::<T>());
    // SAFETY: as many elements, which the copy writes.
    unsafe {
        std::ptr::copy_nonoverlapping(data.as_ptr().cast(), out.ptr(), size_of_val(&data[..]));
        out.finish()
    }
}

fn along<T: Elem>(
    x: &[T],
    shape: &[usize],
    axis: usize,
    w: &Windows,
    start: T,
    join: &(impl Fn(T, T) -> T + Sync),
) -> Vec<T> {
    let (n, places) = (shape[axis], w.output[axis]);
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut out = vec![start; outer * places * inner];
    if out.is_empty() {
        return out;
    }
    let to = Shared(out.as_mut_ptr().cast());
    // SAFETY: within the result; a row belongs to one task.
    let row = |k: usize, n: usize| unsafe { std::slice::from_raw_parts_mut(to.at::<T>(k * n), n) };
    if inner == 1 {
        let ranges: Vec<(usize, usize)> = (0..places).map(|o| w.range(axis, o)).collect();
        let rows = rows_per_task(places * w.window[axis], GRAIN);
        parallel(outer, rows, &|range| {
            for k in range {
                let x = &x[k * n..][..n];
                for (a, &(first, end)) in row(k, places).iter_mut().zip(&ranges) {
                    *a = x[first..end].iter().fold(start, |a, &x| join(a, x));
                }
            }
        });
        return out;
    }
    let rows = rows_per_task(inner * w.window[axis], GRAIN);
    parallel(outer * places, rows, &|range| {
        for k in range {
            let (first, end) = w.range(axis, k % places);
            for i in first..end {
                let from = (k / places * n + i) * inner;
                for (a, &x) in row(k, inner).iter_mut().zip(&x[from..from + inner]) {
                    *a = join(*a, x);
                }
            }
        }
    });
    out
}

/// Each window's `ct`, shared by the places of its maximum.
pub fn spread(x: &HostView<'_>, ct: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    pair(x, ct, home(x.dtype), &|x, ct| spread_at_home(x, ct, w))
}

fn spread_at_home(x: &HostView<'_>, ct: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    Ok(with_real!("window_max_spread", x.dtype, T => {
        let (x, ct) = (x.dense_elements::<T>(), ct.dense_elements::<T>());
        let slabs = Slabs::new(w);
        let mut out = Out::new(x.len(), size_of::<T>());
        let to = out.shared();
        parallel(slabs.count, slabs.per_task(), &|range| {
            let mut sums = vec![T::ZERO; slabs.input];
            for slab in range {
                let x = &x[slab * slabs.input..][..slabs.input];
                let ct = &ct[slab * slabs.output..][..slabs.output];
                sums.fill(T::ZERO);
                slabs.each_window(|o, base, runs| {
                    let Some((best, count)) = peak(&x[base..], runs) else { return };
                    let share = divide(ct[o], count);
                    for &(at, n) in runs {
                        for i in base + at..base + at + n {
                            if same(x[i], best) {
                                sums[i] = sums[i].add(share);
                            }
                        }
                    }
                });
                for (i, &sum) in sums.iter().enumerate() {
                    // SAFETY: every slab belongs to one task.
                    unsafe { *to.at::<T>(slab * slabs.input + i) = sum };
                }
            }
        });
        // SAFETY: the slabs make up the result.
        unsafe { out.finish() }
    }))
}

/// The mean of `t` over the places of each window's maximum; 0 for a window that lies in the padding.
pub fn pick(x: &HostView<'_>, t: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    pair(x, t, home(x.dtype), &|x, t| pick_at_home(x, t, w))
}

fn pick_at_home(x: &HostView<'_>, t: &HostView<'_>, w: &Windows) -> Result<Bytes> {
    Ok(with_real!("window_max_pick", x.dtype, T => {
        let (x, t) = (x.dense_elements::<T>(), t.dense_elements::<T>());
        let slabs = Slabs::new(w);
        let mut out = Out::zeros(slabs.count * slabs.output, size_of::<T>());
        let to = out.shared();
        parallel(slabs.count, slabs.per_task(), &|range| {
            for slab in range {
                let x = &x[slab * slabs.input..][..slabs.input];
                let t = &t[slab * slabs.input..][..slabs.input];
                slabs.each_window(|o, base, runs| {
                    let Some((best, count)) = peak(&x[base..], runs) else { return };
                    let mut sum = T::ZERO;
                    for &(at, n) in runs {
                        for i in base + at..base + at + n {
                            if same(x[i], best) {
                                sum = sum.add(t[i]);
                            }
                        }
                    }
                    let mean = divide(sum, count);
                    // SAFETY: every slab belongs to one task.
                    unsafe { *to.at::<T>(slab * slabs.output + o) = mean };
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

fn divide<T: Real>(sum: T, count: usize) -> T {
    if count == 1 {
        return sum;
    }
    sum.div(T::from_count(count))
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

    /// Calls `work` with every output place of a slab and the runs (start, length) of the input that it covers, which
    /// begin that far behind a place of the input.
    fn each_window(&self, mut work: impl FnMut(usize, usize, &[(usize, usize)])) {
        let w = self.w;
        let axes = self.axis..w.input.len();
        let strides = super::dense_strides(&w.input);
        // Of each axis the places at which a window is whole, and where it begins.
        let starts: Vec<Vec<Option<usize>>> = axes
            .clone()
            .map(|axis| {
                let whole = |o| {
                    let (first, end) = w.range(axis, o);
                    (end - first == w.window[axis]).then_some(first * strides[axis] as usize)
                };
                (0..w.output[axis]).map(whole).collect()
            })
            .collect();
        let Some((last, outer)) = starts.split_last() else {
            return work(0, 0, &[(0, 1)]);
        };
        // Whole windows all look alike.
        let mut whole = Vec::new();
        let all = axes.clone().map(|axis| (0, w.window[axis]));
        runs_of(&all.collect::<Vec<_>>(), &strides[axes.clone()], &mut whole);
        let mut clipped = Vec::new();
        let mut at = vec![0usize; outer.len()];
        for row in 0..self.output / last.len().max(1) {
            let start = outer
                .iter()
                .zip(&at)
                .try_fold(0, |sum, (starts, &o)| Some(sum + starts[o]?));
            for (x, &begin) in last.iter().enumerate() {
                let o = row * last.len() + x;
                if let (Some(start), Some(begin)) = (start, begin) {
                    work(o, start + begin, &whole);
                    continue;
                }
                let places = at.iter().chain(std::iter::once(&x));
                let ranges = axes.clone().zip(places).map(|(axis, &o)| w.range(axis, o));
                let ranges: Vec<_> = ranges.collect();
                runs_of(&ranges, &strides[axes.clone()], &mut clipped);
                work(o, 0, &clipped);
            }
            for (k, o) in at.iter_mut().enumerate().rev() {
                *o += 1;
                if *o < outer[k].len() {
                    break;
                }
                *o = 0;
            }
        }
    }
}

/// The runs along the last axis that make up a box.
fn runs_of(ranges: &[(usize, usize)], strides: &[isize], runs: &mut Vec<(usize, usize)>) {
    runs.clear();
    let Some((&(first, end), outer)) = ranges.split_last() else {
        return;
    };
    if end == first || outer.iter().any(|(first, end)| first == end) {
        return;
    }
    let count: usize = outer.iter().map(|(first, end)| end - first).product();
    for mut i in 0..count {
        let mut start = first;
        for (&(first, end), &stride) in outer.iter().zip(strides).rev() {
            start += (first + i % (end - first)) * stride as usize;
            i /= end - first;
        }
        runs.push((start, end - first));
    }
}
