//! A plan: one entry for one set of sizes, calls written out, every value in a slot and moved at its last use.

use std::sync::atomic::AtomicU64;

use burn_backend::tensor::Device;

use crate::attrs::Literal;
use crate::backend::ExecBackend;
use crate::dim::Env;
use crate::error::{Error, Location, Result, Status};
use crate::exec::{Map, choose};
use crate::infer::{infer, is_infallible};
use crate::op::Op;
use crate::peak::{self, Use};
use crate::program::{Entry, Node, Program};
use crate::symbolic::{resolve, solve};
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
}

/// One op to execute.
pub struct Step<B: ExecBackend> {
    pub op: Op<usize>,
    pub args: Vec<Source<B>>,
    pub arg_types: Vec<Ty>,
    pub out: Ty,
    pub slot: usize,
    /// The kernel of an elementwise op.
    pub map: Option<Map>,
    /// The operands whose memory may take the result, if nobody else holds it.
    pub reuse: [bool; 3],
    pub origin: Origin,
    /// Panics instead of running, for tests.
    pub fault: bool,
}

/// An immutable plan, shared by all runs with the same types.
pub struct Plan<B: ExecBackend> {
    /// Types of all arguments of the entry, in order; argument `i` starts in slot `i`.
    pub inputs: Vec<Ty>,
    pub steps: Vec<Step<B>>,
    pub slots: usize,
    pub results: Vec<(Source<B>, Ty)>,
    /// Steps before this one can fail; until it runs, the values of arguments are kept elsewhere too.
    pub commit: usize,
    /// When it was used last.
    pub stamp: AtomicU64,
}

/// What planning needs besides the program.
pub struct Planner<'a, B: ExecBackend> {
    pub program: &'a Program,
    pub device: &'a Device<B>,
    /// Gives the value of a constant.
    pub constant: &'a dyn Fn(&Literal, &Ty) -> Result<Val<B>>,
    pub memory_limit: usize,
    pub fault: Option<&'a str>,
}

/// A value while planning.
struct Value<B: ExecBackend> {
    ty: Ty,
    constant: Option<Val<B>>,
    /// Index of the step that uses it last.
    last: usize,
    slot: usize,
}

struct Draft {
    op: Op<usize>,
    args: Vec<usize>,
    out: usize,
    origin: Origin,
}

struct Builder<'a, B: ExecBackend> {
    planner: &'a Planner<'a, B>,
    values: Vec<Value<B>>,
    drafts: Vec<Draft>,
}

/// Used by the results.
const END: usize = usize::MAX;
const UNUSED: usize = usize::MAX - 1;

impl<B: ExecBackend> Planner<'_, B> {
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
        let mut builder = Builder {
            planner: self,
            values: Vec::new(),
            drafts: Vec::new(),
        };
        let args: Vec<usize> = inputs
            .iter()
            .map(|ty| builder.value(ty.clone(), None))
            .collect();
        let results = builder.inline(entry.function, args, &env)?;
        builder.finish(inputs, results)
    }

    /// Names the node and its place.
    pub fn locate(&self, origin: Origin, error: Error) -> Error {
        locate(self.program, origin, error)
    }
}

/// Names the node and its place.
pub fn locate(program: &Program, origin: Origin, error: Error) -> Error {
    let function = &program.functions[origin.function];
    let node = &function.nodes[origin.node];
    error
        .at_op(node.op.info().name)
        .at_node(origin.node, location(program, node))
        .with("function", function.name.as_str())
}

fn location(program: &Program, node: &Node) -> Option<Location> {
    program.locations.get(node.loc)
}

