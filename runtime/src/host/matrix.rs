//! Factorizations of stacked matrices, by nalgebra, and what is solved with them.
//!
//! Each matrix is one task of one thread, so that the number of threads changes nothing. Results are packed as
//! `dala_defn/ops/factors.py` says. A matrix that is not finite, or has no such factors, gives NaN; loops that converge
//! have a bound.

use std::cmp::Ordering;

use burn_std::Bytes;
use nalgebra::linalg::{LU, QR, SVD, Schur, SymmetricEigen};
use nalgebra::{Cholesky, Complex, ComplexField, DMatrix, RealField, one as unit, zero};

use super::{FINE_GRAIN, HostView, Out, bad_dtype, parallel, rows_per_task};
use crate::dtype::DType;
use crate::error::Result;

/// What is made of one matrix.
#[derive(Clone, Copy, Debug)]
pub enum Factor {
    Cholesky,
    Lu,
    Qr,
    Complement,
    Eigh { vectors: bool },
    Svd { vectors: bool },
    Eig { vectors: bool },
}

/// Which triangle is solved with, and how.
#[derive(Clone, Copy, Debug)]
pub struct Triangle {
    pub lower: bool,
    /// Solve with the transpose.
    pub transpose: bool,
    /// Take the diagonal as ones.
    pub unit: bool,
}

/// A number in a matrix.
trait Number: ComplexField<RealField = Self::Part> + Copy {
    type Part: RealField + Copy;
    const NAN: Self;
    const EPSILON: Self::Part;
}

macro_rules! number {
    ($($T:ty, $Part:ident, $nan:expr;)*) => {$(
        impl Number for $T {
            type Part = $Part;
            const NAN: Self = $nan;
            const EPSILON: $Part = $Part::EPSILON;
        }
    )*};
}

number! {
    f32, f32, f32::NAN;
    f64, f64, f64::NAN;
    Complex<f32>, f32, Complex::new(f32::NAN, f32::NAN);
    Complex<f64>, f64, Complex::new(f64::NAN, f64::NAN);
}

/// The most steps of a loop for each row and column.
const STEPS: usize = 200;

macro_rules! with_number {
    ($op:expr, $dtype:expr, $pairs:expr, $T:ident => $body:expr) => {
        match ($dtype, $pairs) {
            (DType::F32, false) => {
                type $T = f32;
                $body
            }
            (DType::F64, false) => {
                type $T = f64;
                $body
            }
            (DType::F32, true) => {
                type $T = Complex<f32>;
                $body
            }
            (DType::F64, true) => {
                type $T = Complex<f64>;
                $body
            }
            (other, _) => return Err(bad_dtype($op, other)),
        }
    };
}

/// Rows and columns of matrices whose axes are the last but those of pairs.
fn sizes(shape: &[usize], pairs: bool) -> (usize, usize) {
    let rank = shape.len() - usize::from(pairs);
    (shape[rank - 2], shape[rank - 1])
}

/// What is done with one matrix of each operand, and the place of the result.
type Work<'a, T, const N: usize> = &'a (dyn Fn([&[T]; N], &mut [T]) + Sync);

