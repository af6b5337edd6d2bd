//! Nodes that hold functions, and nodes with effects.

use super::{bad, verify_type};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Op;
use crate::program::{Function, Node, Program};
use crate::symbolic::SymTy;
use crate::value::MAX_RANK;

/// A function, its calls written out.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub nodes: usize,
    pub depth: usize,
}

pub(super) const ONE: Size = Size { nodes: 1, depth: 0 };

/// A node among the functions that stand before its own.
pub(super) struct Held<'a> {
    pub program: &'a Program,
    pub sizes: &'a [Size],
    pub node: &'a Node,
    /// The types of its operands.
    pub inputs: &'a [&'a SymTy],
}

fn has_derivative(ty: &SymTy) -> bool {
    ty.dtype.is_float()
}

fn is_token(ty: &SymTy) -> bool {
    ty.dtype == DType::Token
}

fn is_scalar(ty: &SymTy, dtype: DType) -> bool {
    ty.dtype == dtype && ty.shape.is_empty()
}

impl<'a> Held<'a> {
    /// Checks counts, indices and the types that do not depend on sizes; gives what the node stands for.
    pub fn verify(&self) -> Result<Size> {
        let (inputs, outs) = (self.inputs.len(), self.node.outs.len());
        match &self.node.op {
            Op::Call { function, .. } | Op::Checkpoint { function, .. } => {
                self.run(&[(*function, inputs, outs)])
            }
            Op::Fused {
                function,
                space,
                parallel,
                ..
            } => {
                if space.len() > MAX_RANK {
                    return Err(bad(format!("a space of {} axes", space.len())));
                }
                count("parallel axes", *parallel, space.len())?;
                self.run(&[(*function, inputs, outs)])
            }
            Op::CustomVjp {
                primal,
                forward,
                backward,
            } => {
                let (_, forward) = self.function(*forward)?;
                let (_, backward) = self.function(*backward)?;
                let residuals = forward.outputs.len().checked_sub(outs);
                let cotangents = self.node.outs.iter().filter(|t| has_derivative(t)).count();
                let inexact = self.inputs.iter().filter(|t| has_derivative(t)).count();
                if forward.inputs.len() != inputs
                    || residuals.is_none_or(|n| backward.inputs.len() != n + cotangents)
                    || backward.outputs.len() != inexact
                {
                    return Err(bad(
                        "forward and backward do not fit the operands and results",
                    ));
                }
                self.run(&[(*primal, inputs, outs)])
            }
            Op::CustomJvp { primal, tangent } => {
                let (_, tangent) = self.function(*tangent)?;
                let tangents = self.inputs.iter().filter(|t| has_derivative(t)).count();
                let results = self.node.outs.iter().filter(|t| has_derivative(t)).count();
                if tangent.inputs.len() != inputs + tangents
                    || tangent.outputs.len() != outs + results
                {
                    return Err(bad("the tangent does not fit the operands and results"));
                }
                self.run(&[(*primal, inputs, outs)])
            }
            Op::Cond { branches } => {
                if !self
                    .inputs
                    .first()
                    .is_some_and(|t| is_scalar(t, DType::I32))
                {
                    return Err(bad("the first operand is not an i32 scalar"));
                }
                let wanted: Vec<_> = branches.iter().map(|f| (*f, inputs - 1, outs)).collect();
                self.run(&wanted)
            }
            Op::WhileLoop { cond, body, consts } => {
                let carry = inputs - count("constants", *consts, inputs)?;
                if outs != carry {
                    return Err(bad(format!("{outs} results for a carry of {carry}")));
                }
                let (_, function) = self.function(*cond)?;
                let truth = function
                    .outputs
                    .first()
                    .and_then(|v| function.value_type(*v));
                if !truth.is_some_and(|t| is_scalar(t, DType::Bool)) {
                    return Err(bad("the condition does not give a bool scalar"));
                }
                self.run(&[(*cond, inputs, 1), (*body, inputs, carry)])
            }
            Op::Scan {
                body,
                consts,
                carries,
                length,
                ..
            } => {
                let first = count("constants", *consts, inputs)?;
                let carries = count("carries", *carries, inputs - first)?;
                if outs < carries {
                    return Err(bad(format!("{outs} results for a carry of {carries}")));
                }
                let [length] = &length[..] else {
                    return Err(bad(format!("{} lengths", length.len())));
                };
                let stacked = self.inputs[first + carries..].iter().copied();
                for ty in stacked.chain(&self.node.outs[carries..]) {
                    if ty.shape.is_empty() || is_token(ty) {
                        return Err(bad(format!("{ty} has no axis of {length} steps")));
                    }
                }
                self.run(&[(*body, inputs, outs)])
            }
            Op::Token => {
                if inputs != 0 {
                    return Err(bad("a token is made of nothing"));
                }
                self.gives_token(1)
            }
            Op::Print { .. } | Op::Tap { .. } => {
                self.takes_token()?;
                self.gives_token(1)
            }
            Op::Assert { .. } => {
                self.takes_token()?;
                if !self
                    .inputs
                    .get(1)
                    .is_some_and(|t| is_scalar(t, DType::Bool))
                {
                    return Err(bad("the condition is not a bool scalar"));
                }
                self.gives_token(1)
            }
            Op::Callback { results, .. } => {
                self.takes_token()?;
                if let Some(ty) = results
                    .iter()
                    .find(|t| !t.dtype.is_stored() || t.dtype == DType::Key)
                {
                    return Err(bad(format!("a callback does not give {ty}")));
                }
                for ty in results {
                    verify_type(self.program, ty)?;
                }
                self.gives_token(1 + results.len())
            }
            _ if outs != 1 => Err(bad("this op has one result")),
            _ => Ok(ONE),
        }
    }

    /// A function that stands before the node's own.
    fn function(&self, index: usize) -> Result<(Size, &'a Function)> {
        let size = self
            .sizes
            .get(index)
            .ok_or_else(|| bad(format!("function {index} does not stand before the caller")))?;
        Ok((*size, &self.program.functions[index]))
    }

    /// All functions that may run, with how many operands they must take and results they must give.
    fn run(&self, functions: &[(usize, usize, usize)]) -> Result<Size> {
        let mut flat = ONE;
        for &(index, inputs, outputs) in functions {
            let (size, function) = self.function(index)?;
            if function.inputs.len() != inputs || function.outputs.len() != outputs {
                return Err(bad("operands and results do not fit the called function"));
            }
            flat.nodes = flat.nodes.saturating_add(size.nodes);
            flat.depth = flat.depth.max(size.depth + 1);
        }
        Ok(flat)
    }

    fn takes_token(&self) -> Result<()> {
        match self.inputs.split_first() {
            Some((first, rest)) if is_token(first) && !rest.iter().any(|t| is_token(t)) => Ok(()),
            _ => Err(bad("an effect takes one token, its first operand")),
        }
    }

    fn gives_token(&self, outs: usize) -> Result<Size> {
        match self.node.outs.split_first() {
            Some((first, rest)) if is_token(first) && rest.len() + 1 == outs => Ok(ONE),
            _ => Err(bad(format!(
                "its results are not a token and {} more",
                outs - 1
            ))),
        }
    }
}

fn count(what: &str, n: i64, most: usize) -> Result<usize> {
    match usize::try_from(n) {
        Ok(n) if n <= most => Ok(n),
        _ => Err(bad(format!("{n} {what} of {most}"))),
    }
}
