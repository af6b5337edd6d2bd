//! Runs a plan.

use burn_backend::tensor::Device;

use crate::backend::ExecBackend;
use crate::error::{Error, Result};
use crate::exec::execute;
use crate::panics;
use crate::plan::{Origin, Plan, Source};
use crate::value::Val;

/// Executes the steps on `frame`, whose first slots hold the arguments. `commit` is called once, when nothing that can
/// fail is left: it drops what keeps the arguments alive elsewhere. Gives the results in order, or an error with the
/// node at fault.
pub fn run<B: ExecBackend>(
    device: &Device<B>,
    plan: &Plan<B>,
    frame: Vec<Option<Val<B>>>,
    mut commit: impl FnMut(),
) -> Result<Vec<Val<B>>, (Error, Option<Origin>)> {
    let mut at = 0;
    let out = panics::catch(|| steps(device, plan, frame, &mut commit, &mut at));
    let here = plan.steps.get(at).map(|s| s.origin);
    match out {
        Ok(Ok(results)) => Ok(results),
        Ok(Err(error)) | Err(error) => Err((error, here)),
    }
}

fn steps<B: ExecBackend>(
    device: &Device<B>,
    plan: &Plan<B>,
    mut frame: Vec<Option<Val<B>>>,
    commit: &mut impl FnMut(),
    at: &mut usize,
) -> Result<Vec<Val<B>>> {
    for (i, step) in plan.steps.iter().enumerate() {
        *at = i;
        if i == plan.commit {
            commit();
        }
        // `collect` into a `Result` does not know the length, and allocates more than once.
        let mut args = Vec::with_capacity(step.args.len());
        for source in &step.args {
            args.push(fetch(&mut frame, source)?);
        }
        if step.fault {
            panic!("injected fault in {}", step.op.info().name);
        }
        let outs = execute(device, &step.op, args, &step.arg_types, &step.outs)?;
        for (slot, out) in step.slots.iter().zip(outs) {
            frame[*slot] = Some(out);
        }
    }
    *at = plan.steps.len();
    if plan.commit == plan.steps.len() {
        commit();
    }
    let mut results = Vec::with_capacity(plan.results.len());
    for (source, _) in &plan.results {
        results.push(fetch(&mut frame, source)?);
    }
    Ok(results)
}

fn fetch<B: ExecBackend>(frame: &mut [Option<Val<B>>], source: &Source<B>) -> Result<Val<B>> {
    let val = match source {
        Source::Move(slot) => frame[*slot].take(),
        Source::Copy(slot) => frame[*slot].clone(),
        Source::Const(val) => Some(val.clone()),
    };
    val.ok_or_else(|| Error::runtime("a value is used after its last use"))
}
