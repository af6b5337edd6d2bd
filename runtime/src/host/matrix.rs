//! Factorizations of stacked matrices, by nalgebra, and what is solved with them.
//!
//! Each matrix is one task of one thread, so that the number of threads changes nothing. Results are packed as
//! `dala_defn/ops/factors.py` says. A matrix that is not finite, or has no such factors, gives NaN; loops that converge
//! have a bound.

use std::cmp::Ordering;

use burn_std::Bytes;
use nalgebra::linalg::{LU, Schur};
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
    /// A column whose square is smaller than this, beside one of length 1, has no direction that is worth anything.
    const NOTHING: Self::Part;
}

macro_rules! number {
    ($($T:ty, $Part:ident, $nan:expr;)*) => {$(
        impl Number for $T {
            type Part = $Part;
            const NAN: Self = $nan;
            const EPSILON: $Part = $Part::EPSILON;
            const NOTHING: $Part = $Part::MIN_POSITIVE / ($Part::EPSILON * $Part::EPSILON);
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
    let (mut work, power) = scaled(DMatrix::from_row_slice(m, n, x));
    let reflections = householder(&mut work);
    let k = m.min(n);
    let mut r = work.rows(0, k).upper_triangle();
    let mut q = reflected(&reflections, DMatrix::identity(m, k));
    for i in 0..k {
        let turn = direction(r[(i, i)]);
        q.column_mut(i).iter_mut().for_each(|v| *v *= turn);
        r.row_mut(i).iter_mut().for_each(|v| *v *= turn.conjugate());
    }
    r.scale_mut(power);
    put(&mut out[..m * k], &q);
    put(&mut out[m * k..], &r.transpose());
}

/// Reflections that take orthonormal columns to axes take the other axes to what completes them.
fn complement<T: Number>(q: &[T], m: usize, k: usize, out: &mut [T]) {
    let reflections = householder(&mut DMatrix::from_row_slice(m, k, q));
    let rest = DMatrix::from_fn(m, m - k, |i, j| if i == j + k { unit() } else { zero() });
    put(out, &reflected(&reflections, rest));
}

/// Makes an upper triangle by reflections along columns of length 1, which come with the row where each starts.
fn householder<T: Number>(work: &mut DMatrix<T>) -> Vec<(usize, DMatrix<T>)> {
    let (m, n) = work.shape();
    let mut reflections = Vec::with_capacity(m.min(n));
    for j in 0..m.min(n) {
        let (mut v, _) = scaled(work.view((j, j), (m - j, 1)).into_owned());
        // The sign that adds up: nothing cancels.
        let sign = direction(v[0]);
        let size = v.norm();
        v[0] += sign.scale(size);
        let size = v.norm();
        if size > zero::<T::Part>() {
            let v = v.unscale(size);
            reflect(&v, work, j, j);
            reflections.push((j, v));
        }
    }
    reflections
}

fn reflected<T: Number>(reflections: &[(usize, DMatrix<T>)], mut x: DMatrix<T>) -> DMatrix<T> {
    for (j, v) in reflections.iter().rev() {
        reflect(v, &mut x, *j, 0);
    }
    x
}

/// Reflects the rows and columns from these on along a column of length 1.
fn reflect<T: Number>(v: &DMatrix<T>, x: &mut DMatrix<T>, row: usize, column: usize) {
    let (rows, columns) = (v.nrows(), x.ncols() - column);
    let mut part = x.view_mut((row, column), (rows, columns));
    let along = v.adjoint() * &part;
    part -= v * along * nalgebra::convert::<f64, T>(2.0);
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
    let pivot = column.into_iter().find(|v| v.modulus() >= largest * half);
    pivot.map_or(unit(), |v| direction(v.conjugate()))
}

/// A number divided by its size; 1 for 0.
fn direction<T: Number>(v: T) -> T {
    let most = largest(v.real().abs(), v.imaginary().abs());
    if most > zero() {
        // In two steps: the size of a subnormal number has few digits.
        let near = v.unscale(most);
        near.unscale(near.modulus())
    } else {
        unit()
    }
}

/// By rotations that make the matrix diagonal (Jacobi). nalgebra's own loses digits for some sparse matrices.
fn eigh<T: Number>(x: &[T], n: usize, vectors: bool, out: &mut [T]) {
    let (mut a, back) = scaled(hermitian(x, n));
    let mut v = DMatrix::<T>::identity(if vectors { n } else { 0 }, n);
    if !diagonal(&mut a, &mut v) {
        return;
    }
    let values: Vec<T::Part> = (0..n).map(|i| a[(i, i)].real()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| values[i].partial_cmp(&values[j]).unwrap_or(Ordering::Equal));
    for (j, &at) in order.iter().enumerate() {
        out[j] = T::from_real(values[at] * back);
        if vectors {
            let column = v.column(at);
            let turn = phase(column.iter());
            for (i, v) in column.iter().enumerate() {
                out[(i + 1) * n + j] = *v * turn;
            }
        }
    }
}

/// Turns rows and columns of a Hermitian `a` two at a time until it is diagonal, the columns of `v` with them; false
/// when that does not end.
fn diagonal<T: Number>(a: &mut DMatrix<T>, v: &mut DMatrix<T>) -> bool {
    let n = a.ncols();
    let least = T::EPSILON * nalgebra::convert::<f64, T::Part>(0.01);
    for _ in 0..STEPS {
        let mut done = true;
        for p in 0..n {
            for q in p + 1..n {
                let (x, y, across) = (a[(p, p)].real(), a[(q, q)].real(), a[(p, q)]);
                let size = across.modulus();
                if size <= least {
                    continue;
                }
                done = false;
                let (c, s) = rotation::<T>(x, y, size);
                let turn = direction(across.conjugate());
                turn_columns(a, p, q, c, s, turn);
                turn_columns(v, p, q, c, s, turn);
                for i in 0..n {
                    a[(p, i)] = a[(i, p)].conjugate();
                    a[(q, i)] = a[(i, q)].conjugate();
                }
                let shift = s / c * size;
                a[(p, p)] = T::from_real(x - shift);
                a[(q, q)] = T::from_real(y + shift);
                (a[(p, q)], a[(q, p)]) = (zero(), zero());
            }
        }
        if done {
            return true;
        }
    }
    false
}

/// The cosine and the sine of the angle that makes the matrix of `x`, `size` and `y` diagonal.
fn rotation<T: Number>(x: T::Part, y: T::Part, size: T::Part) -> (T::Part, T::Part) {
    let one = unit::<T::Part>();
    let tau = (y - x) / (size + size);
    let root = if tau.abs() * T::EPSILON > one {
        tau.abs()
    } else {
        (one + tau * tau).sqrt()
    };
    let t = tau.signum() / (tau.abs() + root);
    let c = one / (one + t * t).sqrt();
    (c, c * t)
}

/// By rotations that make the columns orthogonal (Hestenes; Demmel and Veselic, "Jacobi's method is more accurate than
/// QR", 1992). nalgebra's own is wrong for some matrices without full rank.
fn svd<T: Number>(x: &[T], m: usize, n: usize, vectors: bool, out: &mut [T]) {
    let (a, back) = scaled(DMatrix::from_row_slice(m, n, x));
    let wide = m < n;
    let mut a = if wide { a.adjoint() } else { a };
    let (long, k) = (m.max(n), m.min(n));
    let mut v = DMatrix::<T>::identity(if vectors { k } else { 0 }, k);
    if !orthogonal(&mut a, &mut v) {
        return;
    }
    let lengths: Vec<T::Part> = a.column_iter().map(|c| c.norm()).collect();
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|&i, &j| {
        lengths[j]
            .partial_cmp(&lengths[i])
            .unwrap_or(Ordering::Equal)
    });
    for (v, &at) in out.iter_mut().zip(&order) {
        *v = T::from_real(lengths[at] * back);
    }
    if !vectors {
        return;
    }
    let rank = order
        .iter()
        .filter(|&&i| lengths[i] * lengths[i] >= T::NOTHING)
        .count();
    let mut u = DMatrix::from_fn(long, k, |i, j| {
        let length = lengths[order[j]];
        if j < rank {
            a[(i, order[j])].unscale(length)
        } else {
            zero()
        }
    });
    if rank < k {
        let found = u.columns(0, rank).transpose();
        let mut rest = vec![zero::<T>(); long * (long - rank)];
        // Of a transpose, the columns are the rows.
        complement(found.as_slice(), long, rank, &mut rest);
        for j in rank..k {
            for i in 0..long {
                u[(i, j)] = rest[i * (long - rank) + j - rank];
            }
        }
    }
    let v = DMatrix::from_fn(k, k, |i, j| v[(i, order[j])]);
    let (left, right) = if wide { (&v, &u) } else { (&u, &v) };
    for j in 0..k {
        let turn = phase(left.column(j).iter());
        for i in 0..m {
            out[(i + 1) * k + j] = left[(i, j)] * turn;
        }
        for i in 0..n {
            out[(m + 1 + i) * k + j] = right[(i, j)] * turn;
        }
    }
}

/// Turns the columns of `a` two at a time until all are orthogonal, those of `v` with them; false when that does not end.
fn orthogonal<T: Number>(a: &mut DMatrix<T>, v: &mut DMatrix<T>) -> bool {
    let n = a.ncols();
    for _ in 0..STEPS {
        let mut done = true;
        for p in 0..n {
            for q in p + 1..n {
                let (left, right) = (a.column(p), a.column(q));
                let (x, y) = (left.norm_squared(), right.norm_squared());
                let along = left.dotc(&right);
                let size = along.modulus();
                if size <= T::EPSILON * x.sqrt() * y.sqrt() || x < T::NOTHING || y < T::NOTHING {
                    continue;
                }
                done = false;
                let (c, s) = rotation::<T>(x, y, size);
                let turn = direction(along.conjugate());
                turn_columns(a, p, q, c, s, turn);
                turn_columns(v, p, q, c, s, turn);
            }
        }
        if done {
            return true;
        }
    }
    false
}

fn turn_columns<T: Number>(
    a: &mut DMatrix<T>,
    p: usize,
    q: usize,
    c: T::Part,
    s: T::Part,
    turn: T,
) {
    let rows = a.nrows();
    let (left, right) = a.as_mut_slice().split_at_mut(q * rows);
    for (x, y) in left[p * rows..(p + 1) * rows]
        .iter_mut()
        .zip(&mut right[..rows])
    {
        let (one, other) = (*x, *y * turn);
        *x = one.scale(c) - other.scale(s);
        *y = one.scale(s) + other.scale(c);
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
    let size = t.iter().map(|v| v.modulus()).fold(zero(), largest);
    let tiny = T::EPSILON * if size > zero() { size } else { unit() };
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
