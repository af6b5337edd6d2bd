//! Discrete Fourier transforms of any length along one axis, without a factor. A complex number is a pair.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use burn_std::Bytes;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};

use super::{FINE_GRAIN, HostView, Out, Shared, parallel, rows_per_task};
use crate::error::{Error, Result};

/// Lines of `from` elements that become lines of `to`: `[outer, from, inner]`.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    pub outer: usize,
    pub from: usize,
    pub to: usize,
    pub inner: usize,
}

impl Lines {
    /// The axis of a shape without its pairs, and how long it becomes.
    pub fn new(shape: &[usize], axis: usize, to: usize) -> Self {
        Lines {
            outer: shape[..axis].iter().product(),
            from: shape[axis],
            to,
            inner: shape[axis + 1..].iter().product(),
        }
    }
}

/// What the tables of a transform of so many numbers may take, and the memory it works in, counted in pairs: one of a
/// prime length is done by a longer one.
pub const SCRATCH: usize = 16;

/// Lines beside each other that are brought together at once, so that memory is read in runs.
const TOGETHER: usize = 16;
const TOGETHER_ELEMENTS: usize = 8192;

/// Lengths whose tables are kept.
const KEPT: usize = 64;

/// The tables made so far.
pub struct Plans<T: FftNum> {
    whole: FftPlanner<T>,
    half: RealFftPlanner<T>,
    lengths: HashSet<usize>,
}

impl<T: FftNum> Plans<T> {
    fn new() -> Self {
        Plans {
            whole: FftPlanner::new(),
            half: RealFftPlanner::new(),
            lengths: HashSet::new(),
        }
    }

    /// Makes room for one more length: a planner forgets nothing by itself.
    fn note(&mut self, n: usize) -> &mut Self {
        if !self.lengths.contains(&n) && self.lengths.len() == KEPT {
            *self = Plans::new();
        }
        self.lengths.insert(n);
        self
    }
}

/// `f32` and `f64`.
pub trait Line: FftNum + Default {
    fn plans() -> MutexGuard<'static, Plans<Self>>;
}

