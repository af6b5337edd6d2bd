//! Reductions over axes, in a pairwise order that depends on sizes only.

use std::ops::Range;

use burn_std::Bytes;
use rayon::prelude::*;

use super::num::{Elem, Num};
use super::{GRAIN, HostView, Out, parallel, rows_per_task};
use crate::dtype::DType;
use crate::error::Result;

/// Which reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

/// How elements of `T` are reduced; `join` is associative up to rounding.
trait Rule<T>: Copy + Send + Sync {
    type Acc: Copy + Send + Sync;
    const START: Self::Acc;
    fn load(x: T) -> Self::Acc;
    fn join(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn finish(a: Self::Acc) -> T;
}

#[derive(Clone, Copy)]
struct Sum;
#[derive(Clone, Copy)]
struct Prod;
#[derive(Clone, Copy)]
struct Max;
#[derive(Clone, Copy)]
struct Min;

macro_rules! rule {
    ($Rule:ty, $Bound:ident, $Acc:ty, $start:expr, $load:expr, $join:expr, $finish:expr) => {
        impl<T: $Bound> Rule<T> for $Rule {
            type Acc = $Acc;
            const START: Self::Acc = $start;
            #[inline(always)]
            fn load(x: T) -> Self::Acc {
                $load(x)
            }
            #[inline(always)]
            fn join(a: Self::Acc, b: Self::Acc) -> Self::Acc {
                $join(a, b)
            }
            #[inline(always)]
            fn finish(a: Self::Acc) -> T {
                $finish(a)
            }
        }
    };
}

rule!(
    Sum,
    Num,
    T::Acc,
    T::Acc::ZERO,
    T::acc,
    Num::add,
    T::from_acc
);
rule!(
    Prod,
    Num,
    T::Acc,
    T::Acc::ONE,
    T::acc,
    Num::mul,
    T::from_acc
);
rule!(Max, Elem, T, T::LOWEST, |x| x, Elem::larger, |x| x);
rule!(Min, Elem, T, T::HIGHEST, |x| x, Elem::smaller, |x| x);

/// Reduces `axes` of `x` away.
pub fn reduce(op: Reduce, x: &HostView<'_>, axes: &[usize]) -> Result<Bytes> {
    Ok(match op {
        Reduce::Sum => with_num!("sum", x.dtype, T => apply::<T, Sum>(x, axes)),
        Reduce::Prod => with_num!("prod", x.dtype, T => apply::<T, Prod>(x, axes)),
        Reduce::Max => with_all!("max", x.dtype, T => apply::<T, Max>(x, axes)),
        Reduce::Min => with_all!("min", x.dtype, T => apply::<T, Min>(x, axes)),
    })
}

/// Axes as (size, stride in elements), neighbours merged where one stride walks both.
struct Axes(Vec<(usize, isize)>);

impl Axes {
    fn new(axes: impl Iterator<Item = (usize, isize)>) -> Self {
        let mut list: Vec<(usize, isize)> = Vec::new();
        for (n, s) in axes.filter(|(n, _)| *n != 1) {
            match list.last_mut() {
                Some(last) if last.1 == s * n as isize => *last = (last.0 * n, s),
                _ => list.push((n, s)),
            }
        }
        if list.is_empty() {
            list.push((1, 1));
        }
        Axes(list)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(n, _)| n).product()
    }

    fn inner(&self) -> (usize, isize) {
        self.0[self.0.len() - 1]
    }

    /// The offset of the `i`-th combination.
    #[inline]
    fn offset(&self, i: usize) -> isize {
        if let [(_, s)] = self.0[..] {
            return i as isize * s;
        }
        let (mut rest, mut offset) = (i, 0);
        for &(n, s) in self.0.iter().rev() {
            offset += (rest % n) as isize * s;
            rest /= n;
        }
        offset
    }
}

/// Where elements are read from.
#[derive(Clone, Copy)]
struct Source<T>(*const T);

// SAFETY: only read, while the view that it came from lives.
unsafe impl<T> Send for Source<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Source<T> {}

