//! Nodes that are steps of another kind than an op: control flow, native kernels, effects. Their types are checked here.

use std::rc::Rc;
use std::sync::Arc;

use super::build::{Nested, invalid, same};
use super::{Effect, Ends, Fused, Planned, Planner, Scan, While, Work};
use crate::backend::ExecBackend;
use crate::dim::Env;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::dense_strides;
use crate::kernels;
use crate::op::{Family, Op};
use crate::value::Ty;

fn bad(message: String) -> Error {
    Error::invalid_program(message)
}

/// How many of the types are no tokens.
fn stored(types: &[Ty]) -> usize {
    types.iter().filter(|t| t.dtype != DType::Token).count()
}

fn bytes(types: &[Ty]) -> usize {
    types.iter().fold(0, |n, t| n.saturating_add(t.bytes()))
}

fn expect(what: &str, have: &[Ty], wanted: &[Ty]) -> Result<()> {
    same(wanted, have).map_err(|e| e.inside(what))
}

impl<B: ExecBackend> Planner<'_, B> {
    /// What the op comes to on operands of these types; none for one that is an op of the engine or written out.
    /// The verifier has checked the counts of operands and results.
    pub(super) fn nested(
        &self,
        op: &Op<usize>,
        types: &[Ty],
        declared: &[Ty],
        env: &Env,
    ) -> Result<Option<Nested<B>>> {
        let effect = |effect, results: Vec<Ty>| Nested {
            work: Work::Effect(effect),
            outs: [Ty::scalar(DType::Token)]
                .into_iter()
                .chain(results)
                .collect(),
            scratch: 0,
        };
        Ok(Some(match op {
            Op::Cond { branches } => self.cond(branches, types, env)?,
            Op::WhileLoop { cond, body, consts } => {
                self.while_loop(*cond, *body, *consts as usize, types, env)?
            }
            Op::Scan {
                body,
                consts,
                carries,
                length,
                reverse,
            } => {
                let scan = (*consts as usize, *carries as usize, length[0], *reverse);
                self.scan(*body, scan, types, env)?
            }
            Op::Fused {
                function,
                key,
                space,
                axes,
                parallel,
                ..
            } => {
                let shape = Shape {
                    space,
                    axes,
                    parallel: *parallel as usize,
                };
                return self.fused((*function, key), &shape, types, declared, env);
            }
            // It never becomes a step, so what kind of effect it would be does not matter.
            Op::Token => effect(Effect::Tap(String::new()), Vec::new()),
            Op::Print { format } => effect(Effect::Print(format.clone()), Vec::new()),
            Op::Tap { name } => effect(Effect::Tap(name.clone()), Vec::new()),
            Op::Assert { message } => effect(Effect::Assert(message.clone()), Vec::new()),
            Op::Callback { name, results } => {
                let results = results.iter().map(|t| Ty::new(t.dtype, t.shape.clone()));
                effect(
                    Effect::Callback(name.clone()),
                    results.collect::<Result<_>>().map_err(invalid)?,
                )
            }
            _ => return Ok(None),
        }))
    }

    /// A function for arguments of these types, planned once, however often and wherever it is used.
    fn planned(
        &self,
        function: usize,
        types: &[Ty],
        env: &Env,
        ends: Ends,
    ) -> Result<Rc<Planned<B>>> {
        let env = self.enter(function, types, env)?;
        let key = (function, types.to_vec(), env, ends);
        if let Some(found) = self.bodies.borrow().get(&key) {
            return Ok(Rc::clone(found));
        }
        let (body, results) = self.body(function, types, &key.2, ends)?;
        let body = Arc::new(body);
        let planned = Rc::new(Planned { body, results });
        self.bodies.borrow_mut().insert(key, Rc::clone(&planned));
        Ok(planned)
    }

    fn cond(&self, branches: &[usize], types: &[Ty], env: &Env) -> Result<Nested<B>> {
        let mut outs: Option<Vec<Ty>> = None;
        let (mut bodies, mut scratch) = (Vec::with_capacity(branches.len()), 0);
        for (i, function) in branches.iter().enumerate() {
            let planned = self.planned(*function, &types[1..], env, Ends::default())?;
            if let Some(outs) = &outs {
                expect(&format!("branch {i}"), &planned.results, outs)?;
            } else {
                outs = Some(planned.results.clone());
            }
            // Its arguments are the operands themselves.
            scratch = scratch.max(planned.body.peak.saturating_sub(bytes(&types[1..])));
            bodies.push(Arc::clone(&planned.body));
        }
        Ok(Nested {
            work: Work::Cond(bodies),
            outs: outs.ok_or_else(|| bad("there is no branch".to_string()))?,
            scratch,
        })
    }

    fn while_loop(
        &self,
        cond: usize,
        body: usize,
        consts: usize,
        types: &[Ty],
        env: &Env,
    ) -> Result<Nested<B>> {
        let all = Ends {
            kept: types.len(),
            late: 0,
        };
        let cond = self.planned(cond, types, env, all)?;
        expect("the condition", &cond.results, &[Ty::scalar(DType::Bool)])?;
        let fixed = stored(&types[..consts]);
        let ends = Ends {
            kept: fixed,
            late: 0,
        };
        let body = self.planned(body, types, env, ends)?;
        expect("the body", &body.results, &types[consts..])?;
        let peak = cond.body.peak.max(body.body.peak);
        Ok(Nested {
            outs: body.results.clone(),
            // The constants are the operands themselves.
            scratch: peak.saturating_sub(bytes(&types[..consts])),
            work: Work::While(While {
                cond: Arc::clone(&cond.body),
                body: Arc::clone(&body.body),
                consts: fixed,
            }),
        })
    }

    fn scan(
        &self,
        body: usize,
        (consts, carries, length, reverse): (usize, usize, usize, bool),
        types: &[Ty],
        env: &Env,
    ) -> Result<Nested<B>> {
        let first = consts + carries;
        let mut inner = types[..first].to_vec();
        for ty in &types[first..] {
            match ty.shape.split_first() {
                Some((n, rest)) if *n == length => inner.push(Ty::new(ty.dtype, rest.to_vec())?),
                _ => return Err(bad(format!("{ty} does not have {length} slices"))),
            }
        }
        let ends = Ends {
            kept: stored(&types[..consts]),
            late: stored(&types[consts..first]),
        };
        let planned = self.planned(body, &inner, env, ends)?;
        expect(
            "the carry",
            &planned.results[..carries],
            &types[consts..first],
        )?;
        let mut outs = planned.results[..carries].to_vec();
        for ty in &planned.results[carries..] {
            if ty.dtype == DType::Token {
                return Err(bad("a token cannot be stacked".to_string()));
            }
            let shape = [length].iter().chain(&ty.shape).copied().collect();
            outs.push(Ty::new(ty.dtype, shape).map_err(invalid)?);
        }
        // The constants are the operands themselves, and slices are views.
        let shared = bytes(&types[..consts]).saturating_add(bytes(&inner[first..]));
        Ok(Nested {
            outs,
            scratch: planned.body.peak.saturating_sub(shared),
            work: Work::Scan(Scan {
                body: Arc::clone(&planned.body),
                consts: ends.kept,
                carries: ends.late,
                length,
                reverse,
            }),
        })
    }

    /// The registered kernel; none where there is no such kernel, or it cannot be run here.
    fn fused(
        &self,
        (function, key): (usize, &str),
        shape: &Shape<'_>,
        types: &[Ty],
        declared: &[Ty],
        env: &Env,
    ) -> Result<Option<Nested<B>>> {
        shape.check(types.iter().chain(declared))?;
        let all = || types.iter().chain(declared);
        if !B::HOST
            || !kernels::any()
            || all().any(|t| matches!(t.dtype, DType::Key | DType::Token))
        {
            return Ok(None);
        }
        let mut at = 0;
        let mut named = Vec::with_capacity(types.len() + declared.len());
        for ty in all() {
            named.push((ty.dtype, &shape.axes[at..at + ty.rank()]));
            at += ty.rank();
        }
        let (rank, parallel) = (shape.space.len(), shape.parallel);
        let (operands, results) = named.split_at(types.len());
        let Some(kernel) = kernels::find(&kernels::name(key, operands, results, rank, parallel))
        else {
            return Ok(None);
        };
        same(declared, &self.result_types(function, types, env)?)?;
        let elementwise = self.is_elementwise(function);
        let mut in_place = Vec::new();
        for (out, (_, over)) in results.iter().enumerate() {
            if elementwise && shape.is_covered_by(over) {
                let fits = |k: &usize| types[*k] == declared[out] && operands[*k].1 == *over;
                in_place.extend((0..types.len()).filter(fits).map(|k| (k, out)));
            }
        }
        let mut out_strides = vec![0; results.len() * rank];
        for (k, (ty, (_, axes))) in declared.iter().zip(results).enumerate() {
            add_strides(
                &mut out_strides[k * rank..][..rank],
                axes,
                &dense_strides(&ty.shape),
                ty.dtype.itemsize(),
            );
        }
        let product = |axes: &[usize]| axes.iter().fold(1, |n: usize, d| n.saturating_mul(*d));
        let operand_dims = types.iter().map(Ty::rank).sum();
        Ok(Some(Nested {
            work: Work::Kernel(Fused {
                kernel,
                extents: shape.space.iter().map(|d| *d as i64).collect(),
                unit: product(&shape.space[parallel..]),
                units: product(&shape.space[..parallel]),
                axes: shape.axes[..operand_dims].to_vec(),
                out_strides,
                elementwise,
                in_place,
            }),
            outs: declared.to_vec(),
            scratch: 0,
        }))
    }
}

