//! Burn's own backward pass over Flex: a second way to gradients, which knows nothing of the op table's rules.
//!
//! Floats are recorded. Whatever no gradient goes through (integers, bools, comparisons) is Flex's business.

use burn_autodiff::Autodiff;
use burn_backend::AutodiffBackend;
use burn_backend::tensor::Device;
use burn_flex::Flex;
use burn_std::{BoolStore, Bytes};

use super::ExecBackend;
use super::flex::look;
use crate::error::{Error, Result};
use crate::host::HostView;
use crate::value::{Ty, Val};

impl ExecBackend for Autodiff<Flex> {
    const HOST: bool = false;
    const BOOL: BoolStore = Flex::BOOL;
    const RECORDS: bool = true;

    type Inner = Flex;

    fn inner(val: Val<Self>) -> Val<Flex> {
        match val {
            Val::Float(t) => Val::Float(t.into_primitive()),
            Val::Int(t) => Val::Int(t),
            Val::Bool(t) => Val::Bool(t),
        }
    }

    fn outer(val: Val<Flex>) -> Val<Self> {
        match val {
            Val::Float(t) => Val::Float(Self::from_inner(t)),
            Val::Int(t) => Val::Int(t),
            Val::Bool(t) => Val::Bool(t),
        }
    }

    fn track(val: Val<Self>) -> Result<Val<Self>> {
        match val {
            Val::Float(t) => Ok(Val::Float(
                Self::from_inner(t.into_primitive()).require_grad(),
            )),
            Val::Int(_) | Val::Bool(_) => Err(not_float()),
        }
    }

    fn backward(root: Val<Self>, of: &[Val<Self>]) -> Result<Vec<Option<Val<Flex>>>> {
        let Val::Float(root) = root else {
            return Err(not_float());
        };
        if !root.is_tracked() {
            return Ok(of.iter().map(|_| None).collect());
        }
        let gradients = <Self as AutodiffBackend>::backward(root);
        let by = |val: &Val<Self>| match val {
            Val::Float(t) => Self::grad(t, &gradients).map(Val::Float),
            Val::Int(_) | Val::Bool(_) => None,
        };
        Ok(of.iter().map(by).collect())
    }

    fn upload(bytes: Bytes, ty: &Ty, device: &Device<Self>) -> Result<Val<Self>> {
        Flex::upload(bytes, ty, device).map(Self::outer)
    }

    fn view(val: &Val<Self>) -> Option<HostView<'_>> {
        match val {
            Val::Float(t) => look(t.primitive()),
            Val::Int(t) | Val::Bool(t) => look(t),
        }
    }
}

fn not_float() -> Error {
    Error::argument("gradients are of floats and by floats").with_code("dtype")
}
