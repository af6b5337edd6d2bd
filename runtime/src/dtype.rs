//! The dtype set.

use burn_std::BoolStore;

use crate::error::{Error, Result, clip};

/// An element type; the numbers are those of `dala.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    Bool = 0,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    /// A random key: two `u32`.
    Key,
    /// Orders effects; holds no bytes.
    Token,
}

/// Every dtype, in the order of the numbers.
pub const DTYPES: [DType; 17] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
    DType::Key,
    DType::Token,
];

impl DType {
    /// The short name, such as `f32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
            DType::Key => "key",
            DType::Token => "token",
        }
    }

    /// The dtype of a short name.
    pub fn parse(name: &str) -> Result<Self> {
        DTYPES
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| {
                Error::invalid_program(format!("there is no dtype named {:?}", clip(name)))
            })
    }

    /// The dtype of a number of `dala.h`.
    pub fn from_code(code: i32) -> Option<Self> {
        usize::try_from(code)
            .ok()
            .and_then(|c| DTYPES.get(c).copied())
    }

    /// Bytes of one element.
    pub const fn itemsize(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 | DType::Key => 8,
            DType::C128 => 16,
            DType::Token => 0,
        }
    }

    /// Bytes of one stored element: half of a key.
    pub const fn part_size(self) -> usize {
        match self {
            DType::Key => 4,
            other => other.itemsize(),
        }
    }

    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// True for signed and unsigned integers.
    pub const fn is_int(self) -> bool {
        (self as u8) >= (DType::I8 as u8) && (self as u8) <= (DType::U64 as u8)
    }

    pub const fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    pub const fn is_bool(self) -> bool {
        matches!(self, DType::Bool)
    }

    /// True when values of this dtype exist at run time; complex ones are lowered to pairs before.
    pub const fn is_stored(self) -> bool {
        (self as u8) <= (DType::F64 as u8) || matches!(self, DType::Key)
    }

    /// Burn's dtype of the storage; a key is `u32` with one more dim. Complex and token values are never stored
    /// (`is_stored`): they give the dtype of their parts.
    pub fn to_burn(self) -> burn_backend::DType {
        use burn_backend::DType as D;
        match self {
            DType::Bool => D::Bool(BoolStore::Native),
            DType::I8 => D::I8,
            DType::I16 => D::I16,
            DType::I32 => D::I32,
            DType::I64 => D::I64,
            DType::U8 | DType::Token => D::U8,
            DType::U16 => D::U16,
            DType::U32 | DType::Key => D::U32,
            DType::U64 => D::U64,
            DType::F16 => D::F16,
            DType::BF16 => D::BF16,
            DType::F32 | DType::C64 => D::F32,
            DType::F64 | DType::C128 => D::F64,
        }
    }
}