impl<B: ExecBackend> Planner<'_, B> {
    /// True when each element of the results depends on no more than one of each operand.
    fn is_elementwise(&self, function: usize) -> bool {
        self.program.functions[function].nodes.iter().all(|node| {
            matches!(
                node.op.info().family,
                Family::Unary | Family::Binary | Family::Ternary
            ) || matches!(node.op, Op::Constant { .. } | Op::BroadcastTo { .. })
        })
    }
}

/// Adds the strides of the dims of a value to those of the axes that they run over, in bytes.
pub fn add_strides(along: &mut [i64], axes: &[i64], strides: &[isize], itemsize: usize) {
    for (axis, stride) in axes.iter().zip(strides) {
        if let Some(along) = usize::try_from(*axis).ok().and_then(|a| along.get_mut(a)) {
            *along += *stride as i64 * itemsize as i64;
        }
    }
}

/// How a fused graph iterates.
struct Shape<'a> {
    space: &'a [usize],
    axes: &'a [i64],
    parallel: usize,
}

impl Shape<'_> {
    /// True when the axes are all those of the space, each once: then nothing is written twice.
    fn is_covered_by(&self, axes: &[i64]) -> bool {
        axes.len() == self.space.len() && (0..axes.len() as i64).all(|a| axes.contains(&a))
    }

    /// Every dim runs over an axis of its size, or is of size 1 and runs over none.
    fn check<'t>(&self, types: impl Iterator<Item = &'t Ty>) -> Result<()> {
        let dims: Vec<usize> = types.flat_map(|t| t.shape.iter().copied()).collect();
        if dims.len() != self.axes.len() {
            return Err(bad(format!(
                "{} axes are named for {} dims of operands and results",
                self.axes.len(),
                dims.len()
            )));
        }
        for (dim, axis) in dims.iter().zip(self.axes) {
            let fits = match usize::try_from(*axis) {
                Ok(axis) => self.space.get(axis) == Some(dim),
                Err(_) => *axis == -1 && *dim == 1,
            };
            if !fits {
                return Err(bad(format!(
                    "a dim of size {dim} cannot run over axis {axis} of {:?}",
                    self.space
                )));
            }
        }
        // The elements of the space, and of its parts, are counted in 64 bits.
        Ty::new(DType::U8, self.space.to_vec()).map_err(invalid)?;
        Ok(())
    }
}
