//! Runs a plan.

use burn_backend::tensor::Device;

use crate::backend::{ExecBackend, no_host};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::exec::{Map, execute, map_into, map_new};
use crate::host::HostView;
use crate::host::row::Kernel;
use crate::panics;
use crate::plan::{Origin, Plan, Source, Step};
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
        let out = match &step.map {
            Some(Map::One(kernel)) => mapped(device, *kernel, step, &mut frame)?,
            Some(Map::Two(kernel)) => mapped(device, *kernel, step, &mut frame)?,
            Some(Map::Three(kernel)) => mapped(device, *kernel, step, &mut frame)?,
            None => {
                // `collect` into a `Result` does not know the length, and allocates more than once.
                let mut args = Vec::with_capacity(step.args.len());
                for source in &step.args {
                    args.push(fetch(&mut frame, source)?);
                }
                if step.fault {
                    panic!("injected fault in {}", step.op.info().name);
                }
                execute(device, &step.op, args, &step.arg_types, &step.out)?
            }
        };
        frame[step.slot] = Some(out);
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

/// Runs an elementwise step on the operands where they lie, in place where one of them is ours alone.
fn mapped<B: ExecBackend, const N: usize>(
    device: &Device<B>,
    kernel: Kernel<N>,
    step: &Step<B>,
    frame: &mut [Option<Val<B>>],
) -> Result<Val<B>> {
    let mut free = None;
    for (source, _) in step.args.iter().zip(step.reuse).filter(|(_, reuse)| *reuse) {
        if let Source::Move(slot) = source
            && let Some(val) = &mut frame[*slot]
            && let Some(memory) = B::dense_mut(val)
        {
            free = Some((*slot, memory));
            break;
        }
    }
    let mut views = [HostView {
        ptr: std::ptr::null(),
        shape: &[],
        strides: &[],
        dtype: DType::U8,
    }; N];
    for (view, source) in views.iter_mut().zip(&step.args) {
        let val = match source {
            Source::Move(slot) | Source::Copy(slot) => frame[*slot].as_ref(),
            Source::Const(val) => Some(val),
        };
        let val = val.ok_or_else(used)?;
        *view = B::view(val).ok_or_else(|| no_host::<B>(step.op.info().name))?;
    }
    let (shape, itemsize) = (&step.out.shape, step.out.dtype.itemsize());
    let out = match free {
        Some((slot, memory)) => {
            // SAFETY: the op is verified, so operands broadcast to the shape of the result; the memory is that of an
            // operand of the same type, which nobody else holds and which is not an operand twice.
            unsafe { map_into(kernel, shape, views, memory, itemsize) };
            frame[slot].take().ok_or_else(used)?
        }
        None => {
            // SAFETY: as above.
            let bytes = unsafe { map_new(kernel, shape, views, itemsize) };
            B::upload(bytes, &step.out, device)?
        }
    };
    for source in &step.args {
        if let Source::Move(slot) = source {
            frame[*slot] = None;
        }
    }
    Ok(out)
}

fn used() -> Error {
    Error::runtime("a value is used after its last use")
}

fn fetch<B: ExecBackend>(frame: &mut [Option<Val<B>>], source: &Source<B>) -> Result<Val<B>> {
    let val = match source {
        Source::Move(slot) => frame[*slot].take(),
        Source::Copy(slot) => frame[*slot].clone(),
        Source::Const(val) => Some(val.clone()),
    };
    val.ok_or_else(used)
}
