//! What a run of a plan holds: its steps taken as `run/` takes them, on storages that have sizes and holders instead of
//! values.

mod loops;

use std::collections::{HashMap, HashSet};

use super::{Body, Origin, Scan, Source, Step, While, Work};
use crate::backend::{ExecBackend, reshaped_strides};
use crate::host::{dense_strides, gemm, is_dense};
use crate::infer::{permutes, rewrites, scratch_bytes, wants_dense};
use crate::op::Op;
use crate::value::{Ty, Val};

/// How an argument comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// A tensor that its owner keeps.
    Kept,
    /// A tensor whose storage the run takes.
    Donated,
    /// Memory of the caller.
    Lent,
}

/// What a storage is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// By its number.
    Argument(usize),
    Constant,
    /// What a step gives.
    Value,
    /// What a step needs besides operands and results.
    Scratch,
}

/// A piece of memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub bytes: usize,
    pub what: What,
    /// Its type; none where it has none.
    pub ty: Option<Ty>,
    /// The step that made it.
    pub origin: Option<Origin>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The most bytes that are held at a time.
    pub peak: usize,
    pub arguments: usize,
    pub constants: usize,
    pub results: usize,
    /// The step during which it is reached; none where it is the arguments, or copies of results.
    pub at: Option<Origin>,
    /// All that is held then, the largest first.
    pub buffers: Vec<Buffer>,
}

/// The bytes that a run holds at most at a time, and by what.
pub fn rehearse<B: ExecBackend>(body: &Body<B>, given: &[Given]) -> Memory {
    let (first, _) = Rehearsal::of(body, given, None);
    let (last, found) = Rehearsal::of(body, given, Some(first.event));
    Memory {
        buffers: last.seen,
        ..found
    }
}

/// The bytes only.
pub fn peak<B: ExecBackend>(body: &Body<B>, given: &[Given]) -> usize {
    Rehearsal::of(body, given, None).0.peak
}

#[derive(Clone)]
struct Storage {
    buffer: Buffer,
    holders: usize,
    /// Its memory may be written to by the run, when nobody else holds it.
    own: bool,
}

/// A value: a look at a storage.
#[derive(Clone, Debug)]
struct Look {
    storage: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

type Frame = Vec<Option<Look>>;

#[derive(Clone, Default)]
struct Rehearsal {
    storages: Vec<Storage>,
    constants: HashMap<usize, usize>,
    live: usize,
    peak: usize,
    /// Storages made so far, scratch included, and how many there were at the peak.
    made: usize,
    event: usize,
    at: Option<Origin>,
    at_peak: Option<Origin>,
    steps: usize,
    /// The event at which to look around, and what was seen.
    stop: Option<usize>,
    seen: Vec<Buffer>,
}

impl Rehearsal {
    fn of<B: ExecBackend>(
        body: &Body<B>,
        given: &[Given],
        stop: Option<usize>,
    ) -> (Rehearsal, Memory) {
        let mut r = Rehearsal {
            stop,
            ..Rehearsal::default()
        };
        let mut found = Memory::default();
        r.hold_constants(body);
        found.constants = r.live;
        let mut frame: Frame = Vec::with_capacity(body.slots);
        let mut donated = Vec::new();
        for (i, ty) in body.inputs.iter().enumerate() {
            let given = given.get(i).copied().unwrap_or(Given::Kept);
            let look = r.make(ty, What::Argument(i));
            r.storages[look.storage].holders += 1;
            r.storages[look.storage].own = given != Given::Lent;
            if given == Given::Donated {
                donated.push(look.clone());
            }
            frame.push(Some(look));
        }
        found.arguments = r.live - found.constants;
        frame.resize(body.slots, None);
        let (before, after) = body.steps.split_at(body.commit);
        r.steps(before, &mut frame, 0);
        for look in donated {
            r.drop(look);
        }
        r.steps(after, &mut frame, 0);
        r.at = None;
        let mut results = Vec::with_capacity(body.results.len());
        for (source, ty) in &body.results {
            if let Some(look) = r.fetch(&mut frame, source) {
                results.push((look, ty));
            }
        }
        let mut counted = Vec::new();
        for (look, ty) in results {
            let storage = &r.storages[look.storage];
            let copied = !storage.own && matches!(storage.buffer.what, What::Argument(_));
            let look = if copied {
                let copy = r.make(ty, What::Value);
                r.drop(look);
                copy
            } else {
                look
            };
            counted.push(look.storage);
        }
        counted.sort_unstable();
        counted.dedup();
        found.results = counted.iter().map(|s| r.storages[*s].buffer.bytes).sum();
        found.peak = r.peak;
        found.at = r.at_peak;
        (r, found)
    }

