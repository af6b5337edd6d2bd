//! Types and values.

use std::fmt;

use burn_backend::Backend;
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// The highest rank of an array.
pub const MAX_RANK: usize = 32;

/// The most bytes (and elements) that one array may have.
pub const MAX_BYTES: usize = 1 << 46;

/// A concrete type: dtype and shape. Make it with [`Ty::new`] where the sizes come from outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ty {
    pub dtype: DType,
    pub shape: Vec<usize>,
}

impl Ty {
    /// Checks the rank, and that neither elements nor bytes (sizes of 0 taken as 1) pass [`MAX_BYTES`].
    pub fn new(dtype: DType, shape: Vec<usize>) -> Result<Self> {
        if shape.len() > MAX_RANK {
            return Err(
                Error::argument(format!("rank {} is above {MAX_RANK}", shape.len()))
                    .with_code("rank-too-high"),
            );
        }
        let bytes = shape
            .iter()
            .try_fold(dtype.itemsize().max(1), |n, &d| n.checked_mul(d.max(1)));
        match bytes {
            Some(n) if n <= MAX_BYTES => Ok(Ty { dtype, shape }),
            _ => Err(
                Error::argument(format!("an array of shape {shape:?} is too large"))
                    .with_code("too-large"),
            ),
        }
    }

    /// A type known to be small.
    pub fn scalar(dtype: DType) -> Self {
        Ty {
            dtype,
            shape: Vec::new(),
        }
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements; cannot overflow for a type made by [`Ty::new`].
    pub fn elements(&self) -> usize {
        self.shape
            .iter()
            .fold(1, |n: usize, &d| n.saturating_mul(d))
    }

    /// Number of bytes of a dense array; cannot overflow for a type made by [`Ty::new`].
    pub fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.dtype.itemsize())
    }

    /// The shape of the storage: a key has one more, last dim of 2.
    pub fn storage_shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if self.dtype == DType::Key {
            shape.push(2);
        }
        shape
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype.name())?;
        for (i, d) in self.shape.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// A value on the device. A key is `Int` of `u32` with one more, last dim of 2.
pub enum Val<B: Backend> {
    Float(FloatTensor<B>),
    Int(IntTensor<B>),
    Bool(BoolTensor<B>),
}

impl<B: Backend> Clone for Val<B> {
    fn clone(&self) -> Self {
        match self {
            Val::Float(t) => Val::Float(t.clone()),
            Val::Int(t) => Val::Int(t.clone()),
            Val::Bool(t) => Val::Bool(t.clone()),
        }
    }
}
