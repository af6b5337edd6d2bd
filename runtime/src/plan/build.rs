//! From the nodes of a function to steps.

use super::peak::{self, Use, is_view};
use super::{Body, Ends, Origin, Planner, Source, Step, Work};
use crate::backend::ExecBackend;
use crate::dim::Env;
use crate::dtype::DType;
use crate::error::{Error, Result, Status};
use crate::exec::kernel;
use crate::infer::{has_scratch, infer, is_infallible, scratch_bytes};
use crate::limits::check_bytes;
use crate::op::Op;
use crate::program::Node;
use crate::symbolic::{resolve, solve};
use crate::value::{Ty, Val};

/// A value while planning.
struct Value<B: ExecBackend> {
    ty: Ty,
    constant: Option<Val<B>>,
    /// Index of the step that uses it last.
    last: usize,
    slot: usize,
}

/// A step to be; values by number, without tokens.
struct Draft<B: ExecBackend> {
    work: Work<B>,
    name: &'static str,
    args: Vec<usize>,
    outs: Vec<usize>,
    origin: Origin,
    scratch: usize,
}

/// What a node other than a plain op comes to.
pub(super) struct Nested<B: ExecBackend> {
    pub work: Work<B>,
    /// Types of its results, tokens included.
    pub outs: Vec<Ty>,
    /// Bytes that it needs besides operands and results.
    pub scratch: usize,
}

struct Builder<'a, B: ExecBackend> {
    planner: &'a Planner<'a, B>,
    values: Vec<Value<B>>,
    drafts: Vec<Draft<B>>,
    /// See [`Origin::site`].
    site: Option<usize>,
}

/// Used by the results, or kept for whoever runs the steps.
const END: usize = usize::MAX;
const UNUSED: usize = usize::MAX - 1;