/// Calls `work` with each matrix of dense operands and its place in the result.
fn each<T: Number, const N: usize>(
    xs: [&HostView<'_>; N],
    sizes: [usize; N],
    out_size: usize,
    count: usize,
    work: Work<'_, T, N>,
) -> Bytes {
    let part = size_of::<T::Part>();
    let mut out = Out::new(count * out_size * (size_of::<T>() / part), part);
    let to = out.shared();
    let cost = sizes.iter().sum::<usize>().saturating_mul(8);
    parallel(count, rows_per_task(cost, FINE_GRAIN), &|range| {
        for at in range {
            let mut given: [&[T]; N] = [&[]; N];
            for i in 0..N {
                // SAFETY: the operands are dense and hold `count` matrices of these sizes; numbers of two parts are
                // laid out like two of one.
                given[i] = unsafe {
                    std::slice::from_raw_parts(xs[i].ptr.cast::<T>().add(at * sizes[i]), sizes[i])
                };
            }
            // SAFETY: the result has room for `count` of its matrices, and each is written by one task; the memory is
            // initialised before there is a reference to it.
            let place = unsafe {
                let start = to.at::<T>(at * out_size);
                for i in 0..out_size {
                    start.add(i).write(T::NAN);
                }
                std::slice::from_raw_parts_mut(start, out_size)
            };
            work(given, place);
        }
    });
    // SAFETY: every matrix has been written.
    unsafe { out.finish() }
}

/// A factorization of the matrices of dense `x`; `shape` is that of the result.
pub fn factor(op: Factor, x: &HostView<'_>, pairs: bool, shape: &[usize]) -> Result<Bytes> {
    let (m, n) = sizes(x.shape, pairs);
    let (rows, columns) = sizes(shape, pairs);
    let lead = shape.len() - 2 - usize::from(pairs);
    let count = shape[..lead].iter().product();
    with_number!("factor", x.dtype, pairs, T => {
        Ok(each::<T, 1>([x], [m * n], rows * columns, count, &|[x], out| {
            if !out.is_empty() {
                one::<T>(op, x, m, n, out);
            }
        }))
    })
}

fn one<T: Number>(op: Factor, x: &[T], m: usize, n: usize, out: &mut [T]) {
    let reads_lower = matches!(op, Factor::Cholesky | Factor::Eigh { .. });
    let finite = |i: usize| x[i].is_finite() || (reads_lower && i % n > i / n);
    if !(0..x.len()).all(finite) {
        return;
    }
    match op {
        Factor::Cholesky => cholesky(x, n, out),
        Factor::Lu => lu(x, m, n, out),
        Factor::Qr => qr(x, m, n, out),
        Factor::Complement => complement(x, m, n, out),
        Factor::Eigh { vectors } => eigh(x, n, vectors, out),
        Factor::Svd { vectors } => svd(x, m, n, vectors, out),
        Factor::Eig { vectors } => eig(x, n, vectors, out),
    }
}

/// Writes a matrix in row-major order.
fn put<T: Number>(out: &mut [T], x: &DMatrix<T>) {
    for (i, row) in x.row_iter().enumerate() {
        for (j, v) in row.iter().enumerate() {
            out[i * x.ncols() + j] = *v;
        }
    }
}

/// The Hermitian matrix whose lower triangle this is.
fn hermitian<T: Number>(x: &[T], n: usize) -> DMatrix<T> {
    DMatrix::from_fn(n, n, |i, j| match i.cmp(&j) {
        Ordering::Greater => x[i * n + j],
        Ordering::Equal => T::from_real(x[i * n + i].real()),
        Ordering::Less => x[j * n + i].conjugate(),
    })
}

fn cholesky<T: Number>(x: &[T], n: usize, out: &mut [T]) {
    let Some(found) = Cholesky::new(hermitian(x, n)) else {
        return;
    };
    let found = found.unpack();
    // A complex number has a root whatever its sign.
    let positive =
        |v: T| v.real() > zero::<T::Part>() && v.imaginary().abs() <= v.real() * T::EPSILON;
    if (0..n).all(|i| positive(found[(i, i)])) {
        put(out, &found);
    }
}

fn lu<T: Number>(x: &[T], m: usize, n: usize, out: &mut [T]) {
    let found = LU::new(DMatrix::from_row_slice(m, n, x));
    let mut order = DMatrix::from_fn(m, 1, |i, _| i);
    found.p().permute_rows(&mut order);
    let factors = found.lu_internal();
    for i in 0..m {
        for j in 0..n {
            out[i * (n + 1) + j] = factors[(i, j)];
        }
        out[i * (n + 1) + n] = nalgebra::convert(order[i] as f64);
    }
}

/// Dense solutions of `a` times them being `b`.
pub fn solve(a: &HostView<'_>, b: &HostView<'_>, pairs: bool) -> Result<Bytes> {
    let (n, k) = sizes(b.shape, pairs);
    let lead = b.shape.len() - 2 - usize::from(pairs);
    let count = b.shape[..lead].iter().product();
    with_number!("solve", a.dtype, pairs, T => {
        Ok(each::<T, 2>([a, b], [n * n, n * k], n * k, count, &|[a, b], out| {
            if out.is_empty() || !a.iter().all(|v| v.is_finite()) {
                return;
            }
            let found = LU::new(DMatrix::from_row_slice(n, n, a));
            let mut x = DMatrix::from_row_slice(n, k, b);
            let regular = (0..n).all(|i| found.lu_internal()[(i, i)] != zero::<T>());
            if regular && found.solve_mut(&mut x) {
                put(out, &x);
            }
        }))
    })
}

/// Dense solutions of a triangle of `a`, or its transpose, times them being `b`.
pub fn triangular_solve(
    kind: Triangle,
    a: &HostView<'_>,
    b: &HostView<'_>,
    pairs: bool,
) -> Result<Bytes> {
    let (n, k) = sizes(b.shape, pairs);
    let lead = b.shape.len() - 2 - usize::from(pairs);
    let count = b.shape[..lead].iter().product();
    with_number!("triangular_solve", a.dtype, pairs, T => {
        Ok(each::<T, 2>([a, b], [n * n, n * k], n * k, count, &|[a, b], out| {
            out.copy_from_slice(b);
            if !out.is_empty() {
                substitute::<T>(kind, a, n, k, out);
            }
        }))
    })
}

fn substitute<T: Number>(kind: Triangle, a: &[T], n: usize, k: usize, x: &mut [T]) {
    let down = kind.lower != kind.transpose;
    let at = |i: usize, j: usize| {
        if kind.transpose {
            a[j * n + i]
        } else {
            a[i * n + j]
        }
    };
    for step in 0..n {
        let i = if down { step } else { n - 1 - step };
        let (before, rest) = x.split_at_mut(i * k);
        let (row, after) = rest.split_at_mut(k);
        let (known, first) = if down {
            (&*before, 0)
        } else {
            (&*after, i + 1)
        };
        for (j, other) in known.chunks_exact(k).enumerate() {
            let factor = at(i, first + j);
            for (v, w) in row.iter_mut().zip(other) {
                *v -= factor * *w;
            }
        }
        if !kind.unit {
            let pivot = at(i, i);
            for v in row {
                *v /= pivot;
            }
        }
    }
}

fn qr<T: Number>(x: &[T], m: usize, n: usize, out: &mut [T]) {
    let (a, power) = scaled(DMatrix::from_row_slice(m, n, x));
    let found = QR::new(a);
    let (mut q, mut r) = (found.q(), found.r());
    let k = m.min(n);
    for i in 0..k {
        let size = r[(i, i)].modulus();
        if size > zero::<T::Part>() {
            let turn = r[(i, i)].unscale(size);
            q.column_mut(i).iter_mut().for_each(|v| *v *= turn);
            r.row_mut(i).iter_mut().for_each(|v| *v *= turn.conjugate());
        }
    }
    r.scale_mut(power);
    put(&mut out[..m * k], &q);
    put(&mut out[m * k..], &r.transpose());
}

/// Householder reflections that take the columns to axes take the other axes to what completes them.
fn complement<T: Number>(q: &[T], m: usize, k: usize, out: &mut [T]) {
    let mut work = DMatrix::from_row_slice(m, k, q);
    let mut reflections = Vec::with_capacity(k);
    for j in 0..k {
        let mut v = work.view((j, j), (m - j, 1)).into_owned();
        let first = v[0].modulus();
        let sign = if first > zero::<T::Part>() {
            v[0].unscale(first)
        } else {
            unit::<T>()
        };
        let size = v.norm();
        v[0] += sign.scale(size);
        let size = v.norm();
        if size > zero::<T::Part>() {
            let v = v.unscale(size);
            reflect(&v, &mut work, j);
            reflections.push((j, v));
        }
    }
    let mut rest = DMatrix::from_fn(
        m,
        m - k,
        |i, j| if i == j + k { unit::<T>() } else { zero::<T>() },
    );
    for (j, v) in reflections.iter().rev() {
        reflect(v, &mut rest, *j);
    }
    put(out, &rest);
}

/// Reflects the rows from `from` on along a column of length 1.
fn reflect<T: Number>(v: &DMatrix<T>, x: &mut DMatrix<T>, from: usize) {
    let mut below = x.rows_mut(from, v.nrows());
    let along = v.adjoint() * &below;
    below -= v * along * nalgebra::convert::<f64, T>(2.0);
}

/// The larger of two numbers.
fn largest<P: PartialOrd>(a: P, b: P) -> P {
    if b > a { b } else { a }
}

/// The matrix divided by a power of 2 near its largest element, so that squares neither overflow nor vanish; and that.
fn scaled<T: Number>(mut x: DMatrix<T>) -> (DMatrix<T>, T::Part) {
    let parts = x.iter().flat_map(|v| [v.real().abs(), v.imaginary().abs()]);
    let most = parts.fold(zero::<T::Part>(), largest);
    let power = most.log2().floor().exp2();
    if most > zero::<T::Part>() && power.is_finite() && power > zero::<T::Part>() {
        x.unscale_mut(power);
        (x, power)
    } else {
        (x, unit::<T::Part>())
    }
}

/// The factor that makes the first element of a column that is at least half as large as the largest real and positive.
fn phase<'a, T: Number>(column: impl Iterator<Item = &'a T> + Clone) -> T {
    let largest = column
        .clone()
        .map(|v| v.modulus())
        .fold(zero::<T::Part>(), largest);
    let half: T::Part = nalgebra::convert(0.5);
    match column.into_iter().find(|v| v.modulus() >= largest * half) {
        Some(v) if largest > zero::<T::Part>() => v.conjugate().unscale(v.modulus()),
        _ => unit::<T>(),
    }
}

