//! Sorting, and the places of extremes.

use burn_std::Bytes;

use super::cast::within;
use super::num::Elem;
use super::stage::home;
use super::{FINE_GRAIN, HostView, Out, Shared, bad_dtype, parallel, rows_per_task};
use crate::dtype::DType;
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

/// A number for the `i`-th element, in the order of the elements: NaN last, -0 and 0 equal.
type Key = unsafe fn(*const u8, usize) -> u64;

/// The key of a dtype.
fn key(dtype: DType) -> Result<Key> {
    macro_rules! key {
        ($T:ty, $f:expr) => {{
            /// # Safety
            /// There is such an element.
            unsafe fn key(x: *const u8, i: usize) -> u64 {
                // SAFETY: passed on to the caller.
                let x = unsafe { *x.cast::<$T>().add(i) };
                $f(x)
            }
            key
        }};
    }
    Ok(match dtype {
        DType::Bool | DType::U8 => key!(u8, |x| x as u64),
        DType::U16 => key!(u16, |x| x as u64),
        DType::U32 => key!(u32, |x| x as u64),
        DType::U64 => key!(u64, |x| x),
        DType::I8 => key!(i8, |x| (x as i32 ^ i32::MIN) as u32 as u64),
        DType::I16 => key!(i16, |x| (x as i32 ^ i32::MIN) as u32 as u64),
        DType::I32 => key!(i32, |x| (x ^ i32::MIN) as u32 as u64),
        DType::I64 => key!(i64, |x| (x ^ i64::MIN) as u64),
        DType::F16 => key!(half::f16, |x: half::f16| float_key(x.to_f32()) as u64),
        DType::BF16 => key!(half::bf16, |x: half::bf16| float_key(x.to_f32()) as u64),
        DType::F32 => key!(f32, |x| float_key(x) as u64),
        DType::F64 => key!(f64, |x: f64| {
            if x.is_nan() {
                return u64::MAX;
            }
            let bits = (x + 0.0).to_bits();
            if bits >> 63 == 1 {
                !bits
            } else {
                bits | 1 << 63
            }
        }),
        other => return Err(bad_dtype("sort", other)),
    })
}

fn float_key(x: f32) -> u32 {
    if x.is_nan() {
        return u32::MAX;
    }
    // The sum has no negative zero.
    let bits = (x + 0.0).to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// Calls `work` with the start of each line and its elements' places in ascending order, equal ones in their old order.
fn sorted(
    x: &HostView<'_>,
    lines: &Lines,
    work: &(dyn Fn(usize, &mut dyn Iterator<Item = usize>) + Sync),
) -> Result<()> {
    let key = key(x.dtype)?;
    let narrow = x.dtype.itemsize() <= 4;
    let src = Shared(x.ptr.cast_mut());
    // SAFETY: lines are within `x`.
    let at = |start: usize, i: usize| unsafe { key(src.at(0), start + i * lines.inner) };
    lines.each(&|line| {
        let start = lines.start(line);
        // The place in the low bits makes all of them different, and the sort stable.
        if narrow {
            let pairs = (0..lines.len).map(|i| at(start, i) << 32 | i as u64);
            let mut pairs: Vec<u64> = pairs.collect();
            pairs.sort_unstable();
            work(start, &mut pairs.into_iter().map(|p| p as u32 as usize));
        } else {
            let pairs = (0..lines.len).map(|i| (at(start, i) as u128) << 32 | i as u128);
            let mut pairs: Vec<u128> = pairs.collect();
            pairs.sort_unstable();
            work(start, &mut pairs.into_iter().map(|p| p as u32 as usize));
        }
    });
    Ok(())
}

/// Dense `x` sorted along `axis`.
pub fn sort(x: &HostView<'_>, axis: usize) -> Result<Bytes> {
    let lines = Lines::new(x, axis);
    let itemsize = x.dtype.itemsize();
    let mut out = Out::new(x.elements(), itemsize);
    let (src, to) = (Shared(x.ptr.cast_mut()), out.shared());
    with_bits!(itemsize, T => sorted(x, &lines, &|start, places| {
        for (i, place) in places.enumerate() {
            // SAFETY: lines are within `x` and the result, and disjoint.
            unsafe {
                *to.at::<T>(start + i * lines.inner) = *src.at::<T>(start + place * lines.inner);
            }
        }
    })?);
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// The order that sorts dense `x` along `axis`, as `i32`.
pub fn argsort(x: &HostView<'_>, axis: usize) -> Result<Bytes> {
    let lines = Lines::new(x, axis);
    let mut out = Out::new(x.elements(), 4);
    let to = out.shared();
    sorted(x, &lines, &|start, places| {
        for (i, place) in places.enumerate() {
            // SAFETY: as in `sort`.
            unsafe { *to.at::<i32>(start + i * lines.inner) = place as i32 };
        }
    })?;
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// Where the largest (or smallest) element of dense `x` along `axis` is first, as `i32`; the first NaN wins.
pub fn arg_extreme(x: &HostView<'_>, axis: usize, largest: bool) -> Result<Bytes> {
    within(x, home(x.dtype), false, &|x| {
        arg_extreme_at_home(x, axis, largest)
    })
}

fn arg_extreme_at_home(x: &HostView<'_>, axis: usize, largest: bool) -> Result<Bytes> {
    let lines = Lines::new(x, axis);
    let mut out = Out::new(lines.count, 4);
    let (src, to) = (Shared(x.ptr.cast_mut()), out.shared());
    with_home!("argmax", x.dtype, T => {
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