    /// Those of a body and of all within it, each once: they stay with the plan.
    fn hold_constants<B: ExecBackend>(&mut self, body: &Body<B>) {
        let mut next = vec![body];
        let mut known = HashSet::new();
        while let Some(body) = next.pop() {
            if !known.insert(std::ptr::from_ref(body)) {
                continue;
            }
            for step in &body.steps {
                for (source, ty) in step.args.iter().zip(&step.arg_types) {
                    if let Source::Const(val) = source {
                        self.constant(val, ty);
                    }
                }
                match &step.work {
                    Work::Cond(branches) => next.extend(branches.iter().map(|b| &**b)),
                    Work::While(While { cond, body, .. }) => next.extend([&**cond, &**body]),
                    Work::Scan(Scan { body, .. }) => next.push(body),
                    Work::Map(_) | Work::Op(_) | Work::Kernel(_) | Work::Effect(_) => {}
                }
            }
            for (source, ty) in &body.results {
                if let Source::Const(val) = source {
                    self.constant(val, ty);
                }
            }
        }
    }

    fn constant<B: ExecBackend>(&mut self, val: &Val<B>, ty: &Ty) -> usize {
        let at = B::view(val).map_or(0, |v| v.ptr as usize);
        if let Some(found) = self.constants.get(&at) {
            return *found;
        }
        let storage = self.make(ty, What::Constant).storage;
        self.constants.insert(at, storage);
        storage
    }

    /// A new dense storage.
    fn make(&mut self, ty: &Ty, what: What) -> Look {
        let shape = ty.storage_shape();
        Look {
            strides: dense_strides(&shape),
            shape,
            storage: self.take(ty.bytes(), what, Some(ty.clone())),
        }
    }

    fn take(&mut self, bytes: usize, what: What, ty: Option<Ty>) -> usize {
        self.storages.push(Storage {
            buffer: Buffer {
                bytes,
                what,
                ty,
                origin: self.at,
            },
            holders: 1,
            own: what != What::Constant,
        });
        self.live = self.live.saturating_add(bytes);
        self.made += 1;
        if self.live > self.peak {
            self.peak = self.live;
            self.event = self.made;
            self.at_peak = self.at;
        }
        if self.stop == Some(self.made) {
            let held = self.storages.iter().filter(|s| s.holders > 0);
            self.seen = held.map(|s| s.buffer.clone()).collect();
            self.seen.retain(|b| b.bytes > 0);
            self.seen.sort_by_key(|b| std::cmp::Reverse(b.bytes));
        }
        self.storages.len() - 1
    }

    fn drop(&mut self, look: Look) {
        self.give(look.storage);
    }

    fn give(&mut self, storage: usize) {
        let s = &mut self.storages[storage];
        s.holders = s.holders.saturating_sub(1);
        if s.holders == 0 {
            self.live = self.live.saturating_sub(s.buffer.bytes);
        }
    }

    /// Something that is needed while `work` goes on.
    fn with_scratch<T>(&mut self, bytes: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        let scratch = (bytes > 0).then(|| self.take(bytes, What::Scratch, None));
        let out = work(self);
        if let Some(scratch) = scratch {
            self.give(scratch);
        }
        out
    }

    fn fetch<B: ExecBackend>(&mut self, frame: &mut Frame, source: &Source<B>) -> Option<Look> {
        match source {
            Source::Move(slot) => frame[*slot].take(),
            Source::Copy(slot) => {
                let look = frame[*slot].clone()?;
                self.storages[look.storage].holders += 1;
                Some(look)
            }
            Source::Const(val) => {
                let view = B::view(val)?;
                let storage = *self.constants.get(&(view.ptr as usize))?;
                self.storages[storage].holders += 1;
                Some(Look {
                    storage,
                    shape: view.shape.to_vec(),
                    strides: view.strides.to_vec(),
                })
            }
        }
    }

    /// True when a result may be written over it.
    fn is_free(&self, look: &Look) -> bool {
        let s = &self.storages[look.storage];
        s.own && s.holders == 1 && s.buffer.bytes > 0 && is_dense(&look.shape, &look.strides)
    }

    fn put(&mut self, frame: &mut Frame, slot: usize, look: Option<Look>) {
        if let Some(old) = std::mem::replace(&mut frame[slot], look) {
            self.drop(old);
        }
    }

