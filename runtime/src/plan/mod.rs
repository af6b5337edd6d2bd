//! A plan: one entry for one set of sizes, calls written out, every value in a slot and moved at its last use.

mod build;
mod memory;
mod nested;
mod peak;

pub use memory::{Buffer, Given, Memory, What, peak, rehearse};
pub use nested::add_strides;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::attrs::Literal;
use crate::backend::ExecBackend;
use crate::dim::Env;
use crate::error::{Error, Location, Result};
use crate::exec::Map;
use crate::kernels::Kernel;
use crate::op::Op;
use crate::program::{Entry, Node, Program};
use crate::symbolic::solve;
use crate::value::{Ty, Val};

/// Where an operand or a result comes from.
pub enum Source<B: ExecBackend> {
    /// The slot's last use.
    Move(usize),
    Copy(usize),
    Const(Val<B>),
}

/// A node of the program: function and index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub function: usize,
    pub node: usize,
    /// The location of the innermost call it was written out for that has one: functions that are shared have none.
    pub site: Option<usize>,
}

/// What a step does.
pub enum Work<B: ExecBackend> {
    /// An elementwise op, by its kernel.
    Map(Map),
    Op(Op<usize>),
    Kernel(Fused),
    Cond(Vec<Arc<Body<B>>>),
    While(While<B>),
    Scan(Scan<B>),
    Effect(Effect),
}

/// A registered kernel and how it walks.
pub struct Fused {
    pub kernel: Kernel,
    /// The space.
    pub extents: Vec<i64>,
    /// How much of the space is one unit of what may be split, and how many such units there are.
    pub unit: usize,
    pub units: usize,
    /// For each dim of the operands, one operand after the other, the axis of the space; -1 for none.
    pub axes: Vec<i64>,
    /// Strides of the results in bytes, as the kernel takes them.
    pub out_strides: Vec<i64>,
    /// Each element of the results depends on one element of each operand.
    pub elementwise: bool,
    /// Operands whose memory may take a result, if nobody else holds it: their numbers and the result's.
    pub in_place: Vec<(usize, usize)>,
}

/// A loop while a condition holds. Both functions take all operands in their first slots.
pub struct While<B: ExecBackend> {
    pub cond: Arc<Body<B>>,
    pub body: Arc<Body<B>>,
    pub consts: usize,
}

/// A loop over slices.
pub struct Scan<B: ExecBackend> {
    pub body: Arc<Body<B>>,
    pub consts: usize,
    pub carries: usize,
    pub length: usize,
    pub reverse: bool,
}

/// What is done besides computing.
pub enum Effect {
    Print(String),
    Tap(String),
    Assert(String),
    Callback(String),
}

/// Something to execute. Tokens have no values here: steps run in their order.
pub struct Step<B: ExecBackend> {
    pub name: &'static str,
    pub work: Work<B>,
    pub args: Vec<Source<B>>,
    pub arg_types: Vec<Ty>,
    pub outs: Vec<Ty>,
    pub slots: Vec<usize>,
    /// The operands whose memory may take the (first) result, if nobody else holds it.
    pub reuse: [bool; 3],
    pub origin: Origin,
    /// Panics instead of running, for tests.
    pub fault: bool,
}

/// The steps of a function for one set of sizes.
pub struct Body<B: ExecBackend> {
    /// Types of the arguments; argument `i` starts in slot `i`.
    pub inputs: Vec<Ty>,
    pub steps: Vec<Step<B>>,
    /// Steps before this one can fail; until it runs, the values of an entry's arguments are kept elsewhere too.
    pub commit: usize,
    pub slots: usize,
    pub results: Vec<(Source<B>, Ty)>,
    /// Bytes held at a time, arguments included, from above.
    pub peak: usize,
}

/// An immutable plan, shared by all runs with the same types.
pub struct Plan<B: ExecBackend> {
    pub body: Body<B>,
    /// Bytes held at a time when the caller lends all arguments, which is the most.
    pub most: usize,
    /// When it was used last.
    pub stamp: AtomicU64,
}

/// Bodies of nested functions: by function, types of its arguments, and sizes.
type Bodies<B> = HashMap<(usize, Vec<Ty>, Env, Ends), Rc<Planned<B>>>;

/// How a body is entered and left; tokens do not count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Ends {
    /// So many of the first arguments stay in their slots.
    kept: usize,
    /// So many of the first results are taken after the others.
    late: usize,
}

/// A nested function, planned.
struct Planned<B: ExecBackend> {
    body: Arc<Body<B>>,
    /// The types of its results, tokens included.
    results: Vec<Ty>,
}

/// What planning needs besides the program.
pub struct Planner<'a, B: ExecBackend> {
    program: &'a Program,
    constant: &'a dyn Fn(&Literal, &Ty) -> Result<Val<B>>,
    most: usize,
    fault: Option<&'a str>,
    bodies: RefCell<Bodies<B>>,
}

impl<'a, B: ExecBackend> Planner<'a, B> {
    /// `constant` gives the value of a constant. A view that spreads to more than `most` bytes is refused, though it
    /// holds fewer: what walks over it would not come to an end. Every execution of the op `fault` will panic.
    pub fn new(
        program: &'a Program,
        constant: &'a dyn Fn(&Literal, &Ty) -> Result<Val<B>>,
        most: usize,
        fault: Option<&'a str>,
    ) -> Self {
        Planner {
            program,
            constant,
            most,
            fault,
            bodies: RefCell::default(),
        }
    }

    /// Plans `entry` for arguments of types `inputs`.
    pub fn plan(&self, entry: &Entry, inputs: Vec<Ty>) -> Result<Plan<B>> {
        let function = &self.program.functions[entry.function];
        let actual: Vec<&Ty> = inputs.iter().collect();
        let env = solve(
            &function.inputs,
            &actual,
            &self.program.dims,
            &Env::new(),
            &|i| format!("argument {:?}", entry.args[i].name),
        )?;
        let (body, _) = self.body(entry.function, &inputs, &env, Ends::default())?;
        Ok(Plan {
            most: peak(&body, &vec![Given::Lent; body.inputs.len()]),
            body,
            stamp: AtomicU64::new(0),
        })
    }

    fn locate(&self, origin: Origin, error: Error) -> Error {
        locate(self.program, origin, error)
    }
}

/// Names the node and its place.
pub fn locate(program: &Program, origin: Origin, error: Error) -> Error {
    let function = &program.functions[origin.function];
    let node = &function.nodes[origin.node];
    error
        .at_op(node.op.info().name)
        .at_node(origin.node, location(program, node, origin))
        .with("function", function.name.as_str())
}

/// Where a step comes from.
pub fn location_of(program: &Program, origin: Origin) -> Option<Location> {
    let node = &program.functions[origin.function].nodes[origin.node];
    location(program, node, origin)
}

fn location(program: &Program, node: &Node, origin: Origin) -> Option<Location> {
    program.locations.get(node.loc.or(origin.site))
}
