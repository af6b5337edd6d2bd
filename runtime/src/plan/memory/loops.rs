//! Loops and branches, rehearsed.

use super::{Frame, Look, Rehearsal, What};
use crate::backend::ExecBackend;
use crate::plan::{Body, Scan, Source, Step, While, Work};

/// Steps that are looked at; beyond, loops and branches count as what their bodies hold at most.
const MOST_STEPS: usize = 1 << 17;
/// Turns of a loop: from the third on they are alike.
const TURNS: usize = 3;

impl Rehearsal {
    pub(super) fn nested<B: ExecBackend>(
        &mut self,
        step: &Step<B>,
        frame: &mut Frame,
        depth: usize,
    ) {
        if self.steps > MOST_STEPS {
            return self.coarse(step, frame);
        }
        match &step.work {
            Work::Cond(branches) => {
                let mut best: Option<(Rehearsal, Frame)> = None;
                for body in branches {
                    let (mut r, mut frame) = (self.clone(), frame.clone());
                    let mut inner: Frame = Vec::with_capacity(body.slots);
                    for source in &step.args[1..] {
                        let look = r.fetch(&mut frame, source);
                        inner.push(look);
                    }
                    inner.resize(body.slots, None);
                    if let Source::Move(slot) = &step.args[0] {
                        r.put(&mut frame, *slot, None);
                    }
                    r.steps(&body.steps, &mut inner, depth + 1);
                    for ((source, _), slot) in body.results.iter().zip(&step.slots) {
                        let look = r.fetch(&mut inner, source);
                        r.put(&mut frame, *slot, look);
                    }
                    r.done(inner);
                    let steps = best.as_ref().map_or(0, |(b, _)| b.steps - self.steps);
                    r.steps += steps;
                    let more = |(b, _): &(Rehearsal, Frame)| (r.peak, r.live) > (b.peak, b.live);
                    if best.as_ref().is_none_or(more) {
                        best = Some((r, frame));
                    } else if let Some((b, _)) = &mut best {
                        b.steps = r.steps;
                    }
                }
                if let Some((r, f)) = best {
                    *self = r;
                    *frame = f;
                }
            }
            Work::While(While { cond, body, consts }) => {
                let slots = step.args.len();
                let size = cond.slots.max(body.slots);
                let mut inner = self.enter(size, &step.args, frame);
                for _ in 0..turns(depth) {
                    self.steps(&cond.steps, &mut inner, depth + 1);
                    for slot in slots..inner.len() {
                        self.put(&mut inner, slot, None);
                    }
                    self.steps(&body.steps, &mut inner, depth + 1);
                    self.carry(body, body.results.len(), &mut inner, *consts);
                }
                for (slot, at) in step.slots.iter().zip(*consts..) {
                    let look = inner[at].take();
                    self.put(frame, *slot, look);
                }
                self.done(inner);
            }
            Work::Scan(scan) => self.scan(scan, step, frame, depth),
            Work::Map(_) | Work::Op(_) | Work::Kernel(_) | Work::Effect(_) => {}
        }
    }

    fn scan<B: ExecBackend>(
        &mut self,
        scan: &Scan<B>,
        step: &Step<B>,
        frame: &mut Frame,
        depth: usize,
    ) {
        let first = scan.consts + scan.carries;
        let (fixed, sliced) = step.args.split_at(first);
        let mut inner = self.enter(scan.body.slots, fixed, frame);
        let xs = sliced.iter().map(|s| self.fetch(frame, s));
        let xs: Vec<Option<Look>> = xs.collect();
        let ys = step.outs[scan.carries..].iter();
        let ys: Vec<Look> = ys.map(|ty| self.make(ty, What::Value)).collect();
        for _ in 0..turns(depth).min(scan.length) {
            for (slot, x) in (first..).zip(&xs) {
                let row = x.as_ref().map(|x| Look {
                    storage: x.storage,
                    shape: x.shape[1..].to_vec(),
                    strides: x.strides[1..].to_vec(),
                });
                if let Some(row) = &row {
                    self.storages[row.storage].holders += 1;
                }
                self.put(&mut inner, slot, row);
            }
            self.steps(&scan.body.steps, &mut inner, depth + 1);
            for (source, _) in &scan.body.results[scan.carries..] {
                if let Source::Move(slot) = source {
                    self.put(&mut inner, *slot, None);
                }
            }
            self.carry(&scan.body, scan.carries, &mut inner, scan.consts);
        }
        for (slot, at) in step.slots.iter().zip(scan.consts..first) {
            let look = inner[at].take();
            self.put(frame, *slot, look);
        }
        for (slot, y) in step.slots[scan.carries..].iter().zip(ys) {
            self.put(frame, *slot, Some(y));
        }
        self.done(inner);
        self.done(xs);
    }

    fn enter<B: ExecBackend>(
        &mut self,
        slots: usize,
        args: &[Source<B>],
        frame: &mut Frame,
    ) -> Frame {
        let inner = args.iter().map(|s| self.fetch(frame, s));
        let mut inner: Frame = inner.collect();
        inner.resize(slots, None);
        inner
    }

    /// The first results of a body, put where its arguments from `first` on came in.
    fn carry<B: ExecBackend>(
        &mut self,
        body: &Body<B>,
        count: usize,
        frame: &mut Frame,
        first: usize,
    ) {
        let held = body.results[..count].iter();
        let held: Vec<Option<Look>> = held.map(|(s, _)| self.fetch(frame, s)).collect();
        for (at, look) in (first..).zip(held) {
            self.put(frame, at, look);
        }
    }

    fn done(&mut self, frame: Frame) {
        frame.into_iter().flatten().for_each(|x| self.drop(x));
    }

    /// A loop or branch as the most that its bodies hold.
    fn coarse<B: ExecBackend>(&mut self, step: &Step<B>, frame: &mut Frame) {
        let most = match &step.work {
            Work::Cond(branches) => branches.iter().map(|b| b.peak).max().unwrap_or(0),
            Work::While(looped) => looped.cond.peak.max(looped.body.peak),
            Work::Scan(scan) => scan.body.peak,
            Work::Map(_) | Work::Op(_) | Work::Kernel(_) | Work::Effect(_) => 0,
        };
        let over = vec![None; step.outs.len()];
        self.with_scratch(most, |r| r.results(step, frame, &over));
    }
}

/// Fewer in loops within loops, of which there may be many.
fn turns(depth: usize) -> usize {
    if depth < 2 { TURNS } else { 2 }
}