    fn release<B: ExecBackend>(&mut self, frame: &mut Frame, step: &Step<B>) {
        for source in &step.args {
            if let Source::Move(slot) = source {
                self.put(frame, *slot, None);
            }
        }
    }

    fn steps<B: ExecBackend>(&mut self, steps: &[Step<B>], frame: &mut Frame, depth: usize) {
        for step in steps {
            self.at = Some(step.origin);
            self.steps += 1;
            match &step.work {
                Work::Map(_) => self.mapped(step, frame),
                Work::Op(op) => {
                    let args = step.args.iter();
                    let args: Vec<Look> = args.filter_map(|s| self.fetch(frame, s)).collect();
                    let out = self.op::<B>(op, args, step);
                    self.put(frame, step.slots[0], Some(out));
                }
                Work::Kernel(fused) => {
                    let mut over: Vec<Option<usize>> = vec![None; step.outs.len()];
                    for (k, out) in &fused.in_place {
                        if let Source::Move(slot) = &step.args[*k]
                            && over[*out].is_none()
                            && !over.contains(&Some(*slot))
                            && frame[*slot].as_ref().is_some_and(|x| self.is_free(x))
                        {
                            over[*out] = Some(*slot);
                        }
                    }
                    self.results(step, frame, &over);
                }
                Work::Effect(_) => {
                    let over = vec![None; step.outs.len()];
                    self.results(step, frame, &over);
                }
                Work::Cond(_) | Work::While(_) | Work::Scan(_) => self.nested(step, frame, depth),
            }
        }
    }

    fn mapped<B: ExecBackend>(&mut self, step: &Step<B>, frame: &mut Frame) {
        let mut over = None;
        for (source, _) in step.args.iter().zip(step.reuse).filter(|(_, reuse)| *reuse) {
            if let Source::Move(slot) = source
                && frame[*slot].as_ref().is_some_and(|x| self.is_free(x))
            {
                over = Some(*slot);
                break;
            }
        }
        self.results(step, frame, &[over]);
    }

    /// New storages for the results that do not take the one in a slot, while all operands are there.
    fn results<B: ExecBackend>(
        &mut self,
        step: &Step<B>,
        frame: &mut Frame,
        over: &[Option<usize>],
    ) {
        let mut outs = Vec::with_capacity(step.outs.len());
        for (ty, over) in step.outs.iter().zip(over) {
            outs.push(match over {
                Some(slot) => (frame[*slot].take(), *over),
                None => (Some(self.make(ty, What::Value)), None),
            });
        }
        self.release(frame, step);
        for (slot, (look, _)) in step.slots.iter().zip(outs) {
            self.put(frame, *slot, look);
        }
    }

    fn op<B: ExecBackend>(&mut self, op: &Op<usize>, mut args: Vec<Look>, step: &Step<B>) -> Look {
        let out = &step.outs[0];
        let shape = out.storage_shape();
        if permutes(op, &step.arg_types, out) && !args.is_empty() {
            return self.moved(op, args.swap_remove(0), out, shape);
        }
        if let Op::DynamicSlice { .. } = op
            && out.elements() > 0
        {
            let x = args.swap_remove(0);
            args.into_iter().for_each(|starts| self.drop(starts));
            return Look { shape, ..x };
        }
        let mut packed = 0;
        if let Op::DotGeneral {
            contract_x,
            contract_y,
            batch_x,
            batch_y,
        } = op
        {
            let y = args.pop();
            let x = args.pop();
            if let (Some(x), Some(y)) = (x, y) {
                let (cx, cy) = (sizes(contract_x), sizes(contract_y));
                let (bx, by) = (sizes(batch_x), sizes(batch_y));
                let x = self.matrix(x, &bx, &cx, false);
                let y = self.matrix(y, &by, &cy, true);
                let wide = out.dtype.is_float().then(|| out.dtype.itemsize().max(4));
                packed = wide.map_or(0, |item| {
                    gemm::scratch(
                        (x.shape.as_slice(), x.strides.as_slice()),
                        (y.shape.as_slice(), y.strides.as_slice()),
                        item,
                    )
                });
                args = vec![x, y];
            }
        }
        let copies: Vec<usize> = if wants_dense(op) {
            // A copy takes the place of what it is a copy of.
            let mut copies = Vec::new();
            for look in std::mem::take(&mut args) {
                if is_dense(&look.shape, &look.strides) {
                    args.push(look);
                } else {
                    let bytes = self.bytes_of(&look);
                    copies.push(self.take(bytes, What::Scratch, None));
                    self.drop(look);
                }
            }
            copies
        } else {
            Vec::new()
        };
        let scratch = packed + scratch_bytes(op, &step.arg_types, &step.outs);
        let look = self.with_scratch(scratch, |r| {
            if rewrites(op) && args.first().is_some_and(|x| r.is_free(x)) {
                args.remove(0)
            } else {
                r.make(out, What::Value)
            }
        });
        args.into_iter().for_each(|x| self.drop(x));
        copies.into_iter().for_each(|s| self.give(s));
        look
    }

