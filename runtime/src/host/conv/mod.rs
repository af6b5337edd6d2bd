//! Convolution and its two gradients as matrix products whose second factor is never made as a whole.
//!
//! The operand that is walked over is read through a [`copy`] in which padding is zeros and strides are 1 (or as it is,
//! where it is like that already). Small panels of patches are taken from it into the cache, and [`tile`] multiplies
//! them. Every result is a sum in an order that depends on sizes only.

mod axis;
mod copy;
mod depthwise;
mod product;
mod tile;
mod weights;

use burn_std::Bytes;

use super::HostView;
use super::cast::pair;
use super::stage::home;
use crate::error::Result;
use axis::Axis;

/// A convolution over up to three axes, padded to three at the left.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    pub images: usize,
    pub groups: usize,
    /// Of each group.
    pub channels: usize,
    /// Of each group.
    pub filters: usize,
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub output: [usize; 3],
    pub strides: [usize; 3],
    pub low: [usize; 3],
    pub dilation: [usize; 3],
}

impl Conv {
    /// Of verified shapes: the input's, the kernel's and the output's, none of them empty.
    pub fn new(
        [x, w, y]: [&[usize]; 3],
        strides: &[usize],
        low: &[usize],
        dilation: &[usize],
        groups: usize,
    ) -> Conv {
        let three = |list: &[usize], fill: usize| {
            let mut all = [fill; 3];
            all[3 - list.len()..].copy_from_slice(list);
            all
        };
        Conv {
            images: x[0],
            groups,
            channels: w[1],
            filters: w[0] / groups,
            input: three(&x[2..], 1),
            kernel: three(&w[2..], 1),
            output: three(&y[2..], 1),
            strides: three(strides, 1),
            low: three(low, 0),
            dilation: three(dilation, 1),
        }
    }

    /// One where each axis is walked over as it is; then they are as good as one.
    fn merged(&self) -> Conv {
        let plain = (0..3).all(|k| {
            self.kernel[k] == 1
                && self.strides[k] == 1
                && self.low[k] == 0
                && self.input[k] == self.output[k]
        });
        let one = |n: [usize; 3]| [1, 1, n.iter().product()];
        if plain {
            Conv {
                input: one(self.input),
                output: one(self.output),
                ..*self
            }
        } else {
            *self
        }
    }

    fn places(&self) -> usize {
        self.output.iter().product()
    }

    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// How `conv` and its gradient in the kernel walk over `x`.
    fn over_input(&self) -> [Axis; 3] {
        [0, 1, 2].map(|k| Axis::forward(self, k))
    }

    /// How its gradient in the input walks over the cotangent.
    fn over_output(&self) -> [Axis; 3] {
        [0, 1, 2].map(|k| Axis::backward(self, k))
    }

    /// At least the bytes of what is held besides operands and result, for elements of `itemsize` bytes.
    pub fn scratch(&self, which: Which, itemsize: usize) -> usize {
        let c = self.merged();
        type Bound = fn(&Conv, usize) -> Option<usize>;
        let (bound, planes, sizes): (Bound, usize, _) = match which {
            Which::InputGrad => (Axis::backward_bound, c.groups * c.filters, c.output),
            _ => (Axis::forward_bound, c.groups * c.channels, c.input),
        };
        let bounds = [0, 1, 2].map(|k| bound(&c, k));
        let copied = if bounds.iter().all(Option::is_none) {
            0
        } else {
            let each = [0, 1, 2].map(|k| bounds[k].unwrap_or(sizes[k]));
            each.into_iter()
                .fold(c.images.saturating_mul(planes), usize::saturating_mul)
        };
        let weights = match which {
            Which::Forward => product::packed_elements(c.groups, c.filters, c.channels * c.taps()),
            Which::InputGrad => {
                product::packed_elements(c.groups, c.channels, c.filters * c.taps())
            }
            Which::WeightGrad => weights::partial_elements(&c),
        };
        copied.saturating_add(weights).saturating_mul(itemsize)
    }
}

/// Which of the three ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Forward,
    InputGrad,
    WeightGrad,
}

/// The convolution of dense `x[images, channels, *input]` with dense `w[filters, channels, *kernel]`.
pub fn forward(x: &HostView<'_>, w: &HostView<'_>, c: &Conv) -> Result<Bytes> {
    let c = c.merged();
    pair(x, w, home(x.dtype), &|x, w| {
        Ok(
            with_real!("conv", x.dtype, T => product::forward::<T>(x.dense_elements(), w.dense_elements(), &c)),
        )
    })
}

/// Its adjoint in `x`, of dense `ct[images, filters, *output]`.
pub fn input_grad(ct: &HostView<'_>, w: &HostView<'_>, c: &Conv) -> Result<Bytes> {
    let c = c.merged();
    pair(ct, w, home(ct.dtype), &|ct, w| {
        Ok(with_real!("conv_input_grad", ct.dtype, T => {
            product::input_grad::<T>(ct.dense_elements(), w.dense_elements(), &c)
        }))
    })
}

/// Its adjoint in `w`.
pub fn weight_grad(x: &HostView<'_>, ct: &HostView<'_>, c: &Conv) -> Result<Bytes> {
    let c = c.merged();
    pair(x, ct, home(x.dtype), &|x, ct| {
        Ok(with_real!("conv_weight_grad", x.dtype, T => {
            weights::weight_grad::<T>(x.dense_elements(), ct.dense_elements(), &c)
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_copies_are_no_less_than_the_copies() {
        let mut tried = 0;
        for number in 0..200_000usize {
            let digit = |k: u32, base: usize| number / 7usize.pow(k) % 7 % base;
            let (size, kernel) = (1 + digit(0, 7), 1 + digit(1, 4));
            let (stride, dilation) = (1 + digit(2, 4), 1 + digit(3, 3));
            let (low, high) = (digit(4, 7), digit(5, 7));
            let Some(room) = (size + low + high).checked_sub(dilation * (kernel - 1) + 1) else {
                continue;
            };
            let out = room / stride + 1;
            let shapes: [&[usize]; 3] = [&[1, 1, size], &[1, 1, kernel], &[1, 1, out]];
            let c = Conv::new(shapes, &[stride], &[low], &[dilation], 1);
            for (axis, bound, operand) in [
                (Axis::forward(&c, 2), Axis::forward_bound(&c, 2), size),
                (Axis::backward(&c, 2), Axis::backward_bound(&c, 2), out),
            ] {
                assert!(axis.extent() <= bound.unwrap_or(operand), "{c:?}");
                assert!(bound.is_some() || axis.as_is(), "{c:?}");
            }
            tried += 1;
        }
        assert!(tried > 10_000);
    }
}
