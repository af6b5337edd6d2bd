//! The patches that a convolution sees, as the rows of a matrix.

use burn_std::Bytes;

use super::{GRAIN, HostView, Out, parallel, rows_per_task};

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
/// `(image, output place)`.
pub fn im2col(
    x: &HostView<'_>,
    images: std::ops::Range<usize>,
    channels: std::ops::Range<usize>,
    p: &Patches,
) -> Bytes {
    let all_channels = x.shape[1];
    let taps: usize = p.kernel.iter().product();
    let places: usize = p.output.iter().product();
    let plane: usize = p.input.iter().product();
    let columns = images.len() * places;
    let rows = channels.len() * taps;
    let itemsize = x.dtype.itemsize();
    let mut out = Out::zeros(rows * columns, itemsize);
    let to = out.shared();
    let src = super::Shared(x.ptr.cast_mut());
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
                    let Some(z) = place(p, 0, d, tap[0]) else { continue };
                    for h in 0..p.output[1] {
                        let Some(y) = place(p, 1, h, tap[1]) else { continue };
                        if first >= last {
                            continue;
                        }
                        let line = from + (z * p.input[1] + y) * p.input[2];
                        let start = first * p.strides[2] + tap[2] * p.dilation[2] - p.low[2];
                        let into = into + (d * p.output[1] + h) * p.output[2] + first;
                        // SAFETY: within the input by `place` and `inside`; every row belongs to one task.
                        unsafe {
                            let (from, into) = (src.at::<T>(line + start), to.at::<T>(into));
                            if p.strides[2] == 1 {
                                std::ptr::copy_nonoverlapping(from, into, last - first);
                            } else {
                                for k in 0..last - first {
                                    *into.add(k) = *from.add(k * p.strides[2]);
                                }
                            }
                        }
                    }
                }
            }
        }
    }));
    // SAFETY: made of zeros.
    unsafe { out.finish() }
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