fn eigh<T: Number>(x: &[T], n: usize, vectors: bool, out: &mut [T]) {
    let (a, back) = scaled(hermitian(x, n));
    let Some(found) = SymmetricEigen::try_new(a, T::EPSILON, STEPS * n) else {
        return;
    };
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| {
        found.eigenvalues[i]
            .partial_cmp(&found.eigenvalues[j])
            .unwrap_or(Ordering::Equal)
    });
    for (j, &at) in order.iter().enumerate() {
        out[j] = T::from_real(found.eigenvalues[at] * back);
        if vectors {
            let column = found.eigenvectors.column(at);
            let turn = phase(column.iter());
            for (i, v) in column.iter().enumerate() {
                out[(i + 1) * n + j] = *v * turn;
            }
        }
    }
}

fn svd<T: Number>(x: &[T], m: usize, n: usize, vectors: bool, out: &mut [T]) {
    let k = m.min(n);
    let (a, back) = scaled(DMatrix::from_row_slice(m, n, x));
    let Some(found) = SVD::try_new(a, vectors, vectors, T::EPSILON, STEPS * k) else {
        return;
    };
    for (v, s) in out.iter_mut().zip(found.singular_values.iter()) {
        *v = T::from_real(*s * back);
    }
    if let (Some(u), Some(vh)) = (&found.u, &found.v_t) {
        for j in 0..k {
            let turn = phase(u.column(j).iter());
            for i in 0..m {
                out[(i + 1) * k + j] = u[(i, j)] * turn;
            }
            for i in 0..n {
                out[(m + 1 + i) * k + j] = vh[(j, i)].conjugate() * turn;
            }
        }
    }
}

