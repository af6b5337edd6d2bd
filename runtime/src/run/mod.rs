//! Runs a plan.

mod control;
mod effect;
mod kernel;

use std::cell::{Cell, RefCell};

use burn_backend::tensor::Device;

use crate::backend::ExecBackend;
use crate::effects::Poll;
use crate::error::{Error, Result};
use crate::exec::{Map, execute, map_into, map_new, views_of};
use crate::host::row::Kernel;
use crate::panics;
use crate::plan::{Body, Origin, Plan, Source, Step, Work};
use crate::value::Val;

/// The values of a body, by slot.
type Frame<B> = Vec<Option<Val<B>>>;

/// One run: what the bodies of a plan share.
struct Run<'a, B: ExecBackend> {
    device: &'a Device<B>,
    /// The node that runs, for errors and panics from whatever depth.
    at: Cell<Option<Origin>>,
    poll: Poll,
    /// Frames and lists of values to use again.
    spare: RefCell<Vec<Frame<B>>>,
}

/// Executes the steps on `frame`, whose first slots hold the arguments. `commit` is called once, when nothing that can
/// fail is left: it drops what keeps the arguments alive elsewhere. Gives the results in order, or an error with the
/// node at fault.
pub fn run<B: ExecBackend>(
    device: &Device<B>,
    plan: &Plan<B>,
    mut frame: Vec<Option<Val<B>>>,
    commit: impl FnOnce(),
) -> Result<Vec<Val<B>>, (Error, Option<Origin>)> {
    let run = Run {
        device,
        at: Cell::new(None),
        poll: Poll::default(),
        spare: RefCell::new(Vec::new()),
    };
    let out = panics::catch(|| {
        let (before, after) = plan.body.steps.split_at(plan.body.commit);
        run.steps(before, &mut frame)?;
        commit();
        run.steps(after, &mut frame)?;
        run.at.set(None);
        let mut results = Vec::with_capacity(plan.body.results.len());
        for (source, _) in &plan.body.results {
            results.push(fetch(&mut frame, source)?);
        }
        Ok(results)
    });
    match out {
        Ok(Ok(results)) => Ok(results),
        Ok(Err(error)) | Err(error) => Err((error, run.at.get())),
    }
}

impl<B: ExecBackend> Run<'_, B> {
    fn steps(&self, steps: &[Step<B>], frame: &mut [Option<Val<B>>]) -> Result<()> {
        for step in steps {
            self.at.set(Some(step.origin));
            match &step.work {
                Work::Map(Map::One(kernel)) => self.mapped(*kernel, step, frame)?,
                Work::Map(Map::Two(kernel)) => self.mapped(*kernel, step, frame)?,
                Work::Map(Map::Three(kernel)) => self.mapped(*kernel, step, frame)?,
                Work::Op(op) => {
                    // `collect` into a `Result` does not know the length, and allocates more than once.
                    let mut args = Vec::with_capacity(step.args.len());
                    for source in &step.args {
                        args.push(fetch(frame, source)?);
                    }
                    if step.fault {
                        panic!("injected fault in {}", step.name);
                    }
                    let out = execute(self.device, op, args, &step.arg_types, &step.outs[0])?;
                    frame[step.slots[0]] = Some(out);
                }
                other => self.nested(other, step, frame)?,
            }
        }
        Ok(())
    }

    /// Steps that are no ops.
    #[inline(never)]
    fn nested(&self, work: &Work<B>, step: &Step<B>, frame: &mut [Option<Val<B>>]) -> Result<()> {
        if step.fault {
            panic!("injected fault in {}", step.name);
        }
        match work {
            Work::Cond(branches) => self.cond(branches, step, frame),
            Work::While(looped) => self.while_loop(looped, step, frame),
            Work::Scan(scan) => self.scan(scan, step, frame),
            Work::Kernel(fused) => self.kernel(fused, step, frame),
            Work::Effect(effect) => self.effect(effect, step, frame),
            Work::Map(_) | Work::Op(_) => Err(Error::runtime("an op is not nested")),
        }
    }

    /// Runs an elementwise step on the operands where they lie, in place where one of them is ours alone.
    fn mapped<const N: usize>(
        &self,
        kernel: Kernel<N>,
        step: &Step<B>,
        frame: &mut [Option<Val<B>>],
    ) -> Result<()> {
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
        let operands = step.args.iter().map(|source| look(frame, source));
        let views = views_of::<B, N>(step.name, operands)?;
        let out = &step.outs[0];
        let (shape, itemsize) = (&out.shape, out.dtype.itemsize());
        let val = match free {
            Some((slot, memory)) => {
                // SAFETY: the op is verified, so operands broadcast to the shape of the result; the memory is that of
                // an operand of the same type, which nobody else holds and which is not an operand twice.
                unsafe { map_into(kernel, shape, views, memory, itemsize) };
                frame[slot].take().ok_or_else(used)?
            }
            None => {
                // SAFETY: as above.
                let bytes = unsafe { map_new(kernel, shape, views, itemsize) };
                B::upload(bytes, out, self.device)?
            }
        };
        release(frame, step);
        frame[step.slots[0]] = Some(val);
        Ok(())
    }

    /// A frame of so many empty slots.
    fn frame(&self, slots: usize) -> Frame<B> {
        let mut frame = self.spare.borrow_mut().pop().unwrap_or_default();
        frame.resize_with(slots, || None);
        frame
    }

    /// Takes a frame back.
    fn done(&self, mut frame: Frame<B>) {
        frame.clear();
        self.spare.borrow_mut().push(frame);
    }

    /// Puts the results of a body into slots from `first` on; they may be those that its arguments came in.
    fn carry(
        &self,
        body: &Body<B>,
        results: std::ops::Range<usize>,
        frame: &mut [Option<Val<B>>],
        first: usize,
    ) -> Result<()> {
        if let [(source, _)] = &body.results[results.clone()] {
            let val = fetch(frame, source)?;
            frame[first] = Some(val);
            return Ok(());
        }
        let mut held = self.frame(0);
        for (source, _) in &body.results[results] {
            held.push(Some(fetch(frame, source)?));
        }
        for (slot, val) in frame[first..].iter_mut().zip(held.iter_mut()) {
            *slot = val.take();
        }
        self.done(held);
        Ok(())
    }
}

fn used() -> Error {
    Error::runtime("a value is used after its last use")
}

/// Empties the slots of operands that are used for the last time.
fn release<B: ExecBackend>(frame: &mut [Option<Val<B>>], step: &Step<B>) {
    for source in &step.args {
        if let Source::Move(slot) = source {
            frame[*slot] = None;
        }
    }
}

fn look<'a, B: ExecBackend>(
    frame: &'a [Option<Val<B>>],
    source: &'a Source<B>,
) -> Result<&'a Val<B>> {
    match source {
        Source::Move(slot) | Source::Copy(slot) => frame[*slot].as_ref().ok_or_else(used),
        Source::Const(val) => Ok(val),
    }
}

fn fetch<B: ExecBackend>(frame: &mut [Option<Val<B>>], source: &Source<B>) -> Result<Val<B>> {
    let val = match source {
        Source::Move(slot) => frame[*slot].take(),
        Source::Copy(slot) => frame[*slot].clone(),
        Source::Const(val) => Some(val.clone()),
    };
    val.ok_or_else(used)
}
