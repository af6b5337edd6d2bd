//! Convolution and its two gradients: kernels of our own on host memory, Burn's elsewhere.

use burn_backend::TensorMetadata;
use burn_backend::ops::ConvOptions;
use burn_backend::tensor::FloatTensor;
use burn_std::{Bytes, Shape, Slice};

use super::contraction::wide;
use super::elementwise::convert;
use super::{Call, movement};
use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::HostView;
use crate::host::conv::{self, Conv};
use crate::value::Val;

/// The attributes shared by the three ops.
pub(super) struct Geometry {
    strides: Vec<usize>,
    low: Vec<usize>,
    high: Vec<usize>,
    dilation: Vec<usize>,
    groups: usize,
}

impl Geometry {
    pub(super) fn new(
        strides: &[i64],
        low: &[i64],
        high: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Self {
        let sizes = |list: &[i64]| list.iter().map(|&n| n as usize).collect();
        Geometry {
            strides: sizes(strides),
            low: sizes(low),
            high: sizes(high),
            dilation: sizes(dilation),
            groups: groups as usize,
        }
    }

    /// Burn's form of it, for `N` spatial axes.
    fn options<const N: usize>(&self) -> ConvOptions<N> {
        let mut options = ConvOptions::new([1; N], [0; N], [1; N], self.groups);
        for k in 0..N {
            options.stride[k] = self.strides[k];
            options.padding[k] = (self.low[k], self.high[k]);
            options.dilation[k] = self.dilation[k];
        }
        options
    }

    /// The same without padding.
    fn unpadded<const N: usize>(&self) -> ConvOptions<N> {
        let mut options = self.options();
        options.padding = [(0, 0); N];
        options
    }

    /// For the kernels on host memory: shapes of the input, the kernel and the output.
    fn host(&self, shapes: [&[usize]; 3]) -> Conv {
        Conv::new(
            shapes,
            &self.strides,
            &self.low,
            &self.dilation,
            self.groups,
        )
    }
}

impl<B: ExecBackend> Call<'_, B> {
    pub(super) fn conv(mut self, g: Geometry) -> Result<Val<B>> {
        let [x, w] = self.take()?;
        if self.nothing_to_add() {
            return self.zeros();
        }
        if B::HOST {
            let c = g.host([&self.types[0].shape, &self.types[1].shape, &self.out.shape]);
            return self.on_host([x, w], |x, w| conv::forward(x, w, &c));
        }
        let (x, w) = (self.widened(x)?, self.widened(w)?);
        let (x, g) = self.evenly_padded(x, g);
        self.narrowed(match g.strides.len() {
            1 => B::conv1d(x, w, None, g.options()),
            2 => B::conv2d(x, w, None, g.options()),
            3 => B::conv3d(x, w, None, g.options()),
            rank => return Err(bad_rank(rank)),
        })
    }

    pub(super) fn conv_input_grad(mut self, g: Geometry) -> Result<Val<B>> {
        let [ct, w] = self.take()?;
        if self.nothing_to_add() {
            return self.zeros();
        }
        if B::HOST {
            let c = g.host([&self.out.shape, &self.types[1].shape, &self.types[0].shape]);
            return self.on_host([ct, w], |ct, w| conv::input_grad(ct, w, &c));
        }
        let (ct, w) = (self.widened(ct)?, self.widened(w)?);
        // Burn pads alike on both sides; otherwise this is the gradient of the padded input, without its padding.
        let rank = g.strides.len();
        let even = g.low == g.high;
        let mut shape = self.out.shape.clone();
        if !even {
            for k in 0..rank {
                shape[2 + k] += g.low[k] + g.high[k];
            }
        }
        let dtype = wide(self.out.dtype).to_burn();
        let one = B::float_zeros(Shape::from(vec![1; rank + 2]), self.device, dtype.into());
        let like = B::float_expand(one, Shape::from(shape));
        let grad = x_backward::<B>(like, w, ct, &g, even)?;
        if even {
            return self.narrowed(grad);
        }
        let mut slices = vec![
            Slice {
                start: 0,
                end: None,
                step: 1
            };
            2
        ];
        slices.extend((0..rank).map(|k| Slice {
            start: g.low[k] as isize,
            end: Some((g.low[k] + self.out.shape[2 + k]) as isize),
            step: 1,
        }));
        match movement::slice::<B>(Val::Float(grad), &slices) {
            Val::Float(grad) => self.narrowed(grad),
            Val::Int(_) | Val::Bool(_) => Err(no_host::<B>(self.name)),
        }
    }

