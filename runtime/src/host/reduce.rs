//! Reductions over axes, in a pairwise order that depends on sizes only.

use std::ops::Range;

use burn_std::Bytes;

use super::cast::within;
use super::num::{Elem, Num};
use super::stage::{home, ring};
use super::{GRAIN, HostView, Out, Shared, bad_dtype, parallel, rows_per_task};
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
    const START: T;
    fn join(a: T, b: T) -> T;
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
    ($Rule:ty, $Bound:ident, $start:expr, $join:expr) => {
        impl<T: $Bound> Rule<T> for $Rule {
            const START: T = $start;
            #[inline(always)]
            fn join(a: T, b: T) -> T {
                $join(a, b)
            }
        }
    };
}

rule!(Sum, Num, T::ZERO, Num::add);
rule!(Prod, Num, T::ONE, Num::mul);
rule!(Max, Elem, T::LOWEST, Elem::larger);
rule!(Min, Elem, T::HIGHEST, Elem::smaller);

/// Reduces `axes` of `x` away.
pub fn reduce(op: Reduce, x: &HostView<'_>, axes: &[usize]) -> Result<Bytes> {
    let inner = match op {
        Reduce::Sum | Reduce::Prod if x.dtype.is_bool() => return Err(bad_dtype("sum", x.dtype)),
        Reduce::Sum | Reduce::Prod => ring(x.dtype),
        // Over nothing, `i32` has extremes that are no bools.
        Reduce::Max | Reduce::Min if x.dtype.is_bool() && x.elements() == 0 => {
            let kept = (0..x.shape.len()).filter(|k| !axes.contains(k));
            let outputs = kept.map(|k| x.shape[k]).product();
            return Ok(Bytes::from_elems(vec![(op == Reduce::Min) as u8; outputs]));
        }
        Reduce::Max | Reduce::Min => home(x.dtype),
    };
    within(x, inner, true, &|x| {
        Ok(match op {
            Reduce::Sum => with_ring!("sum", x.dtype, T => apply::<T, Sum>(x, axes)),
            Reduce::Prod => with_ring!("sum", x.dtype, T => apply::<T, Prod>(x, axes)),
            Reduce::Max => with_home!("max", x.dtype, T => apply::<T, Max>(x, axes)),
            Reduce::Min => with_home!("min", x.dtype, T => apply::<T, Min>(x, axes)),
        })
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
            unsafe { *to.at::<T>(i) = R::START };
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
                    unsafe { *to.at::<T>(first + j) = *a };
                }
            }
        });
    } else {
        parallel(outputs, rows_per_task(each, GRAIN), &|range| {
            for i in range {
                let acc = line::<T, R>(src, kept.offset(i), &reduced, each);
                // SAFETY: within the result; tasks have disjoint ranges.
                unsafe { *to.at::<T>(i) = acc };
            }
        });
    }
    // SAFETY: every output has been written.
    unsafe { out.finish() }
}

/// The results of `work` for each number below `n`, in parallel.
fn in_parts<A: Copy>(n: usize, start: A, work: &(dyn Fn(usize) -> A + Sync)) -> Vec<A> {
    let mut parts = vec![start; n];
    let to = Shared(parts.as_mut_ptr().cast());
    parallel(n, 1, &|range| {
        for i in range {
            // SAFETY: within the parts; tasks have disjoint ranges.
            unsafe { *to.at::<A>(i) = work(i) };
        }
    });
    parts
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
fn line<T: Elem, R: Rule<T>>(src: Source<T>, base: isize, reduced: &Axes, n: usize) -> T {
    if n <= GRAIN {
        return run::<T, R>(src, base, reduced, 0..n);
    }
    let parts = in_parts(n.div_ceil(GRAIN), R::START, &|i| {
        run::<T, R>(src, base, reduced, i * GRAIN..((i + 1) * GRAIN).min(n))
    });
    pairwise(parts, R::join, R::START)
}

/// The combinations `range` of `reduced`, row by row of its last axis.
fn run<T: Elem, R: Rule<T>>(src: Source<T>, base: isize, reduced: &Axes, range: Range<usize>) -> T {
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

fn stretch<T: Elem, R: Rule<T>>(src: Source<T>, at: isize, stride: isize, n: usize) -> T {
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
        #[cfg(target_arch = "x86_64")]
        return slow_block::<T, R>(ptr, stride, n);
        #[cfg(not(target_arch = "x86_64"))]
        block::<T, R>(ptr, stride, n)
    }
}

const LANES: usize = 16;

/// What [`block`] gives, in less code and more time: for processors without AVX2.
///
/// # Safety
/// As for [`block`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn slow_block<T: Elem, R: Rule<T>>(ptr: *const T, stride: isize, n: usize) -> T {
    let mut lanes = [R::START; LANES];
    for i in 0..n {
        // SAFETY: passed on to the caller.
        lanes[i % LANES] = R::join(lanes[i % LANES], unsafe {
            *ptr.offset(i as isize * stride)
        });
    }
    join_lanes::<T, R>(lanes)
}

