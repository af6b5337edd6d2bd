//! Elementwise ops: broadcasting, in place where an operand is free to be written.

use burn_backend::TensorMetadata;
use burn_backend::tensor::{BoolTensor, Device, FloatTensor};
use burn_std::{BoolStore, Bytes, Shape};

use super::Call;
use crate::backend::{ExecBackend, item, no_host, shape_of};
use crate::dtype::DType;
use crate::error::Result;
use crate::host::row::Kernel;
use crate::host::{HostView, Out, binary, cast, nest, select, unary};
use crate::op::{Binary, Unary};
use crate::value::{Ty, Val};

/// Burn's primitive for floats, for backends without host memory.
type Float1<B> = fn(FloatTensor<B>) -> FloatTensor<B>;
/// The same with two operands.
type Float2<B> = fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>;

/// What runs the op on floats without host memory; none where Burn has nothing of the same meaning.
fn burn1<B: ExecBackend>(op: Unary) -> Option<Float1<B>> {
    Some(match op {
        Unary::Neg => B::float_neg,
        Unary::Abs => B::float_abs,
        Unary::Sign => B::float_sign,
        Unary::Floor => B::float_floor,
        Unary::Ceil => B::float_ceil,
        Unary::Trunc => B::float_trunc,
        Unary::Round => B::float_round,
        Unary::Exp => B::float_exp,
        // Near 0 a difference would lose what it is for.
        Unary::Expm1 => |x| {
            let half = B::float_mul_scalar(x.clone(), 0.5.into());
            let more = B::float_add_scalar(B::float_exp(x), 1.0.into());
            B::float_mul(B::float_tanh(half), more)
        },
        Unary::Log => B::float_log,
        Unary::Log1p => B::float_log1p,
        Unary::Sqrt => B::float_sqrt,
        Unary::Rsqrt => |x| B::float_recip(B::float_sqrt(x)),
        Unary::Sin => B::float_sin,
        Unary::Cos => B::float_cos,
        Unary::Tan => B::float_tan,
        Unary::Arcsin => B::float_asin,
        Unary::Arccos => B::float_acos,
        Unary::Arctan => B::float_atan,
        Unary::Sinh => B::float_sinh,
        Unary::Cosh => B::float_cosh,
        Unary::Tanh => B::float_tanh,
        Unary::Arcsinh => B::float_asinh,
        Unary::Arccosh => B::float_acosh,
        Unary::Arctanh => B::float_atanh,
        Unary::Erf => B::float_erf,
        Unary::Sigmoid => B::sigmoid,
        Unary::Isfinite | Unary::Isnan | Unary::BitwiseNot | Unary::Popcount | Unary::Clz => {
            return None;
        }
    })
}

/// As [`burn1`].
fn burn2<B: ExecBackend>(op: Binary) -> Option<Float2<B>> {
    Some(match op {
        Binary::Add => B::float_add,
        Binary::Sub => B::float_sub,
        Binary::Mul => B::float_mul,
        Binary::Div => B::float_div,
        Binary::Power => B::float_powf,
        Binary::Arctan2 => B::float_atan2,
        Binary::Remainder => B::float_remainder,
        Binary::Maximum => |x, y| extreme::<B>(x, y, B::float_greater),
        Binary::Minimum => |x, y| extreme::<B>(x, y, B::float_lower),
        Binary::MulStrongZero => strong_zero::<B>,
        Binary::FloorDivide
        | Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessEqual
        | Binary::Greater
        | Binary::GreaterEqual
        | Binary::BitwiseAnd
        | Binary::BitwiseOr
        | Binary::BitwiseXor
        | Binary::LeftShift
        | Binary::RightShift => return None,
    })
}

/// The larger or smaller of each two, by how they compare; halves of both where they are equal, and NaN wins.
fn extreme<B: ExecBackend>(
    x: FloatTensor<B>,
    y: FloatTensor<B>,
    wins: fn(FloatTensor<B>, FloatTensor<B>, BoolStore) -> BoolTensor<B>,
) -> FloatTensor<B> {
    let store = B::BOOL;
    let x_wins = wins(x.clone(), y.clone(), store);
    let equal = B::float_equal(x.clone(), y.clone(), store);
    let nan = B::float_is_nan(x.clone(), store);
    let half = B::float_mul_scalar(B::float_add(x.clone(), y.clone()), 0.5.into());
    let best = B::float_mask_where(y, B::bool_or(x_wins, nan), x);
    B::float_mask_where(best, equal, half)
}