    fn bytes_of(&self, look: &Look) -> usize {
        let item = self.storages[look.storage].buffer.ty.as_ref();
        let item = item.map_or(1, |t| {
            if t.bytes() == 0 {
                1
            } else {
                t.dtype.part_size()
            }
        });
        look.shape.iter().product::<usize>().saturating_mul(item)
    }

    /// The same elements in another order or shape.
    fn moved(&mut self, op: &Op<usize>, x: Look, out: &Ty, shape: Vec<usize>) -> Look {
        let strides = match op {
            Op::Transpose { axes } => {
                let mut strides: Vec<isize> = axes.iter().map(|a| x.strides[*a as usize]).collect();
                strides.extend(x.strides.get(axes.len()));
                strides
            }
            Op::BroadcastTo { .. } if x.shape != shape => {
                let lead = shape.len() - x.shape.len();
                let own = x.shape.iter().zip(&x.strides);
                let own = own.map(|(n, s)| if *n == 1 { 0 } else { *s });
                std::iter::repeat_n(0, lead).chain(own).collect()
            }
            Op::Slice { step, .. } if out.elements() > 0 => {
                let mut strides = x.strides.clone();
                for (s, by) in strides.iter_mut().zip(step) {
                    *s *= *by as isize;
                }
                strides
            }
            Op::Slice { .. } => {
                self.drop(x);
                return self.make(out, What::Value);
            }
            Op::Flip { axes } => {
                let mut strides = x.strides.clone();
                for a in axes {
                    strides[*a as usize] *= -1;
                }
                strides
            }
            Op::Reshape { .. } => return self.reshaped(x, &shape),
            _ => return Look { shape, ..x },
        };
        Look {
            shape,
            strides,
            ..x
        }
    }

    fn reshaped(&mut self, x: Look, shape: &[usize]) -> Look {
        let shape = shape.to_vec();
        if let Some(strides) = reshaped_strides(&x.shape, &x.strides, &shape) {
            return Look {
                shape,
                strides,
                ..x
            };
        }
        self.copied(x, shape)
    }

    /// A dense copy in the place of what it is a copy of.
    fn copied(&mut self, x: Look, shape: Vec<usize>) -> Look {
        let ty = self.storages[x.storage].buffer.ty.as_ref();
        let ty = ty.map(|t| Ty {
            dtype: t.dtype,
            shape: x.shape.clone(),
        });
        let bytes = self.bytes_of(&x);
        let storage = self.take(bytes, What::Scratch, ty);
        self.drop(x);
        Look {
            storage,
            strides: dense_strides(&shape),
            shape,
        }
    }

    /// An operand of a matrix product as `exec/contraction.rs` brings it there.
    fn matrix(&mut self, x: Look, batch: &[usize], contract: &[usize], last: bool) -> Look {
        let free = (0..x.shape.len()).filter(|a| !batch.contains(a) && !contract.contains(a));
        let free: Vec<usize> = free.collect();
        let size = |axes: &[usize]| axes.iter().map(|a| x.shape[*a]).product::<usize>();
        let (m, k) = (size(&free), size(contract));
        let mut shape: Vec<usize> = batch.iter().map(|a| x.shape[*a]).collect();
        shape.extend(if last { [k, m] } else { [m, k] });
        let order = if last {
            [batch, contract, &free]
        } else {
            [batch, &free, contract]
        };
        let order = order.concat();
        let look = Look {
            storage: x.storage,
            shape: order.iter().map(|a| x.shape[*a]).collect(),
            strides: order.iter().map(|a| x.strides[*a]).collect(),
        };
        let look = self.reshaped(look, &shape);
        let rank = look.shape.len().saturating_sub(2);
        let odd = look.shape[rank..].iter().zip(&look.strides[rank..]);
        let odd = odd.into_iter().any(|(n, s)| *n > 1 && *s <= 0);
        if odd { self.copied(look, shape) } else { look }
    }
}

fn sizes(axes: &[i64]) -> Vec<usize> {
    axes.iter().map(|a| *a as usize).collect()
}