impl<B: ExecBackend> Planner<'_, B> {
    /// Plans a function; also gives the types of all its results.
    pub(super) fn body(
        &self,
        function: usize,
        inputs: &[Ty],
        env: &Env,
        ends: Ends,
    ) -> Result<(Body<B>, Vec<Ty>)> {
        let mut builder = Builder {
            planner: self,
            values: Vec::new(),
            drafts: Vec::new(),
            site: None,
        };
        let args: Vec<usize> = inputs
            .iter()
            .map(|ty| builder.value(ty.clone(), None))
            .collect();
        let results = builder.inline(function, args, env)?;
        let types = results.iter().map(|v| builder.ty(*v).clone()).collect();
        let body = builder.finish(inputs.len(), ends, &results)?;
        Ok((body, types))
    }

    /// The types that a function gives, each of its nodes checked.
    pub(super) fn result_types(
        &self,
        function: usize,
        inputs: &[Ty],
        env: &Env,
    ) -> Result<Vec<Ty>> {
        let env = self.enter(function, inputs, env)?;
        let mut builder = Builder {
            planner: self,
            values: Vec::new(),
            drafts: Vec::new(),
            site: None,
        };
        let args = inputs.iter().map(|ty| builder.value(ty.clone(), None));
        let args: Vec<usize> = args.collect();
        let results = builder.inline(function, args, &env)?;
        Ok(results.iter().map(|v| builder.ty(*v).clone()).collect())
    }

    fn is_faulty(&self, name: &str) -> bool {
        self.fault == Some(name)
    }
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

    fn ty(&self, v: usize) -> &Ty {
        &self.values[v].ty
    }

    fn is_token(&self, v: usize) -> bool {
        self.ty(v).dtype == DType::Token
    }

    fn without_tokens(&self, values: &[usize]) -> Vec<usize> {
        let values = values.iter().copied();
        values.filter(|v| !self.is_token(*v)).collect()
    }

    /// Writes a function out; the depth of calls is bounded by the verifier.
    fn inline(&mut self, index: usize, args: Vec<usize>, env: &Env) -> Result<Vec<usize>> {
        let function = &self.planner.program.functions[index];
        let mut numbering = args;
        for (n, node) in function.nodes.iter().enumerate() {
            let origin = Origin {
                function: index,
                node: n,
                site: self.site,
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
        let args: Vec<usize> = node.inputs.iter().map(|v| numbering[*v]).collect();
        let declared: Vec<Ty> = node
            .outs
            .iter()
            .map(|t| resolve(t, env))
            .collect::<Result<_>>()?;
        let types: Vec<Ty> = args.iter().map(|v| self.ty(*v).clone()).collect();
        if let Op::Constant { value } = &node.op {
            let ty = declared.into_iter().next();
            let ty = ty.ok_or_else(|| Error::invalid_program("a constant has one result"))?;
            let constant = (self.planner.constant)(value, &ty)?;
            return Ok(vec![self.value(ty, Some(constant))]);
        }
        let op = node.op.map_dims(|d| d.eval(env))?;
        let name = op.info().name;
        let nested = self.planner.nested(&op, &types, &declared, env)?;
        let nested = match (nested, written_out(&op)) {
            (Some(nested), _) => nested,
            (None, Some(function)) => {
                let outside = self.site;
                self.site = node.loc.or(outside);
                let outs = self.call(function, args, &types, &declared, env);
                self.site = outside;
                return outs;
            }
            (None, None) => {
                let outs = infer(&op, &types).map_err(invalid)?;
                let scratch = if has_scratch(&op) {
                    scratch_bytes(&op, &types, &outs)
                } else {
                    0
                };
                Nested {
                    work: Work::Op(op),
                    outs,
                    scratch,
                }
            }
        };
        same(&declared, &nested.outs)?;
        let outs: Vec<usize> = nested
            .outs
            .into_iter()
            .map(|ty| self.value(ty, None))
            .collect();
        if !matches!(node.op, Op::Token) {
            self.drafts.push(Draft {
                work: nested.work,
                name,
                args: self.without_tokens(&args),
                outs: self.without_tokens(&outs),
                origin,
                scratch: nested.scratch,
            });
        }
        Ok(outs)
    }

    fn call(
        &mut self,
        function: usize,
        args: Vec<usize>,
        types: &[Ty],
        declared: &[Ty],
        env: &Env,
    ) -> Result<Vec<usize>> {
        let env = self.planner.enter(function, types, env)?;
        let outs = self.inline(function, args, &env)?;
        let types: Vec<Ty> = outs.iter().map(|v| self.ty(*v).clone()).collect();
        same(declared, &types)?;
        Ok(outs)
    }

    /// Slots for the values, and steps.
    fn finish(mut self, inputs: usize, ends: Ends, results: &[usize]) -> Result<Body<B>> {
        for (i, draft) in self.drafts.iter().enumerate() {
            for v in &draft.args {
                self.values[*v].last = i;
            }
            let spreads = matches!(&draft.work, Work::Op(Op::BroadcastTo { .. }));
            for v in draft.outs.iter().filter(|_| spreads) {
                check_bytes(self.ty(*v).bytes(), self.planner.most)
                    .map_err(|e| self.planner.locate(draft.origin, e))?;
            }
        }
        let inputs: Vec<usize> = self.without_tokens(&(0..inputs).collect::<Vec<_>>());
        let results = self.without_tokens(results);
        for v in inputs.iter().take(ends.kept).chain(&results) {
            self.values[*v].last = END;
        }
        let peak = self.peak(&inputs, &results);
        let can_fail = |d: &Draft<B>| match &d.work {
            _ if self.planner.is_faulty(d.name) => true,
            Work::Op(op) => !is_infallible(op),
            // Like a kernel of our own: it has no reason to fail.
            Work::Kernel(fused) => !fused.elementwise,
            _ => true,
        };
        let commit = self.drafts.iter().rposition(can_fail).map_or(0, |i| i + 1);

        let mut slots = inputs.len();
        let mut free: Vec<usize> = Vec::new();
        for (slot, v) in inputs.iter().enumerate() {
            self.values[*v].slot = slot;
        }
        let drafts = std::mem::take(&mut self.drafts);
        let mut steps = Vec::with_capacity(drafts.len());
        for (i, draft) in drafts.into_iter().enumerate() {
            let args = self.sources(&draft.args, i, &[]);
            for source in &args {
                if let Source::Move(slot) = source {
                    free.push(*slot);
                }
            }
            for v in &draft.outs {
                self.values[*v].slot = free.pop().unwrap_or_else(|| {
                    slots += 1;
                    slots - 1
                });
            }
            for v in draft
                .outs
                .iter()
                .filter(|v| self.values[**v].last == UNUSED)
            {
                free.push(self.values[*v].slot);
            }
            steps.push(self.step(draft, args));
        }
        let kept: Vec<usize> = inputs.iter().take(ends.kept).copied().collect();
        let types: Vec<Ty> = results.iter().map(|v| self.ty(*v).clone()).collect();
        let mut order = results;
        order.rotate_left(ends.late);
        let mut sources = self.sources(&order, END, &kept);
        sources.rotate_right(ends.late);
        let results = sources.into_iter().zip(types);
        Ok(Body {
            results: results.collect(),
            inputs: inputs.iter().map(|v| self.ty(*v).clone()).collect(),
            steps,
            commit,
            slots,
            peak,
        })
    }

    fn step(&self, draft: Draft<B>, args: Vec<Source<B>>) -> Step<B> {
        let types = |list: &[usize]| list.iter().map(|v| self.ty(*v).clone()).collect();
        let (arg_types, outs): (Vec<Ty>, Vec<Ty>) = (types(&draft.args), types(&draft.outs));
        let mut reuse = [false; 3];
        for ((k, reuse), ty) in reuse.iter_mut().enumerate().zip(&arg_types) {
            let mut others = draft.args.iter().enumerate().filter(|(i, _)| *i != k);
            *reuse = outs.first() == Some(ty)
                && matches!(args[k], Source::Move(_))
                && others.all(|(_, v)| *v != draft.args[k]);
        }
        let fault = self.planner.is_faulty(draft.name);
        let work = match draft.work {
            // What has no kernel for its dtypes says so when it runs.
            Work::Op(op) if B::HOST && !fault => match kernel(&op, &arg_types, &outs[0]) {
                Ok(Some(map)) => Work::Map(map),
                _ => Work::Op(op),
            },
            Work::Kernel(mut fused) => {
                fused.in_place.retain(|(k, _)| {
                    let same = draft.args.iter().filter(|v| **v == draft.args[*k]);
                    matches!(args[*k], Source::Move(_)) && same.count() == 1
                });
                Work::Kernel(fused)
            }
            other => other,
        };
        Step {
            name: draft.name,
            work,
            args,
            arg_types,
            slots: draft.outs.iter().map(|v| self.values[*v].slot).collect(),
            outs,
            reuse,
            origin: draft.origin,
            fault,
        }
    }

    /// Operands for step `at`: a value is moved at the last place that uses it, unless it is kept.
    fn sources(&self, values: &[usize], at: usize, kept: &[usize]) -> Vec<Source<B>> {
        values
            .iter()
            .enumerate()
            .map(|(i, v)| {
                let value = &self.values[*v];
                let last = value.last == at && !values[i + 1..].contains(v) && !kept.contains(v);
                match &value.constant {
                    Some(constant) => Source::Const(constant.clone()),
                    None if last => Source::Move(value.slot),
                    None => Source::Copy(value.slot),
                }
            })
            .collect()
    }

    /// The bytes held at a time, from above.
    fn peak(&self, inputs: &[usize], results: &[usize]) -> usize {
        let types: Vec<&Ty> = self.values.iter().map(|v| &v.ty).collect();
        let uses: Vec<Use> = self
            .drafts
            .iter()
            .map(|d| Use {
                args: &d.args,
                outs: &d.outs,
                view: matches!(&d.work, Work::Op(op) if is_view(op)),
                scratch: d.scratch,
            })
            .collect();
        let mut arguments = vec![false; types.len()];
        for v in inputs {
            arguments[*v] = true;
        }
        let resident = |v: usize| arguments[v] || self.values[v].constant.is_some();
        peak::estimate(&types, &uses, results, &resident)
    }
}

impl<B: ExecBackend> Planner<'_, B> {
    /// The sizes inside a function that is applied to values of these types.
    pub(super) fn enter(&self, function: usize, types: &[Ty], env: &Env) -> Result<Env> {
        let callee = &self.program.functions[function];
        let actual: Vec<&Ty> = types.iter().collect();
        solve(&callee.inputs, &actual, &self.program.dims, env, &|i| {
            format!("operand {i} of the call of {:?}", callee.name)
        })
        .map_err(invalid)
    }
}

/// The function of an op that is run by running it in the place of the op.
fn written_out(op: &Op<usize>) -> Option<usize> {
    match op {
        Op::Call { function, .. }
        | Op::Checkpoint { function, .. }
        | Op::Fused { function, .. } => Some(*function),
        Op::CustomVjp { primal, .. } | Op::CustomJvp { primal, .. } => Some(*primal),
        _ => None,
    }
}

pub(super) fn invalid(e: Error) -> Error {
    e.with_status(Status::InvalidProgram)
}

/// Refuses other types than those that were declared.
pub(super) fn same(declared: &[Ty], inferred: &[Ty]) -> Result<()> {
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