/// `x * y`, and 0 where `x` is 0 whatever `y` is.
fn strong_zero<B: ExecBackend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    let y = tamed::<B>(&x, y);
    B::float_mul(x, y)
}

/// `y`, but 0 where `x` is 0 and `y` infinite or NaN.
pub(super) fn tamed<B: ExecBackend>(x: &FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    let store = B::BOOL;
    let zero = B::float_equal_elem(x.clone(), 0.0.into(), store);
    let odd = B::float_is_nan(
        B::float_sub(y.clone(), y.clone()), // infinite or NaN
        store,
    );
    B::float_mask_fill(y, B::bool_and(zero, odd), 0.0.into())
}

/// The kernel of an elementwise op.
#[derive(Clone, Copy, Debug)]
pub enum Map {
    One(Kernel<1>),
    Two(Kernel<2>),
    Three(Kernel<3>),
}

impl<B: ExecBackend> Call<'_, B> {
    /// True when only the kernel was wanted.
    fn chosen(&self, map: impl FnOnce() -> Result<Map>) -> bool {
        if let Some(choice) = self.choice {
            choice.set(map().ok());
        }
        self.choice.is_some()
    }

    pub(super) fn identity(mut self) -> Result<Val<B>> {
        let [x] = self.take()?;
        Ok(x)
    }

    pub(super) fn unary(mut self, op: Unary) -> Result<Val<B>> {
        if self.chosen(|| Ok(Map::One(unary::kernel(op, self.types[0].dtype)?))) {
            return Err(no_host::<B>(self.name));
        }
        let [x] = self.take()?;
        if !B::HOST {
            return match (x, burn1::<B>(op)) {
                (Val::Float(x), Some(f)) => Ok(Val::Float(f(x))),
                _ => Err(no_host::<B>(self.name)),
            };
        }
        self.map(unary::kernel(op, self.types[0].dtype)?, [x])
    }

    pub(super) fn cast(mut self) -> Result<Val<B>> {
        let (from, to) = (self.types[0].dtype, self.out.dtype);
        if from != to && self.chosen(|| Ok(Map::One(cast::kernel(from, to)?))) {
            return Err(no_host::<B>(self.name));
        }
        let [x] = self.take()?;
        if from == to {
            return Ok(x);
        }
        if !B::HOST {
            return match x {
                Val::Float(x) if to.is_float() => {
                    Ok(Val::Float(B::float_cast(x, to.to_burn().into())))
                }
                _ => Err(no_host::<B>(self.name)),
            };
        }
        self.map(cast::kernel(from, to)?, [x])
    }

    pub(super) fn binary(mut self, op: Binary) -> Result<Val<B>> {
        if self.chosen(|| Ok(Map::Two(binary::kernel(op, self.types[0].dtype)?))) {
            return Err(no_host::<B>(self.name));
        }
        let [x, y] = self.take()?;
        if !B::HOST {
            return match (x, y, burn2::<B>(op)) {
                (Val::Float(x), Val::Float(y), Some(f)) => Ok(Val::Float(f(
                    stretched::<B>(x, &self.out.shape),
                    stretched::<B>(y, &self.out.shape),
                ))),
                _ => Err(no_host::<B>(self.name)),
            };
        }
        self.map(binary::kernel(op, self.types[0].dtype)?, [x, y])
    }

    pub(super) fn select(mut self) -> Result<Val<B>> {
        if !B::HOST {
            let [cond, x, y] = self.take()?;
            let (Val::Bool(cond), Val::Float(x), Val::Float(y)) = (cond, x, y) else {
                return Err(no_host::<B>(self.name));
            };
            let shape = &self.out.shape;
            let cond = B::reshape(Val::Bool(cond), &aligned(&self.types[0].shape, shape.len()));
            let Val::Bool(cond) = cond else {
                return Err(no_host::<B>(self.name));
            };
            let cond = B::bool_expand(cond, Shape::from(shape.clone()));
            let (x, y) = (stretched::<B>(x, shape), stretched::<B>(y, shape));
            return Ok(Val::Float(B::float_mask_where(y, cond, x)));
        }
        if self.chosen(|| Ok(Map::Three(select::kernel(self.out.dtype.itemsize())))) {
            return Err(no_host::<B>(self.name));
        }
        let [cond, x, y] = self.take()?;
        if self.out.dtype != DType::Key {
            return self.map(select::kernel(self.out.dtype.itemsize()), [cond, x, y]);
        }
        // A key is two words: the condition gets a last dim that stretches over both.
        let mut shape = shape_of::<B>(&cond).to_vec();
        shape.push(1);
        let cond = B::reshape(cond, &shape);
        self.map(select::kernel(4), [cond, x, y])
    }

    /// Applies `kernel`, into the memory of an operand if one is free and has the shape and dtype of the result.
    fn map<const N: usize>(&self, kernel: Kernel<N>, mut args: [Val<B>; N]) -> Result<Val<B>> {
        let (itemsize, rank) = (item(self.out), self.out.rank());
        let free = (0..N).find_map(|k| {
            let ty = self.types.get(k)?;
            if ty.dtype != self.out.dtype || ty.rank() != rank || ty.shape != self.out.shape {
                return None;
            }
            Some((k, B::dense_mut(&mut args[k])?))
        });
        let mut views = [HostView {
            ptr: std::ptr::null(),
            shape: &[],
            strides: &[],
            dtype: DType::U8,
        }; N];
        for (view, arg) in views.iter_mut().zip(&args) {
            *view = B::view(arg).ok_or_else(|| no_host::<B>(self.name))?;
        }
        let storage;
        let shape = if self.out.dtype == DType::Key {
            storage = self.out.storage_shape();
            &storage
        } else {
            &self.out.shape
        };
        let Some((k, memory)) = free else {
            // SAFETY: the op is verified, so operands broadcast to `shape`.
            return self.upload(unsafe { map_new(kernel, shape, views, itemsize) });
        };
        // SAFETY: as above; the memory is that of operand `k`, which has this shape and dtype and which nobody else
        // holds.
        unsafe { map_into(kernel, shape, views, memory, itemsize) };
        let val = args.into_iter().nth(k);
        val.ok_or_else(|| no_host::<B>(self.name))
    }
}