fn apply<T: Elem, R: Rule<T>>(x: &HostView<'_>, axes: &[usize]) -> Bytes {
    let pick = |reduced: bool| {
        let all = x.shape.iter().zip(x.strides).enumerate();
        all.filter(move |(k, _)| axes.contains(k) == reduced)
            .map(|(_, (n, s))| (*n, *s))
    };
    let (kept, reduced) = (Axes::new(pick(false)), Axes::new(pick(true)));
    let (outputs, each) = (kept.len(), reduced.len());
    let mut out = Out::new(outputs, size_of::<T>());
    let to = out.shared();
    let src = Source(x.ptr.cast::<T>());
    let (width, stride) = kept.inner();
    let columns = stride == 1 && width >= 4 && reduced.inner().1.unsigned_abs() > 1;
    if each == 0 {
        for i in 0..outputs {
            // SAFETY: within the result.
            unsafe { *to.at::<T>(i) = R::finish(R::START) };
        }
    } else if columns {
        let tiles = width.div_ceil(TILE);
        let tasks = outputs / width * tiles;
        let per_task = rows_per_task(each * width.min(TILE), GRAIN);
        parallel(tasks, per_task, &|range| {
            for task in range {
                let (row, tile) = (task / tiles, task % tiles);
                let n = (width - tile * TILE).min(TILE);
                let first = row * width + tile * TILE;
                let acc = column_tile::<T, R>(src, kept.offset(first), &reduced, each, n);
                for (j, a) in acc.iter().enumerate().take(n) {
                    // SAFETY: within the result; every output belongs to one tile.
                    unsafe { *to.at::<T>(first + j) = R::finish(*a) };
                }
            }
        });
    } else {
        parallel(outputs, rows_per_task(each, GRAIN), &|range| {
            for i in range {
                let acc = line::<T, R>(src, kept.offset(i), &reduced, each);
                // SAFETY: within the result; tasks have disjoint ranges.
                unsafe { *to.at::<T>(i) = R::finish(acc) };
            }
        });
    }
    // SAFETY: every output has been written.
    unsafe { out.finish() }
}

/// Joins neighbours, then pairs of neighbours, and so on.
fn pairwise<A: Copy>(mut parts: Vec<A>, join: impl Fn(A, A) -> A, start: A) -> A {
    while parts.len() > 1 {
        parts = parts
            .chunks(2)
            .map(|p| if p.len() == 2 { join(p[0], p[1]) } else { p[0] })
            .collect();
    }
    parts.first().copied().unwrap_or(start)
}

/// One output: everything along `reduced`, in parallel parts when it is long.
fn line<T: Elem, R: Rule<T>>(src: Source<T>, base: isize, reduced: &Axes, n: usize) -> R::Acc {
    if n <= GRAIN {
        return run::<T, R>(src, base, reduced, 0..n);
    }
    let parts = (0..n.div_ceil(GRAIN))
        .into_par_iter()
        .map(|i| run::<T, R>(src, base, reduced, i * GRAIN..((i + 1) * GRAIN).min(n)))
        .collect();
    pairwise(parts, R::join, R::START)
}

/// The combinations `range` of `reduced`, row by row of its last axis.
fn run<T: Elem, R: Rule<T>>(
    src: Source<T>,
    base: isize,
    reduced: &Axes,
    range: Range<usize>,
) -> R::Acc {
    let (row, stride) = reduced.inner();
    if range.start / row == (range.end - 1) / row {
        let at = base + reduced.offset(range.start);
        return stretch::<T, R>(src, at, stride, range.len());
    }
    let mut parts = Vec::with_capacity(range.len() / row + 2);
    let mut at = range.start;
    while at < range.end {
        let n = (row - at % row).min(range.end - at);
        parts.push(stretch::<T, R>(src, base + reduced.offset(at), stride, n));
        at += n;
    }
    pairwise(parts, R::join, R::START)
}

const BLOCK: usize = 256;

fn stretch<T: Elem, R: Rule<T>>(src: Source<T>, at: isize, stride: isize, n: usize) -> R::Acc {
    if n > BLOCK {
        let half = (n / 2).next_multiple_of(8);
        let a = stretch::<T, R>(src, at, stride, half);
        let b = stretch::<T, R>(src, at + half as isize * stride, stride, n - half);
        return R::join(a, b);
    }
    // SAFETY: `n` elements at this stride are within the view.
    unsafe {
        let ptr = src.0.offset(at);
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            return fast_block::<T, R>(ptr, stride, n);
        }
        block::<T, R>(ptr, stride, n)
    }
}

/// # Safety
/// As for [`block`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fast_block<T: Elem, R: Rule<T>>(ptr: *const T, stride: isize, n: usize) -> R::Acc {
    // SAFETY: passed on to the caller.
    unsafe { block::<T, R>(ptr, stride, n) }
}