/// Eigenvalues are on the diagonal of a triangle, whose eigenvectors are found by substitution. For complex numbers: a
/// matrix of real ones has no such triangle in general.
fn eig<T: Number>(x: &[T], n: usize, vectors: bool, out: &mut [T]) {
    let (a, back) = scaled(DMatrix::from_row_slice(n, n, x));
    let Some(found) = Schur::try_new(a, T::EPSILON, STEPS * n) else {
        return;
    };
    let (q, t) = found.unpack();
    let slant: T::Part = nalgebra::convert(0.618_033_988_749_894_9);
    let key = |i: usize| t[(i, i)].real() + slant * t[(i, i)].imaginary();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| key(i).partial_cmp(&key(j)).unwrap_or(Ordering::Equal));
    let tiny = T::EPSILON * t.iter().map(|v| v.modulus()).fold(zero(), largest);
    let mut y = vec![zero::<T>(); n];
    for (j, &at) in order.iter().enumerate() {
        let value = t[(at, at)];
        out[j] = value.scale(back);
        if !vectors {
            continue;
        }
        y[at] = unit();
        for i in (0..at).rev() {
            let sum = (i + 1..=at).fold(zero::<T>(), |sum, k| sum + t[(i, k)] * y[k]);
            let gap = value - t[(i, i)];
            // Equal eigenvalues: next to them, as LAPACK does.
            let near = gap.modulus() <= tiny;
            y[i] = sum / if near { T::from_real(tiny) } else { gap };
            // A large vector is made shorter before it overflows.
            let size = y[i].modulus();
            if size * T::EPSILON > unit() {
                y[i..=at].iter_mut().for_each(|v| *v = v.unscale(size));
            }
        }
        let column: Vec<T> = (0..n)
            .map(|i| (0..=at).fold(zero::<T>(), |sum, k| sum + q[(i, k)] * y[k]))
            .collect();
        let length = column
            .iter()
            .map(|v| v.modulus_squared())
            .fold(zero::<T::Part>(), |a, b| a + b)
            .sqrt();
        let turn = phase(column.iter()).unscale(length);
        for (i, v) in column.iter().enumerate() {
            out[(i + 1) * n + j] = *v * turn;
        }
    }
}