macro_rules! line {
    ($T:ty) => {
        impl Line for $T {
            fn plans() -> MutexGuard<'static, Plans<Self>> {
                static PLANS: LazyLock<Mutex<Plans<$T>>> =
                    LazyLock::new(|| Mutex::new(Plans::new()));
                // What a panic may have left behind is a table too few.
                PLANS.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    };
}

line!(f32);
line!(f64);

/// The transform of pairs, dense `[outer, n, inner, 2]`.
pub fn fft(x: &HostView<'_>, g: Lines, inverse: bool) -> Result<Bytes> {
    let direction = match inverse {
        true => FftDirection::Inverse,
        false => FftDirection::Forward,
    };
    let pairs = g.outer * g.to * g.inner;
    let mut out = Out::new(pairs * 2, x.dtype.itemsize());
    let to = out.shared();
    if pairs > 0 {
        with_real!("fft", x.dtype, T => {
            let plan: Arc<dyn Fft<T>> = T::plans().note(g.from).whole.plan_fft(g.from, direction);
            let scratch = plan.get_outofplace_scratch_len();
            // SAFETY: `x` is dense and so is the result.
            unsafe {
                each_line::<T, Complex<T>, Complex<T>>(x, to, g, scratch, &|from, to, scratch| {
                    plan.process_outofplace_with_scratch(from, to, scratch);
                    Ok(())
                })?
            };
        });
    }
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// Of real numbers, dense `[outer, n, inner]`, the pairs of frequencies 0 to `n / 2`.
pub fn rfft(x: &HostView<'_>, g: Lines) -> Result<Bytes> {
    let pairs = g.outer * g.to * g.inner;
    let mut out = Out::new(pairs * 2, x.dtype.itemsize());
    let to = out.shared();
    if pairs > 0 {
        with_real!("rfft", x.dtype, T => {
            let plan: Arc<dyn RealToComplex<T>> = T::plans().note(g.from).half.plan_fft_forward(g.from);
            let scratch = plan.get_scratch_len();
            // SAFETY: `x` is dense and so is the result.
            unsafe {
                each_line::<T, T, Complex<T>>(x, to, g, scratch, &|from, to, scratch| {
                    plan.process_with_scratch(from, to, scratch).map_err(sizes)
                })?
            };
        });
    }
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

/// Of the pairs of frequencies 0 to `n / 2`, dense `[outer, n / 2 + 1, inner, 2]`, the `n` real numbers.
pub fn irfft(x: &HostView<'_>, g: Lines) -> Result<Bytes> {
    let mut out = Out::new(g.outer * g.to * g.inner, x.dtype.itemsize());
    let to = out.shared();
    if g.outer * g.to * g.inner > 0 {
        with_real!("irfft", x.dtype, T => {
            let plan: Arc<dyn ComplexToReal<T>> = T::plans().note(g.to).half.plan_fft_inverse(g.to);
            let scratch = plan.get_scratch_len();
            // SAFETY: `x` is dense and so is the result.
            unsafe {
                each_line::<T, Complex<T>, T>(x, to, g, scratch, &|from, to, scratch| {
                    // Real numbers have no others here; what is given counts as 0.
                    from[0].im = T::default();
                    if to.len().is_multiple_of(2) {
                        from[to.len() / 2].im = T::default();
                    }
                    plan.process_with_scratch(from, to, scratch).map_err(sizes)
                })?
            };
        });
    }
    // SAFETY: every line has been written.
    Ok(unsafe { out.finish() })
}

fn sizes(e: realfft::FftError) -> Error {
    Error::runtime(e.to_string()).with_code("fft")
}

/// Makes a line of another one, with memory to work in.
type Work<'a, T, A, B> = dyn Fn(&mut [A], &mut [B], &mut [Complex<T>]) -> Result<()> + Sync + 'a;

/// Brings every line together, lets `work` turn it into another one, and puts that into its place.
///
/// # Safety
/// `x` is dense with `g.outer * g.from * g.inner` elements of `A`, and `dst` has room for as many lines of `B`.
unsafe fn each_line<T: Line, A: Copy + Default, B: Copy + Default>(
    x: &HostView<'_>,
    dst: Shared,
    g: Lines,
    scratch: usize,
    work: &Work<'_, T, A, B>,
) -> Result<()> {
    let src = Shared(x.ptr.cast_mut());
    let longest = g.from.max(g.to);
    let width = (TOGETHER_ELEMENTS / longest)
        .clamp(1, TOGETHER)
        .min(g.inner);
    let blocks = g.inner.div_ceil(width);
    let failed = Mutex::new(None);
    parallel(
        g.outer * blocks,
        rows_per_task(longest * width, FINE_GRAIN),
        &|range| {
            let mut before = vec![A::default(); width * g.from];
            let mut after = vec![B::default(); width * g.to];
            let mut scratch = vec![Complex::default(); scratch];
            for task in range {
                let (outer, block) = (task / blocks, task % blocks);
                let columns = block * width..((block + 1) * width).min(g.inner);
                let first = columns.start;
                for j in 0..g.from {
                    for c in columns.clone() {
                        // SAFETY: an element of a line of `x`.
                        before[(c - first) * g.from + j] =
                            unsafe { *src.at::<A>((outer * g.from + j) * g.inner + c) };
                    }
                }
                for c in 0..columns.len() {
                    let (from, to) = (c * g.from, c * g.to);
                    let done = work(
                        &mut before[from..from + g.from],
                        &mut after[to..to + g.to],
                        &mut scratch,
                    );
                    if let Err(e) = done {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                        return;
                    }
                }
                for j in 0..g.to {
                    for c in columns.clone() {
                        // SAFETY: an element of a line of the result, which belongs to this task.
                        unsafe {
                            *dst.at::<B>((outer * g.to + j) * g.inner + c) =
                                after[(c - first) * g.to + j];
                        }
                    }
                }
            }
        },
    );
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(e),
        None => Ok(()),
    }
}