/// # Safety
/// `n` elements at `stride` can be read.
#[inline(always)]
unsafe fn block<T: Elem, R: Rule<T>>(ptr: *const T, stride: isize, n: usize) -> R::Acc {
    const LANES: usize = 16;
    let mut lanes = [R::START; LANES];
    let whole = n / LANES * LANES;
    // SAFETY: passed on to the caller.
    unsafe {
        if stride == 1 {
            for i in (0..whole).step_by(LANES) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = R::join(*lane, R::load(*ptr.add(i + j)));
                }
            }
        } else {
            for i in (0..whole).step_by(LANES) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = R::join(*lane, R::load(*ptr.offset((i + j) as isize * stride)));
                }
            }
        }
        for i in whole..n {
            lanes[i - whole] = R::join(lanes[i - whole], R::load(*ptr.offset(i as isize * stride)));
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            lanes[j] = R::join(lanes[j], lanes[j + width]);
        }
    }
    lanes[0]
}

/// Outputs computed together when they are adjacent in memory and what they reduce is not.
const TILE: usize = 128;
/// Rows joined one after the other.
const LEAF: usize = 32;

fn column_tile<T: Elem, R: Rule<T>>(
    src: Source<T>,
    base: isize,
    reduced: &Axes,
    n: usize,
    width: usize,
) -> [R::Acc; TILE] {
    let rows = (GRAIN / width).max(16);
    if n <= rows {
        return columns::<T, R>(src, base, reduced, 0..n, width);
    }
    let parts = (0..n.div_ceil(rows))
        .into_par_iter()
        .map(|i| columns::<T, R>(src, base, reduced, i * rows..((i + 1) * rows).min(n), width))
        .collect();
    pairwise(parts, join_tiles::<T, R>, [R::START; TILE])
}

fn join_tiles<T: Elem, R: Rule<T>>(mut a: [R::Acc; TILE], b: [R::Acc; TILE]) -> [R::Acc; TILE] {
    for (x, y) in a.iter_mut().zip(b) {
        *x = R::join(*x, y);
    }
    a
}

fn columns<T: Elem, R: Rule<T>>(
    src: Source<T>,
    base: isize,
    reduced: &Axes,
    range: Range<usize>,
    width: usize,
) -> [R::Acc; TILE] {
    if range.len() > LEAF {
        let middle = range.start + range.len() / 2;
        let a = columns::<T, R>(src, base, reduced, range.start..middle, width);
        let b = columns::<T, R>(src, base, reduced, middle..range.end, width);
        return join_tiles::<T, R>(a, b);
    }
    let mut offsets = [0; LEAF];
    for (offset, i) in offsets.iter_mut().zip(range.clone()) {
        *offset = base + reduced.offset(i);
    }
    let offsets = &offsets[..range.len()];
    // SAFETY: `width` adjacent elements from every offset are within the view.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            return fast_leaf::<T, R>(src.0, offsets, width);
        }
        leaf::<T, R>(src.0, offsets, width)
    }
}

/// # Safety
/// As for [`leaf`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fast_leaf<T: Elem, R: Rule<T>>(
    src: *const T,
    offsets: &[isize],
    width: usize,
) -> [R::Acc; TILE] {
    // SAFETY: passed on to the caller.
    unsafe { leaf::<T, R>(src, offsets, width) }
}

/// # Safety
/// `width` elements from each offset can be read.
#[inline(always)]
unsafe fn leaf<T: Elem, R: Rule<T>>(
    src: *const T,
    offsets: &[isize],
    width: usize,
) -> [R::Acc; TILE] {
    const LANES: usize = 16;
    let mut acc = [R::START; TILE];
    let whole = width / LANES * LANES;
    // SAFETY: passed on to the caller.
    unsafe {
        for first in (0..whole).step_by(LANES) {
            // Kept apart from memory, so that they stay in registers.
            let mut lanes = [R::START; LANES];
            for &offset in offsets {
                let row = src.offset(offset).add(first);
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = R::join(*lane, R::load(*row.add(j)));
                }
            }
            acc[first..first + LANES].copy_from_slice(&lanes);
        }
        for (j, a) in acc.iter_mut().enumerate().take(width).skip(whole) {
            for &offset in offsets {
                *a = R::join(*a, R::load(*src.offset(offset).add(j)));
            }
        }
    }
    acc
}

/// True for a dtype whose empty maximum is defined.
pub fn has_empty_extreme(dtype: DType) -> bool {
    dtype.is_bool()
}