/// A shape with axes of size 1 before it.
pub(super) fn aligned(shape: &[usize], rank: usize) -> Vec<usize> {
    let mut out = vec![1; rank - shape.len()];
    out.extend(shape);
    out
}

/// `x` broadcast to `shape`.
pub(super) fn stretched<B: ExecBackend>(x: FloatTensor<B>, shape: &[usize]) -> FloatTensor<B> {
    let own = x.shape().to_vec();
    if own == shape {
        return x;
    }
    let x = B::float_reshape(x, Shape::from(aligned(&own, shape.len())));
    B::float_expand(x, Shape::from(shape.to_vec()))
}

/// Applies `kernel` into a new buffer.
///
/// # Safety
/// The operands broadcast to `shape` and have the dtype of the kernel.
pub unsafe fn map_new<const N: usize>(
    kernel: Kernel<N>,
    shape: &[usize],
    views: [HostView<'_>; N],
    itemsize: usize,
) -> Bytes {
    let mut out = Out::new(shape.iter().product(), itemsize);
    // SAFETY: passed on to the caller, with `out` new; the run writes every element.
    unsafe {
        map_into(kernel, shape, views, out.ptr(), itemsize);
        out.finish()
    }
}

/// Applies `kernel` into `memory`.
///
/// # Safety
/// As for [`map_new`]; the memory has room for the result, and is either apart from the operands or the start of one
/// that is dense and of the same shape and item size.
pub unsafe fn map_into<const N: usize>(
    kernel: Kernel<N>,
    shape: &[usize],
    views: [HostView<'_>; N],
    memory: *mut u8,
    itemsize: usize,
) {
    let itemsizes = views.map(|v| v.dtype.itemsize());
    // SAFETY: passed on to the caller.
    unsafe { nest::run(kernel, shape, views, itemsizes, memory, itemsize) };
}

/// `x` in another dtype.
pub(super) fn convert<B: ExecBackend>(
    x: Val<B>,
    from: DType,
    to: DType,
    device: &Device<B>,
) -> Result<Val<B>> {
    if from == to {
        return Ok(x);
    }
    let types = [Ty {
        dtype: from,
        shape: shape_of::<B>(&x).to_vec(),
    }];
    let out = Ty {
        dtype: to,
        shape: types[0].shape.clone(),
    };
    let c = Call {
        device,
        name: "cast",
        args: vec![x],
        types: &types,
        out: &out,
        choice: None,
    };
    c.cast()
}
