//! The patches that a convolution sees, as the rows of a matrix.

use super::{GRAIN, HostView, Shared, parallel, rows_per_task};

/// A convolution with up to three spatial axes, padded to three at the left.
#[derive(Clone, Copy, Debug)]
pub struct Patches {
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub output: [usize; 3],
    pub strides: [usize; 3],
    pub low: [usize; 3],
    pub dilation: [usize; 3],
}

/// Of dense `x[images, channels, *input]`, the images and channels of the ranges: row `(channel, kernel place)`, column
/// `(image, output place)`. The matrix is written to `out`.
///
/// # Safety
/// `out` has room for the matrix in the dtype of `x`, and nobody else uses it.
pub unsafe fn im2col(
    x: &HostView<'_>,
    images: std::ops::Range<usize>,
    channels: std::ops::Range<usize>,
    p: &Patches,
    out: *mut u8,
) {
    let all_channels = x.shape[1];
    let taps: usize = p.kernel.iter().product();
    let places: usize = p.output.iter().product();
    let plane: usize = p.input.iter().product();
    let columns = images.len() * places;
    let rows = channels.len() * taps;
    let itemsize = x.dtype.itemsize();
    let to = Shared(out);
    let src = Shared(x.ptr.cast_mut());
    with_bits!(itemsize, T => parallel(rows, rows_per_task(columns, GRAIN), &|range| {
        for row in range {
            let (channel, tap) = (channels.start + row / taps, row % taps);
            let tap = [
                tap / (p.kernel[1] * p.kernel[2]),
                tap / p.kernel[2] % p.kernel[1],
                tap % p.kernel[2],
            ];
            // The output places along the last axis whose tap is inside the input.
            let (first, last) = inside(p, 2, tap[2]);
            for (i, image) in images.clone().enumerate() {
                let from = (image * all_channels + channel) * plane;
                let into = row * columns + i * places;
                for d in 0..p.output[0] {
                    let z = place(p, 0, d, tap[0]);
                    for h in 0..p.output[1] {
                        let into = into + (d * p.output[1] + h) * p.output[2];
                        // SAFETY: every row belongs to one task.
                        let row = unsafe {
                            std::slice::from_raw_parts_mut(to.at::<T>(into), p.output[2])
                        };
                        let (Some(z), Some(y), true) = (z, place(p, 1, h, tap[1]), first < last)
                        else {
                            row.fill(0 as T);
                            continue;
                        };
                        row[..first].fill(0 as T);
                        row[last..].fill(0 as T);
                        let line = from + (z * p.input[1] + y) * p.input[2];
                        let start = first * p.strides[2] + tap[2] * p.dilation[2] - p.low[2];
                        for (k, value) in row[first..last].iter_mut().enumerate() {
                            // SAFETY: within the input by `place` and `inside`.
                            *value = unsafe { *src.at::<T>(line + start + k * p.strides[2]) };
                        }
                    }
                }
            }
        }
    }));
}

/// The input place of an output place and a tap; none in the padding.
fn place(p: &Patches, axis: usize, output: usize, tap: usize) -> Option<usize> {
    (output * p.strides[axis] + tap * p.dilation[axis])
        .checked_sub(p.low[axis])
        .filter(|&i| i < p.input[axis])
}

/// The range of output places whose input place is not in the padding.
fn inside(p: &Patches, axis: usize, tap: usize) -> (usize, usize) {
    let (stride, shift) = (p.strides[axis], tap * p.dilation[axis]);
    let first = p.low[axis].saturating_sub(shift).div_ceil(stride);
    let end = (p.input[axis] + p.low[axis]).saturating_sub(shift);
    (first, end.div_ceil(stride).min(p.output[axis]))
}