#[inline(always)]
fn join_lanes<T: Elem, R: Rule<T>>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            lanes[j] = R::join(lanes[j], lanes[j + width]);
        }
    }
    lanes[0]
}

/// # Safety
/// As for [`block`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fast_block<T: Elem, R: Rule<T>>(ptr: *const T, stride: isize, n: usize) -> T {
    // SAFETY: passed on to the caller.
    unsafe { block::<T, R>(ptr, stride, n) }
}

/// # Safety
/// `n` elements at `stride` can be read.
#[inline(always)]
unsafe fn block<T: Elem, R: Rule<T>>(ptr: *const T, stride: isize, n: usize) -> T {
    let mut lanes = [R::START; LANES];
    let whole = n / LANES * LANES;
    // SAFETY: passed on to the caller.
    unsafe {
        if stride == 1 {
            for i in (0..whole).step_by(LANES) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = R::join(*lane, *ptr.add(i + j));
                }
            }
        } else {
            for i in (0..whole).step_by(LANES) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane = R::join(*lane, *ptr.offset((i + j) as isize * stride));
                }
            }
        }
        for i in whole..n {
            lanes[i - whole] = R::join(lanes[i - whole], *ptr.offset(i as isize * stride));
        }
    }
    join_lanes::<T, R>(lanes)
}

/// Outputs computed together when they are adjacent in memory and what they reduce is not.
const TILE: usize = 128;
/// Rows joined one after the other: few, so that a float32 sum stays within its 2 units in the last place.
const LEAF: usize = 4;

fn column_tile<T: Elem, R: Rule<T>>(
    src: Source<T>,
    base: isize,
    reduced: &Axes,
    n: usize,
    width: usize,
) -> [T; TILE] {
    let rows = (GRAIN / width).max(16);
    if n <= rows {
        return columns::<T, R>(src, base, reduced, 0..n, width);
    }
    let parts = in_parts(n.div_ceil(rows), [R::START; TILE], &|i| {
        columns::<T, R>(src, base, reduced, i * rows..((i + 1) * rows).min(n), width)
    });
    pairwise(parts, join_tiles::<T, R>, [R::START; TILE])
}

fn join_tiles<T: Elem, R: Rule<T>>(mut a: [T; TILE], b: [T; TILE]) -> [T; TILE] {
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
) -> [T; TILE] {
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
        #[cfg(target_arch = "x86_64")]
        return slow_leaf::<T, R>(src.0, offsets, width);
        #[cfg(not(target_arch = "x86_64"))]
        leaf::<T, R>(src.0, offsets, width)
    }
}

/// What [`leaf`] gives, in less code and more time.
///
/// # Safety
/// As for [`leaf`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn slow_leaf<T: Elem, R: Rule<T>>(
    src: *const T,
    offsets: &[isize],
    width: usize,
) -> [T; TILE] {
    let mut acc = [R::START; TILE];
    for (j, a) in acc.iter_mut().enumerate().take(width) {
        for &offset in offsets {
            // SAFETY: passed on to the caller.
            *a = R::join(*a, unsafe { *src.offset(offset).add(j) });
        }
    }
    acc
}

/// # Safety
/// As for [`leaf`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fast_leaf<T: Elem, R: Rule<T>>(
    src: *const T,
    offsets: &[isize],
    width: usize,
) -> [T; TILE] {
    // SAFETY: passed on to the caller.
    unsafe { leaf::<T, R>(src, offsets, width) }
}

/// # Safety
/// `width` elements from each offset can be read.
#[inline(always)]
unsafe fn leaf<T: Elem, R: Rule<T>>(src: *const T, offsets: &[isize], width: usize) -> [T; TILE] {
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
                    *lane = R::join(*lane, *row.add(j));
                }
            }
            acc[first..first + LANES].copy_from_slice(&lanes);
        }
        for (j, a) in acc.iter_mut().enumerate().take(width).skip(whole) {
            for &offset in offsets {
                *a = R::join(*a, *src.offset(offset).add(j));
            }
        }
    }
    acc
}

/// True for a dtype whose empty maximum is defined.
pub fn has_empty_extreme(dtype: DType) -> bool {
    dtype.is_bool()
}
