//! The structure of a program: what can be checked before any size is known.

mod held;

use std::collections::{BTreeMap, BTreeSet};

use crate::attrs::Literal;
use crate::dim::{Dim, Env};
use crate::dtype::DType;
use crate::error::{Error, Result, clip};
use crate::file::Container;
use crate::op::Op;
use crate::program::{Entry, Function, Node, Program, Role};
use crate::symbolic::SymTy;
use crate::value::Ty;
use held::{Held, ONE, Size};

/// The most nodes of an entry once every call is written out.
pub const MAX_NODES: usize = 1 << 18;
/// The deepest nesting of calls.
pub const MAX_CALL_DEPTH: usize = 200;
/// The most operands of one node.
pub const MAX_OPERANDS: usize = 1 << 12;

/// The type of every state tensor, by the name under which its bytes stand.
pub type StateTypes = BTreeMap<String, Ty>;

/// Checks a program against its container; gives the types of its state.
pub fn verify(program: &Program, container: &Container) -> Result<StateTypes> {
    let mut sizes: Vec<Size> = Vec::with_capacity(program.functions.len());
    for (index, function) in program.functions.iter().enumerate() {
        let size = verify_function(program, container, &sizes, index, function)?;
        sizes.push(size);
    }
    let mut state = StateTypes::new();
    let mut names = BTreeSet::new();
    for entry in &program.entries {
        if !names.insert(&entry.name) {
            return Err(bad(format!(
                "two entries are named {:?}",
                clip(&entry.name)
            )));
        }
        verify_entry(program, container, entry, &mut state)
            .map_err(|e| e.inside(format!("entry {:?}", clip(&entry.name))))?;
    }
    Ok(state)
}

fn bad(message: impl Into<String>) -> Error {
    Error::invalid_program(message)
}

fn verify_function(
    program: &Program,
    container: &Container,
    sizes: &[Size],
    index: usize,
    function: &Function,
) -> Result<Size> {
    let place = || format!("function {index} ({:?})", clip(&function.name));
    for ty in &function.inputs {
        verify_type(program, ty).map_err(|e| e.inside(place()))?;
    }
    let mut values: Vec<&SymTy> = function.inputs.iter().collect();
    let mut flat = Size { nodes: 0, depth: 0 };
    for (n, node) in function.nodes.iter().enumerate() {
        let size = verify_node(program, container, sizes, node, &values).map_err(|e| {
            e.at_op(node.op.info().name)
                .at_node(n, program.locations.get(node.loc))
                .inside(format!("{}, node {n}", place()))
        })?;
        flat.nodes = flat.nodes.saturating_add(size.nodes);
        flat.depth = flat.depth.max(size.depth);
        values.extend(&node.outs);
    }
    if flat.nodes > MAX_NODES || flat.depth > MAX_CALL_DEPTH {
        return Err(bad(format!(
            "{} stands for {} nodes and calls {} deep once its calls are written out; {MAX_NODES} and \
             {MAX_CALL_DEPTH} are allowed",
            place(),
            flat.nodes,
            flat.depth
        ))
        .with_code("program-too-large"));
    }
    match function.outputs.iter().find(|v| **v >= values.len()) {
        Some(v) => Err(bad(format!("{}: output {v} is not a value", place()))),
        None => Ok(flat),
    }
}

fn verify_node(
    program: &Program,
    container: &Container,
    sizes: &[Size],
    node: &Node,
    values: &[&SymTy],
) -> Result<Size> {
    if node.inputs.len() > MAX_OPERANDS {
        return Err(bad(format!("{} operands", node.inputs.len())));
    }
    if let Some(v) = node.inputs.iter().find(|v| **v >= values.len()) {
        return Err(bad(format!("operand {v} is not numbered before the node")));
    }
    if node.loc.is_some_and(|row| row >= program.locations.len()) && !program.locations.is_empty() {
        return Err(bad("its location is not in the table"));
    }
    for ty in &node.outs {
        verify_type(program, ty)?;
    }
    let mut undeclared = None;
    let checked: Result<Op<()>, Error> = node.op.map_dims(|dim| {
        check_names(program, dim, &mut undeclared);
        Ok(())
    });
    checked?;
    if let Some(name) = undeclared {
        return Err(bad(format!("dim {:?} is not declared", clip(&name))));
    }
    if let Op::Constant { value } = &node.op {
        if !node.inputs.is_empty() || node.outs.len() != 1 {
            return Err(bad("a constant has no operand and one result"));
        }
        if node.outs[0].dtype == DType::Token {
            return Err(bad("a token is not a constant"));
        }
        if let Literal::Tensor(name) = value
            && container.ty(name).is_none()
        {
            return Err(bad(format!("there is no tensor {:?}", clip(name))));
        }
        return Ok(ONE);
    }
    let inputs: Vec<&SymTy> = node.inputs.iter().map(|v| values[*v]).collect();
    let held = Held {
        program,
        sizes,
        node,
        inputs: &inputs,
    };
    held.verify()
}

