//! Attributes of an op, read strictly.

use serde_json::{Map, Value};

use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::{Error, Result, clip};
use crate::symbolic::SymTy;
use crate::value::MAX_RANK;

/// The most bytes of an inline literal.
pub const MAX_INLINE: usize = 64;
/// The longest list of an attribute.
pub const MAX_LIST: usize = 1 << 12;

/// The value of a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// Little-endian bytes.
    Inline(Vec<u8>),
    /// The name of a tensor of the container.
    Tensor(String),
}

/// The attributes of one op; each getter takes its attribute away.
pub struct Attrs {
    map: Map<String, Value>,
}

impl Attrs {
    pub fn new(map: Map<String, Value>) -> Self {
        Attrs { map }
    }

    fn take(&mut self, key: &str) -> Result<Value> {
        self.map
            .remove(key)
            .ok_or_else(|| Error::invalid_program(format!("attribute {key:?} is missing")))
    }

    fn wrong<T>(key: &str, wanted: &str) -> Result<T> {
        Err(Error::invalid_program(format!(
            "attribute {key:?} is not {wanted}"
        )))
    }

    fn list(&mut self, key: &str) -> Result<Vec<Value>> {
        match self.take(key)? {
            Value::Array(list) if list.len() <= MAX_LIST => Ok(list),
            _ => Self::wrong(key, "a list"),
        }
    }

    pub fn int(&mut self, key: &str) -> Result<i64> {
        self.take(key)?
            .as_i64()
            .map_or_else(|| Self::wrong(key, "an integer"), Ok)
    }

    pub fn bool(&mut self, key: &str) -> Result<bool> {
        self.take(key)?
            .as_bool()
            .map_or_else(|| Self::wrong(key, "a boolean"), Ok)
    }

    pub fn str(&mut self, key: &str) -> Result<String> {
        match self.take(key)? {
            Value::String(s) if s.len() <= 4096 => Ok(s),
            _ => Self::wrong(key, "a string"),
        }
    }

    pub fn ints(&mut self, key: &str) -> Result<Vec<i64>> {
        let list = self.list(key)?;
        list.iter()
            .map(|v| {
                v.as_i64()
                    .map_or_else(|| Self::wrong(key, "a list of integers"), Ok)
            })
            .collect()
    }

    pub fn dims(&mut self, key: &str) -> Result<Vec<Dim>> {
        let list = self.list(key)?;
        list.iter()
            .map(|v| dim(v).map_err(|e| e.inside(format!("attribute {key:?}"))))
            .collect()
    }

    pub fn dtype(&mut self, key: &str) -> Result<DType> {
        DType::parse(&self.str(key)?).map_err(|e| e.inside(format!("attribute {key:?}")))
    }

    /// The index of a function.
    pub fn fun(&mut self, key: &str) -> Result<usize> {
        self.take(key)?
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .map_or_else(|| Self::wrong(key, "the index of a function"), Ok)
    }

    /// The indices of functions.
    pub fn funs(&mut self, key: &str) -> Result<Vec<usize>> {
        let list = self.list(key)?;
        let index = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
        let found: Option<Vec<usize>> = list.iter().map(index).collect();
        found
            .filter(|list| !list.is_empty())
            .map_or_else(|| Self::wrong(key, "a list of indices of functions"), Ok)
    }

    pub fn types(&mut self, key: &str) -> Result<Vec<SymTy>> {
        let list = self.list(key)?;
        list.iter()
            .map(|v| ty(v).map_err(|e| e.inside(format!("attribute {key:?}"))))
            .collect()
    }

    pub fn value(&mut self, key: &str) -> Result<Literal> {
        let Value::Object(mut map) = self.take(key)? else {
            return Self::wrong(key, "{\"hex\": ...} or {\"tensor\": ...}");
        };
        let found = match (map.remove("hex"), map.remove("tensor"), map.is_empty()) {
            (Some(Value::String(hex)), None, true) => unhex(&hex).map(Literal::Inline),
            (None, Some(Value::String(name)), true) => Some(Literal::Tensor(name)),
            _ => None,
        };
        found.map_or_else(
            || Self::wrong(key, "{\"hex\": at most 64 bytes} or {\"tensor\": NAME}"),
            Ok,
        )
    }

    /// Refuses what no getter took.
    pub fn finish(&self) -> Result<()> {
        match self.map.keys().next() {
            Some(key) => Err(Error::invalid_program(format!(
                "unknown attribute {:?}",
                clip(key)
            ))),
            None => Ok(()),
        }
    }
}

/// A dim: a number or an expression.
pub fn dim(value: &Value) -> Result<Dim> {
    match value {
        Value::String(text) => Dim::parse(text),
        Value::Number(n) => n
            .as_i64()
            .map(Dim::Const)
            .ok_or_else(|| Error::invalid_program(format!("{n} is not a size"))),
        _ => Err(Error::invalid_program("a dim is a number or a string")),
    }
}

/// A type: `[dtype, shape]`.
pub fn ty(value: &Value) -> Result<SymTy> {
    let pair = value.as_array().map(Vec::as_slice);
    let Some([Value::String(dtype), Value::Array(shape)]) = pair else {
        return Err(Error::invalid_program("a type is [dtype, shape]"));
    };
    if shape.len() > MAX_RANK {
        return Err(Error::invalid_program(format!(
            "a type of rank {}",
            shape.len()
        )));
    }
    Ok(SymTy {
        dtype: DType::parse(dtype)?,
        shape: shape.iter().map(dim).collect::<Result<_>>()?,
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(2) || text.len() > 2 * MAX_INLINE {
        return None;
    }
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    text.chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}
