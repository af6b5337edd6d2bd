//! Control flow.

use std::sync::Arc;

use super::{Frame, Run, fetch, look};
use crate::backend::{ExecBackend, item, no_host};
use crate::error::Result;
use crate::host::{HostView, Out, copy, dense_strides};
use crate::plan::{Body, Scan, Source, Step, While};
use crate::value::{Ty, Val};

impl<B: ExecBackend> Run<'_, B> {
    pub(super) fn cond(
        &self,
        branches: &[Arc<Body<B>>],
        step: &Step<B>,
        frame: &mut [Option<Val<B>>],
    ) -> Result<()> {
        // SAFETY: the operand is an `i32` scalar.
        let index = unsafe { scalar::<B, i32>(step.name, look(frame, &step.args[0])?) }?;
        let index = usize::try_from(index).unwrap_or(0).min(branches.len() - 1);
        let body = &branches[index];
        let mut inner = self.frame(body.slots);
        // The index may be an operand twice, and is moved by its last use.
        for (slot, source) in inner.iter_mut().zip(&step.args[1..]) {
            *slot = Some(fetch(frame, source)?);
        }
        if let Source::Move(slot) = &step.args[0] {
            frame[*slot] = None;
        }
        self.steps(&body.steps, &mut inner)?;
        for ((source, _), slot) in body.results.iter().zip(&step.slots) {
            frame[*slot] = Some(fetch(&mut inner, source)?);
        }
        self.done(inner);
        Ok(())
    }

    pub(super) fn while_loop(
        &self,
        looped: &While<B>,
        step: &Step<B>,
        frame: &mut [Option<Val<B>>],
    ) -> Result<()> {
        let While { cond, body, consts } = looped;
        // Both work in one frame, so that the carry is held only once.
        let mut inner = self.enter(cond.slots.max(body.slots), &step.args, frame)?;
        let slots = step.args.len();
        self.poll.start();
        loop {
            self.steps(&cond.steps, &mut inner)?;
            let (source, _) = &cond.results[0];
            // SAFETY: the condition gives a bool scalar.
            let goes_on = unsafe { scalar::<B, u8>(step.name, look(&inner, source)?) }? != 0;
            if !goes_on {
                break;
            }
            // What the condition left would share storage with the carry.
            inner[slots..].fill_with(|| None);
            self.steps(&body.steps, &mut inner)?;
            self.carry(body, 0..body.results.len(), &mut inner, *consts)?;
            self.at.set(Some(step.origin));
            self.poll.step()?;
        }
        for (slot, val) in step.slots.iter().zip(&mut inner[*consts..]) {
            frame[*slot] = val.take();
        }
        self.done(inner);
        Ok(())
    }

    pub(super) fn scan(
        &self,
        scan: &Scan<B>,
        step: &Step<B>,
        frame: &mut [Option<Val<B>>],
    ) -> Result<()> {
        let Scan {
            body,
            consts,
            carries,
            length,
            reverse,
        } = scan;
        let first = consts + carries;
        let mut xs: Vec<Val<B>> = Vec::with_capacity(step.args.len() - first);
        let (fixed, sliced) = step.args.split_at(first);
        let mut inner = self.enter(body.slots, fixed, frame)?;
        for source in sliced {
            xs.push(fetch(frame, source)?);
        }
        let mut ys: Vec<Stack> = step.outs[*carries..].iter().map(Stack::new).collect();
        self.poll.start();
        for n in 0..*length {
            let i = if *reverse { length - 1 - n } else { n };
            for (slot, x) in inner[first..].iter_mut().zip(&xs) {
                *slot = Some(B::row(x, i));
            }
            self.steps(&body.steps, &mut inner)?;
            for (y, (source, _)) in ys.iter_mut().zip(&body.results[*carries..]) {
                let row = look(&inner, source)?;
                y.put(i, B::view(row).ok_or_else(|| no_host::<B>(step.name))?);
                if let Source::Move(slot) = source {
                    inner[*slot] = None;
                }
            }
            self.carry(body, 0..*carries, &mut inner, *consts)?;
            self.at.set(Some(step.origin));
            self.poll.step()?;
        }
        for (slot, val) in step.slots.iter().zip(&mut inner[*consts..first]) {
            frame[*slot] = val.take();
        }
        let outs = step.slots.iter().zip(&step.outs).skip(*carries);
        for (y, (slot, ty)) in ys.into_iter().zip(outs) {
            // SAFETY: every row has been written.
            frame[*slot] = Some(B::upload(unsafe { y.out.finish() }, ty, self.device)?);
        }
        self.done(inner);
        Ok(())
    }

    /// A frame of so many slots, with operands in the first ones.
    fn enter(
        &self,
        slots: usize,
        args: &[Source<B>],
        frame: &mut [Option<Val<B>>],
    ) -> Result<Frame<B>> {
        let mut inner = self.frame(slots);
        for (slot, source) in inner.iter_mut().zip(args) {
            *slot = Some(fetch(frame, source)?);
        }
        Ok(inner)
    }
}

/// Rows under construction, one after the other in memory.
struct Stack {
    out: Out,
    /// Strides of one row in elements, and its bytes.
    strides: Vec<isize>,
    bytes: usize,
}

impl Stack {
    fn new(ty: &Ty) -> Self {
        let (shape, item) = (ty.storage_shape(), item(ty));
        let row = &shape[1..];
        Stack {
            out: Out::new(shape.iter().product(), item),
            strides: dense_strides(row),
            bytes: row.iter().product::<usize>() * item,
        }
    }

    /// Writes row `i`; `row` has the type of one.
    fn put(&mut self, i: usize, row: HostView<'_>) {
        let item = row.dtype.itemsize();
        // SAFETY: `i` is below the number of rows, each of which has room for the elements of `row`.
        unsafe {
            let to = self.out.ptr().add(i * self.bytes);
            if row.is_dense() {
                std::ptr::copy_nonoverlapping(row.ptr, to, self.bytes);
            } else {
                copy::copy(row.shape, row.ptr, row.strides, to, &self.strides, item);
            }
        }
    }
}

/// The only element of a value.
///
/// # Safety
/// The value has one element, whose dtype has the size of `T`, for which all bytes make a value.
unsafe fn scalar<B: ExecBackend, T: Copy>(name: &str, val: &Val<B>) -> Result<T> {
    let view = B::view(val).ok_or_else(|| no_host::<B>(name))?;
    // SAFETY: passed on to the caller; borrowed memory may be unaligned.
    Ok(unsafe { view.ptr.cast::<T>().read_unaligned() })
}
