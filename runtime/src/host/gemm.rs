//! Matrix products of floats, by the `gemm` crate, straight into the result.

use burn_std::Bytes;
use gemm::Parallelism;

use super::{HostView, Out, Shared, bad_dtype, parallel};
use crate::dtype::DType;
use crate::error::Result;

/// Multiplications from which on a product is split over threads.
const SPLIT: usize = 1 << 20;

/// `x[.., m, k]` times `y[.., k, n]` with the same leading axes, of any strides, in `f32` or `f64`; dense. How the work is
/// split depends on sizes only.
pub fn matmul(x: &HostView<'_>, y: &HostView<'_>) -> Result<Bytes> {
    match x.dtype {
        DType::F32 => Ok(product(x, y, 1f32)),
        DType::F64 => Ok(product(x, y, 1f64)),
        other => Err(bad_dtype("dot_general", other)),
    }
}

fn product<T: Copy + Default + Send + Sync + 'static>(
    x: &HostView<'_>,
    y: &HostView<'_>,
    one: T,
) -> Bytes {
    let lead = x.shape.len() - 2;
    let (m, k, n) = (x.shape[lead], x.shape[lead + 1], y.shape[lead + 1]);
    let batches: usize = x.shape[..lead].iter().product();
    let mut out = Out::new(batches * m * n, size_of::<T>());
    let (a, b, to) = (
        Shared(x.ptr.cast_mut()),
        Shared(y.ptr.cast_mut()),
        out.shared(),
    );
    let run = |batch: usize, threads: Parallelism| {
        let (mut at_x, mut at_y, mut rest) = (0isize, 0isize, batch);
        for axis in (0..lead).rev() {
            let i = (rest % x.shape[axis]) as isize;
            rest /= x.shape[axis];
            at_x += i * x.strides[axis];
            at_y += i * y.strides[axis];
        }
        // SAFETY: the matrices of this batch, of which the result's belongs to this call alone; all of it is written.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                to.at::<T>(batch * m * n),
                1,
                n as isize,
                false,
                a.at::<T>(0).offset(at_x).cast_const(),
                x.strides[lead + 1],
                x.strides[lead],
                b.at::<T>(0).offset(at_y).cast_const(),
                y.strides[lead + 1],
                y.strides[lead],
                T::default(),
                one,
                false,
                false,
                false,
                threads,
            );
        }
    };
    let each = m.saturating_mul(n).saturating_mul(k);
    let spread = is_spread(batches, each);
    let grain = if spread { 1 } else { batches };
    let threads = if !spread && each >= SPLIT {
        Parallelism::Rayon(0)
    } else {
        Parallelism::None
    };
    parallel(batches, grain, &|range| {
        for batch in range {
            run(batch, threads);
        }
    });
    // SAFETY: every matrix has been written.
    unsafe { out.finish() }
}

/// Whether matrices go to different threads, rather than parts of one.
fn is_spread(batches: usize, each: usize) -> bool {
    let all = each.saturating_mul(batches);
    batches > 1 && all >= SPLIT && (batches >= 4 || each < SPLIT)
}

/// Bytes that `gemm` takes to reorder operands of these shapes and strides, by the rules that it has on x86: the result is
/// row-major, so that it takes the product for that of the transposes.
pub fn scratch(x: (&[usize], &[isize]), y: (&[usize], &[isize]), item: usize) -> usize {
    let lead = x.0.len() - 2;
    let (m, k, n) = (x.0[lead], x.0[lead + 1], y.0[lead + 1]);
    if m <= 1 || n <= 1 || k <= 2 {
        return 0;
    }
    let (lanes, rows) = lanes(item);
    let depth = k.div_ceil(k.div_ceil(512));
    let (along_x, along_y) = (x.1[lead + 1].unsigned_abs(), y.1[lead + 1]);
    let few = if along_x == 1 { 128 * rows } else { 2 * rows };
    let mut columns = 0;
    if n > few {
        columns += m.next_multiple_of(6);
    }
    if n <= 16 * rows && (n % lanes != 0 || along_y != 1) {
        columns += n.next_multiple_of(rows);
    }
    let batches: usize = x.0[..lead].iter().product();
    let each = m.saturating_mul(n).saturating_mul(k);
    let at_once = if is_spread(batches, each) {
        batches.min(rayon::current_num_threads())
    } else {
        1
    };
    columns * depth * item * at_once
}

/// How many numbers a register holds, and how many rows a tile of the product has.
fn lanes(item: usize) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return (64 / item, 4 * 64 / item);
    }
    (32 / item, 2 * 32 / item)
}