    pub(super) fn conv_weight_grad(mut self, g: Geometry) -> Result<Val<B>> {
        let [x, ct] = self.take()?;
        if self.nothing_to_add() {
            return self.zeros();
        }
        if B::HOST {
            let c = g.host([&self.types[0].shape, &self.out.shape, &self.types[1].shape]);
            return self.on_host([x, ct], |x, ct| conv::weight_grad(x, ct, &c));
        }
        let (x, ct) = (self.widened(x)?, self.widened(ct)?);
        let (x, g) = self.evenly_padded(x, g);
        let dtype = wide(self.out.dtype).to_burn();
        let w = B::float_zeros(
            Shape::from(self.out.shape.clone()),
            self.device,
            dtype.into(),
        );
        self.narrowed(match g.strides.len() {
            1 => B::conv1d_weight_backward(x, w, ct, g.options()),
            2 => B::conv2d_weight_backward(x, w, ct, g.options()),
            3 => B::conv3d_weight_backward(x, w, ct, g.options()),
            rank => return Err(bad_rank(rank)),
        })
    }

    /// Burn's backward pass of a convolution over three axes takes padding to be alike on both sides: where it is not,
    /// and may be asked for, it becomes part of the operand.
    fn evenly_padded(&self, mut x: FloatTensor<B>, mut g: Geometry) -> (FloatTensor<B>, Geometry) {
        if !B::RECORDS || g.low == g.high {
            return (x, g);
        }
        for k in 0..g.strides.len() {
            let beside = |size: usize, x: &FloatTensor<B>| {
                let mut shape = x.shape().to_vec();
                shape[2 + k] = size;
                B::float_zeros(Shape::from(shape), self.device, x.dtype().into())
            };
            let (low, high) = (g.low[k], g.high[k]);
            let mut parts = Vec::new();
            if low > 0 {
                parts.push(beside(low, &x));
            }
            let after = (high > 0).then(|| beside(high, &x));
            parts.push(x);
            parts.extend(after);
            x = B::float_cat(parts, 2 + k);
            (g.low[k], g.high[k]) = (0, 0);
        }
        (x, g)
    }

    /// Runs a kernel on host memory.
    fn on_host(
        &self,
        [x, y]: [Val<B>; 2],
        kernel: impl FnOnce(&HostView<'_>, &HostView<'_>) -> Result<Bytes>,
    ) -> Result<Val<B>> {
        let (x, y) = (B::dense(x), B::dense(y));
        let [x, y] = B::views(self.name, [&x, &y])?;
        self.upload(kernel(&x, &y)?)
    }

    /// True when an operand or the result is empty: every sum is then over nothing.
    fn nothing_to_add(&self) -> bool {
        self.types.iter().any(|ty| ty.elements() == 0) || self.out.elements() == 0
    }

    fn widened(&self, x: Val<B>) -> Result<FloatTensor<B>> {
        let dtype = self.out.dtype;
        match convert::<B>(x, dtype, wide(dtype), self.device)? {
            Val::Float(x) => Ok(x),
            Val::Int(_) | Val::Bool(_) => Err(crate::host::bad_dtype(self.name, dtype)),
        }
    }

    fn narrowed(&self, x: FloatTensor<B>) -> Result<Val<B>> {
        let dtype: DType = self.out.dtype;
        convert::<B>(Val::Float(x), wide(dtype), dtype, self.device)
    }
}

/// Burn's gradient for the input, which looks at the sizes of `like` only.
fn x_backward<B: ExecBackend>(
    like: FloatTensor<B>,
    w: FloatTensor<B>,
    ct: FloatTensor<B>,
    g: &Geometry,
    padded: bool,
) -> Result<FloatTensor<B>> {
    Ok(match g.strides.len() {
        1 if padded => B::conv1d_x_backward(like, w, ct, g.options()),
        2 if padded => B::conv2d_x_backward(like, w, ct, g.options()),
        3 if padded => B::conv3d_x_backward(like, w, ct, g.options()),
        1 => B::conv1d_x_backward(like, w, ct, g.unpadded()),
        2 => B::conv2d_x_backward(like, w, ct, g.unpadded()),
        3 => B::conv3d_x_backward(like, w, ct, g.unpadded()),
        rank => return Err(bad_rank(rank)),
    })
}

fn bad_rank(rank: usize) -> Error {
    Error::unsupported(format!("a convolution over {rank} spatial axes")).with_code("conv-rank")
}