impl<B: ExecBackend> Builder<'_, B> {
    fn value(&mut self, ty: Ty, constant: Option<Val<B>>) -> usize {
        self.values.push(Value {
            ty,
            constant,
            last: UNUSED,
            slot: usize::MAX,
        });
        self.values.len() - 1
    }

    /// Writes a function out; the depth of calls is bounded by the verifier.
    fn inline(&mut self, index: usize, args: Vec<usize>, env: &Env) -> Result<Vec<usize>> {
        let function = &self.planner.program.functions[index];
        let mut numbering = args;
        for (n, node) in function.nodes.iter().enumerate() {
            let origin = Origin {
                function: index,
                node: n,
            };
            let outs = self.node(node, origin, &numbering, env).map_err(|e| {
                if e.node.is_some() {
                    e
                } else {
                    self.planner.locate(origin, e)
                }
            })?;
            numbering.extend(outs);
        }
        Ok(function.outputs.iter().map(|v| numbering[*v]).collect())
    }

    fn node(
        &mut self,
        node: &Node,
        origin: Origin,
        numbering: &[usize],
        env: &Env,
    ) -> Result<Vec<usize>> {
        let program = self.planner.program;
        let args: Vec<usize> = node.inputs.iter().map(|v| numbering[*v]).collect();
        let declared: Vec<Ty> = node
            .outs
            .iter()
            .map(|t| resolve(t, env))
            .collect::<Result<_>>()?;
        let invalid = |e: Error| e.with_status(Status::InvalidProgram);
        match &node.op {
            Op::Call { function, .. } | Op::Fused { function, .. } => {
                let callee = &program.functions[*function];
                let actual: Vec<&Ty> = args.iter().map(|v| &self.values[*v].ty).collect();
                let env = solve(&callee.inputs, &actual, &program.dims, env, &|i| {
                    format!("operand {i} of the call of {:?}", callee.name)
                })
                .map_err(invalid)?;
                let outs = self.inline(*function, args, &env)?;
                let types: Vec<Ty> = outs.iter().map(|v| self.values[*v].ty.clone()).collect();
                same(&declared, &types)?;
                Ok(outs)
            }
            Op::Constant { value } => {
                let ty = declared.into_iter().next();
                let ty = ty.ok_or_else(|| Error::invalid_program("a constant has one result"))?;
                let constant = (self.planner.constant)(value, &ty)?;
                Ok(vec![self.value(ty, Some(constant))])
            }
            op => {
                let op = op.map_dims(|d| d.eval(env))?;
                let types: Vec<Ty> = args.iter().map(|v| self.values[*v].ty.clone()).collect();
                let inferred = infer(&op, &types).map_err(invalid)?;
                same(&declared, &inferred)?;
                let outs: Vec<usize> = inferred
                    .into_iter()
                    .map(|ty| self.value(ty, None))
                    .collect();
                let [out] = outs[..] else {
                    return Err(Error::invalid_program("the op has one result"));
                };
                self.drafts.push(Draft {
                    op,
                    args,
                    out,
                    origin,
                });
                Ok(outs)
            }
        }
    }

    fn finish(mut self, inputs: Vec<Ty>, results: Vec<usize>) -> Result<Plan<B>> {
        for (i, draft) in self.drafts.iter().enumerate() {
            for v in &draft.args {
                self.values[*v].last = i;
            }
        }
        for v in &results {
            self.values[*v].last = END;
        }
        self.check_memory(inputs.len(), &results)?;
        let commit = self
            .drafts
            .iter()
            .rposition(|d| !is_infallible(&d.op) || self.is_faulty(&d.op))
            .map_or(0, |i| i + 1);

        let mut slots = inputs.len();
        let mut free: Vec<usize> = Vec::new();
        for (v, value) in self.values.iter_mut().take(inputs.len()).enumerate() {
            value.slot = v;
        }
        let drafts = std::mem::take(&mut self.drafts);
        let mut steps = Vec::with_capacity(drafts.len());
        for (i, draft) in drafts.into_iter().enumerate() {
            let args = self.sources(&draft.args, i);
            for source in &args {
                if let Source::Move(slot) = source {
                    free.push(*slot);
                }
            }
            let slot = free.pop().unwrap_or_else(|| {
                slots += 1;
                slots - 1
            });
            self.values[draft.out].slot = slot;
            if self.values[draft.out].last == UNUSED {
                free.push(slot);
            }
            let types = draft.args.iter().map(|v| self.values[*v].ty.clone());
            let arg_types: Vec<Ty> = types.collect();
            let out = self.values[draft.out].ty.clone();
            let fault = self.is_faulty(&draft.op);
            let map = choose::<B>(self.planner.device, &draft.op, &arg_types, &out);
            let mut reuse = [false; 3];
            for ((k, reuse), ty) in reuse.iter_mut().enumerate().zip(&arg_types) {
                let others = draft.args.iter().enumerate().filter(|(i, _)| *i != k);
                *reuse = *ty == out
                    && matches!(args[k], Source::Move(_))
                    && others.into_iter().all(|(_, v)| *v != draft.args[k]);
            }
            steps.push(Step {
                args,
                arg_types,
                out,
                slot,
                map: map.filter(|_| !fault),
                reuse,
                origin: draft.origin,
                fault,
                op: draft.op,
            });
        }
        let types: Vec<Ty> = results.iter().map(|v| self.values[*v].ty.clone()).collect();
        let results = self.sources(&results, END).into_iter().zip(types).collect();
        Ok(Plan {
            inputs,
            steps,
            slots,
            results,
            commit,
            stamp: AtomicU64::new(0),
        })
    }

    fn is_faulty(&self, op: &Op<usize>) -> bool {
        self.planner.fault == Some(op.info().name)
    }

    /// Operands for step `at`: a value is moved at the last place that uses it.
    fn sources(&self, values: &[usize], at: usize) -> Vec<Source<B>> {
        values
            .iter()
            .enumerate()
            .map(|(i, v)| {
                let value = &self.values[*v];
                match &value.constant {
                    Some(constant) => Source::Const(constant.clone()),
                    None if value.last == at && !values[i + 1..].contains(v) => {
                        Source::Move(value.slot)
                    }
                    None => Source::Copy(value.slot),
                }
            })
            .collect()
    }

    fn check_memory(&self, inputs: usize, results: &[usize]) -> Result<()> {
        let limit = self.planner.memory_limit;
        let types: Vec<&Ty> = self.values.iter().map(|v| &v.ty).collect();
        let uses: Vec<Use> = self
            .drafts
            .iter()
            .map(|d| Use {
                op: &d.op,
                args: &d.args,
                out: d.out,
            })
            .collect();
        let resident = |v: usize| v < inputs || self.values[v].constant.is_some();
        let peak = peak::estimate(&types, &uses, results, &resident);
        if peak.bytes <= limit {
            return Ok(());
        }
        let largest: Vec<String> = peak
            .largest
            .iter()
            .map(|v| {
                let name = match self.drafts.iter().find(|d| d.out == *v) {
                    Some(d) => {
                        let f = &self.planner.program.functions[d.origin.function];
                        let place = location(self.planner.program, &f.nodes[d.origin.node])
                            .map_or_else(String::new, |at| format!(" at {}:{}", at.file, at.line));
                        format!(
                            "{} (node {} of {}{place})",
                            d.op.info().name,
                            d.origin.node,
                            f.name
                        )
                    }
                    None => "an argument or constant".to_string(),
                };
                format!(
                    "{name}: {} of {} bytes",
                    self.values[*v].ty,
                    self.values[*v].ty.bytes()
                )
            })
            .collect();
        let error = Error::out_of_memory(format!(
            "the run would hold {} bytes at a time, the limit is {limit}; the largest: {}",
            peak.bytes,
            largest.join("; ")
        ))
        .with("needed", peak.bytes)
        .with("limit", limit)
        .with("largest", largest);
        Err(match peak.step {
            Some(step) => self.planner.locate(self.drafts[step].origin, error),
            None => error,
        })
    }
}

fn same(declared: &[Ty], inferred: &[Ty]) -> Result<()> {
    if declared == inferred {
        return Ok(());
    }
    let show = |list: &[Ty]| {
        list.iter()
            .map(Ty::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    Err(Error::invalid_program(format!(
        "declared as {}, but gives {}",
        show(declared),
        show(inferred)
    ))
    .with_code("type-mismatch"))
}
