//! Arrays in tests, and running an op on them.

use burn_flex::{Flex, FlexDevice};
use burn_std::{Bytes, Slice};
use dala_runtime::backend::ExecBackend;
use dala_runtime::dtype::DType;
use dala_runtime::error::Result;
use dala_runtime::exec::execute;
use dala_runtime::op::Op;
use dala_runtime::value::{Ty, Val};
use half::{bf16, f16};

#[derive(Clone, Debug)]
pub struct Array {
    pub ty: Ty,
    pub bytes: Vec<u8>,
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty && self.bits() == other.bits()
    }
}

pub trait Item: Copy {
    const DTYPE: DType;
    fn bytes(self) -> Vec<u8>;
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! item {
    ($($T:ty = $dtype:ident),+) => {$(
        impl Item for $T {
            const DTYPE: DType = DType::$dtype;
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn read(bytes: &[u8]) -> Self {
                <$T>::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )+};
}

item!(
    i8 = I8,
    i16 = I16,
    i32 = I32,
    i64 = I64,
    u8 = U8,
    u16 = U16,
    u32 = U32,
    u64 = U64,
    f16 = F16,
    bf16 = BF16,
    f32 = F32,
    f64 = F64
);

impl Item for bool {
    const DTYPE: DType = DType::Bool;
    fn bytes(self) -> Vec<u8> {
        vec![self as u8]
    }
    fn read(bytes: &[u8]) -> Self {
        assert!(bytes[0] < 2, "a bool of {}", bytes[0]);
        bytes[0] == 1
    }
}

/// An array of `shape`.
pub fn arr<T: Item>(shape: &[usize], data: &[T]) -> Array {
    assert_eq!(shape.iter().product::<usize>(), data.len());
    Array {
        ty: ty(T::DTYPE, shape),
        bytes: data.iter().flat_map(|x| x.bytes()).collect(),
    }
}

/// Keys from pairs of words.
pub fn keys(shape: &[usize], data: &[u32]) -> Array {
    Array {
        ty: ty(DType::Key, shape),
        bytes: data.iter().flat_map(|x| x.bytes()).collect(),
    }
}

pub fn scalar<T: Item>(x: T) -> Array {
    arr(&[], &[x])
}

pub fn ty(dtype: DType, shape: &[usize]) -> Ty {
    Ty::new(dtype, shape.to_vec()).unwrap()
}

impl Array {
    pub fn to<T: Item>(&self) -> Vec<T> {
        assert_eq!(self.ty.dtype, T::DTYPE);
        let size = self.ty.dtype.itemsize();
        self.bytes.chunks(size).map(T::read).collect()
    }

    /// The bytes, with every NaN made the same.
    fn bits(&self) -> Vec<u8> {
        match self.ty.dtype {
            DType::F16 => self.one_nan::<f16>(|x| x.is_nan(), f16::NAN),
            DType::BF16 => self.one_nan::<bf16>(|x| x.is_nan(), bf16::NAN),
            DType::F32 => self.one_nan::<f32>(|x| x.is_nan(), f32::NAN),
            DType::F64 => self.one_nan::<f64>(|x| x.is_nan(), f64::NAN),
            _ => self.bytes.clone(),
        }
    }

    fn one_nan<T: Item>(&self, is_nan: impl Fn(T) -> bool, nan: T) -> Vec<u8> {
        let all = self.to::<T>().into_iter();
        all.flat_map(|x| if is_nan(x) { nan } else { x }.bytes())
            .collect()
    }

    fn close_to(&self, other: &Array) -> bool {
        fn close(a: Vec<f64>, b: Vec<f64>, tolerance: f64) -> bool {
            let near = |(a, b): (&f64, &f64)| {
                a.to_bits() == b.to_bits()
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= tolerance * (1.0 + b.abs())
            };
            a.iter().zip(&b).all(near)
        }
        fn wide<T: Item + Into<f64>>(a: &Array) -> Vec<f64> {
            a.to::<T>().into_iter().map(Into::into).collect()
        }
        match self.ty.dtype {
            DType::F32 => close(wide::<f32>(self), wide::<f32>(other), 1e-5),
            DType::F64 => close(wide::<f64>(self), wide::<f64>(other), 1e-13),
            DType::BF16 => close(wide::<bf16>(self), wide::<bf16>(other), 1e-2),
            _ => self == other,
        }
    }

    pub fn upload(&self) -> Val<Flex> {
        Flex::upload(
            Bytes::from_bytes_vec(self.bytes.clone()),
            &self.ty,
            &FlexDevice,
        )
        .unwrap()
    }

    /// The same array as a view: every axis reversed, and every second element of a larger one.
    fn strided(&self) -> Val<Flex> {
        let shape = self.ty.storage_shape();
        let size = if self.ty.dtype == DType::Key {
            4
        } else {
            self.ty.dtype.itemsize()
        };
        let wide: Vec<usize> = shape.iter().map(|n| 2 * n + 1).collect();
        let mut bytes = vec![0xAA; wide.iter().product::<usize>() * size];
        for i in 0..shape.iter().product::<usize>() {
            let (mut rest, mut at, mut step) = (i, 0, 1);
            for axis in (0..shape.len()).rev() {
                let j = rest % shape[axis];
                rest /= shape[axis];
                at += (wide[axis] - 2 - 2 * j) * step;
                step *= wide[axis];
            }
            bytes[at * size..(at + 1) * size]
                .copy_from_slice(&self.bytes[i * size..(i + 1) * size]);
        }
        let mut large = self.ty.clone();
        if large.dtype == DType::Key {
            large.dtype = DType::U32;
        }
        large.shape = wide.clone();
        let val = Flex::upload(Bytes::from_bytes_vec(bytes), &large, &FlexDevice).unwrap();
        let (Val::Float(t) | Val::Int(t) | Val::Bool(t)) = val;
        let slices: Vec<Slice> = wide
            .iter()
            .map(|&n| Slice::new(0, Some(n as isize - 1), -2))
            .collect();
        let t = if slices.is_empty() {
            t
        } else {
            burn_flex::ops::slice::slice(t, &slices)
        };
        if large.dtype.is_float() {
            Val::Float(t)
        } else if large.dtype.is_bool() {
            Val::Bool(t)
        } else {
            Val::Int(t)
        }
    }
}

/// The dense bytes of a value.
pub fn read(val: &Val<Flex>, ty: &Ty) -> Array {
    let view = Flex::view(val).unwrap();
    assert_eq!(view.shape, ty.storage_shape());
    let stored = if ty.dtype == DType::Key {
        DType::U32
    } else {
        ty.dtype
    };
    assert_eq!(view.dtype, stored);
    // SAFETY: `dense` writes every element.
    let bytes = unsafe { dala_runtime::host::copy::dense(&view).finish() };
    Array {
        ty: ty.clone(),
        bytes: bytes.to_vec(),
    }
}

fn once(op: &Op<usize>, args: Vec<Val<Flex>>, types: &[Ty], out: &Ty) -> Result<Array> {
    let val = execute::<Flex>(&FlexDevice, op, args, types, out)?;
    Ok(read(&val, out))
}

/// Runs `op` on operands that are free, shared, and strided.
pub fn try_run(op: &Op<usize>, args: &[&Array], out: &Ty) -> Result<Array> {
    let types: Vec<Ty> = args.iter().map(|a| a.ty.clone()).collect();
    let free = once(op, args.iter().map(|a| a.upload()).collect(), &types, out);
    let held: Vec<Val<Flex>> = args.iter().map(|a| a.upload()).collect();
    let shared = once(op, held.clone(), &types, out);
    for (val, arg) in held.iter().zip(args) {
        assert_eq!(
            &read(val, &arg.ty),
            *arg,
            "{op:?} wrote to a shared operand"
        );
    }
    let strided = once(op, args.iter().map(|a| a.strided()).collect(), &types, out);
    match (&free, &shared, &strided) {
        (Ok(a), Ok(b), Ok(c)) => {
            assert!(a == b, "{op:?} differs on shared operands");
            // A sum may be taken in another order.
            assert!(a.close_to(c), "{op:?} differs on strided operands");
        }
        (Err(_), Err(_), Err(_)) => {}
        _ => panic!("{op:?} fails on some kinds of operands only: {free:?} {shared:?} {strided:?}"),
    }
    free
}

pub fn run(op: &Op<usize>, args: &[&Array], out: &Ty) -> Array {
    match try_run(op, args, out) {
        Ok(array) => array,
        Err(error) => panic!("{op:?}: {error}"),
    }
}

/// Numbers that look random.
pub fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E3779B97F4A7C15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 * 2.0 - 2.0
        })
        .collect()
}

/// All index tuples of a shape, in row-major order.
pub fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    let total = shape.iter().product();
    (0..total)
        .map(|i| {
            let mut rest: usize = i;
            let mut at = vec![0; shape.len()];
            for (p, &n) in at.iter_mut().zip(shape).rev() {
                *p = rest % n;
                rest /= n;
            }
            at
        })
        .collect()
}

/// The row-major position of an index tuple.
pub fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |i, (n, k)| i * n + k)
}