fn check_names(program: &Program, dim: &Dim, undeclared: &mut Option<String>) {
    dim.names(&mut |name| {
        if !program.dims.contains_key(name) {
            *undeclared = Some(name.to_string());
        }
    });
}

fn verify_type(program: &Program, ty: &SymTy) -> Result<()> {
    if ty.dtype == DType::Token && !ty.shape.is_empty() {
        return Err(bad("a token has no sizes"));
    }
    if !ty.dtype.is_stored() && ty.dtype != DType::Token {
        return Err(Error::unsupported(format!(
            "values of dtype {} are not executed",
            ty.dtype.name()
        ))
        .with_code("dtype"));
    }
    let mut undeclared = None;
    for dim in &ty.shape {
        if matches!(dim, Dim::Const(n) if *n < 0) {
            return Err(bad(format!("the size {dim} is negative")));
        }
        check_names(program, dim, &mut undeclared);
    }
    match undeclared {
        Some(name) => Err(bad(format!("dim {:?} is not declared", clip(&name)))),
        None => Ok(()),
    }
}

fn verify_entry(
    program: &Program,
    container: &Container,
    entry: &Entry,
    state: &mut StateTypes,
) -> Result<()> {
    let function = program
        .functions
        .get(entry.function)
        .ok_or_else(|| bad(format!("there is no function {}", entry.function)))?;
    if entry.args.len() != function.inputs.len() || entry.results.len() != function.outputs.len() {
        return Err(bad("arguments or results do not fit the function"));
    }
    let token = |ty: &SymTy| ty.dtype == DType::Token;
    let mut results = function.outputs.iter().map(|v| function.value_type(*v));
    if function.inputs.iter().any(token) || results.any(|ty| ty.is_some_and(token)) {
        return Err(bad("a token is neither an argument nor a result"));
    }
    let mut taken = BTreeSet::new();
    for (arg, ty) in entry.args.iter().zip(&function.inputs) {
        let is_key = ty.dtype == DType::Key;
        match &arg.role {
            Role::Key if !is_key => {
                return Err(bad(format!("argument {:?} is not a key", clip(&arg.name))));
            }
            Role::State(path) => {
                let ty = state_type(container, path, ty)?;
                let name = container.resolve(path).to_string();
                if !taken.insert(path) {
                    return Err(bad(format!("state {:?} stands twice", clip(path))));
                }
                if *state.entry(name).or_insert_with(|| ty.clone()) != ty {
                    return Err(bad(format!("state {:?} has two types", clip(path))));
                }
            }
            Role::Key | Role::Arg | Role::Result => {}
        }
    }
    let mut replaced = BTreeSet::new();
    for result in &entry.results {
        if let Role::State(path) = &result.role {
            if !taken.contains(path) {
                return Err(bad(format!(
                    "result state {:?} is not an argument of the entry",
                    clip(path)
                )));
            }
            if !replaced.insert(container.resolve(path)) {
                return Err(bad(format!("state {:?} is replaced twice", clip(path))));
            }
        }
    }
    Ok(())
}

/// The type of a state argument: its sizes are numbers, and its first value stands in the container.
fn state_type(container: &Container, path: &str, ty: &SymTy) -> Result<Ty> {
    let shape = ty
        .shape
        .iter()
        .map(|d| d.eval(&Env::new()))
        .collect::<Result<Vec<_>>>()
        .map_err(|_| {
            bad(format!(
                "state {:?} has a size that is not a number",
                clip(path)
            ))
        })?;
    let ty = Ty::new(ty.dtype, shape).map_err(|e| bad(e.message.clone()))?;
    let stored = container
        .ty(path)
        .ok_or_else(|| bad(format!("there is no tensor {:?} for the state", clip(path))))?;
    if !stored_as(stored, &ty) {
        return Err(bad(format!(
            "state {:?} is {ty}, its tensor {stored}",
            clip(path)
        )));
    }
    Ok(ty)
}

/// True when a tensor of the container holds a value of type `ty`.
pub fn stored_as(stored: &Ty, ty: &Ty) -> bool {
    let dtype = if ty.dtype == DType::Key {
        DType::U32
    } else {
        ty.dtype
    };
    stored.dtype == dtype && stored.shape == ty.storage_shape()
}
