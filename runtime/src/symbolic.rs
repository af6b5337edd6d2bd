//! Types whose sizes are dim expressions, and the sizes of the dims once arguments are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::dim::{Dim, Env};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::value::Ty;

/// A type whose sizes are dim expressions.
#[derive(Clone, Debug, PartialEq)]
pub struct SymTy<D = Dim> {
    pub dtype: DType,
    pub shape: Vec<D>,
}

impl<D> SymTy<D> {
    /// The same type with every dim replaced by what `f` gives for it.
    pub fn map_dims<T, E>(&self, f: &mut impl FnMut(&D) -> Result<T, E>) -> Result<SymTy<T>, E> {
        Ok(SymTy {
            dtype: self.dtype,
            shape: map_dims(&self.shape, f)?,
        })
    }
}

/// Every dim replaced by what `f` gives for it.
pub fn map_dims<D, T, E>(dims: &[D], f: &mut impl FnMut(&D) -> Result<T, E>) -> Result<Vec<T>, E> {
    dims.iter().map(f).collect()
}

impl fmt::Display for SymTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.shape.iter().map(Dim::to_string).collect();
        write!(f, "{}[{}]", self.dtype.name(), dims.join(", "))
    }
}

/// The bounds of a dim.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub min: i64,
    pub max: Option<i64>,
}

/// The sizes of the dims of a function whose inputs are `wanted`, when its arguments are `actual`. `outer` gives those
/// that no input names; `label` names an input.
pub fn solve(
    wanted: &[SymTy],
    actual: &[&Ty],
    dims: &BTreeMap<String, Bounds>,
    outer: &Env,
    label: &dyn Fn(usize) -> String,
) -> Result<Env> {
    let mut env = outer.clone();
    let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (i, (want, got)) in wanted.iter().zip(actual).enumerate() {
        if want.dtype != got.dtype {
            return Err(Error::argument(format!(
                "{} is {}, not {}",
                label(i),
                got.dtype.name(),
                want.dtype.name()
            ))
            .with_code("dtype"));
        }
        if want.shape.len() != got.shape.len() {
            return Err(mismatch(i, want, got, label));
        }
        for (axis, (dim, &size)) in want.shape.iter().zip(&got.shape).enumerate() {
            let Dim::Name(name) = dim else { continue };
            if let Some(first) = bound.insert(name, size)
                && first != size
            {
                return Err(Error::argument(format!(
                    "dim {name} is {first} elsewhere, but {size} at axis {axis} of {}",
                    label(i)
                ))
                .with_code("dim-conflict")
                .with("dim", name.as_str())
                .with("sizes", vec![first, size]));
            }
            if seen.insert(name) {
                check_bounds(name, size, dims.get(name))?;
                env.insert(name.clone(), size as i64);
            }
        }
    }
    for (i, (want, got)) in wanted.iter().zip(actual).enumerate() {
        for (dim, &size) in want.shape.iter().zip(&got.shape) {
            if !matches!(dim, Dim::Name(_)) && dim.eval(&env)? != size {
                return Err(mismatch(i, want, got, label)
                    .with("dim", dim.to_string())
                    .with("size", size));
            }
        }
    }
    Ok(env)
}

fn check_bounds(name: &str, size: usize, bounds: Option<&Bounds>) -> Result<()> {
    let Some(bounds) = bounds else { return Ok(()) };
    let size = size as i64;
    if size < bounds.min || bounds.max.is_some_and(|max| size > max) {
        let max = bounds.max.map_or_else(String::new, |m| m.to_string());
        return Err(Error::argument(format!(
            "dim {name} is {size}, outside {}..{max}",
            bounds.min
        ))
        .with_code("dim-bounds")
        .with("dim", name)
        .with("size", size));
    }
    Ok(())
}

fn mismatch(i: usize, want: &SymTy, got: &Ty, label: &dyn Fn(usize) -> String) -> Error {
    Error::argument(format!("{} is {got}, not {}", label(i), want)).with_code("shape")
}

/// The concrete type.
pub fn resolve(ty: &SymTy, env: &Env) -> Result<Ty> {
    let shape = ty
        .shape
        .iter()
        .map(|d| d.eval(env))
        .collect::<Result<_>>()?;
    Ty::new(ty.dtype, shape)
}
