//! A program on an engine: its plans, its constants and its state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use burn_backend::tensor::Device;
use burn_std::Bytes;

use crate::attrs::Literal;
use crate::backend::ExecBackend;
use crate::budget::{described, refused};
use crate::dtype::DType;
use crate::effects::inside_handler;
use crate::engine::{Arg, Loaded, Options, Tensor, Wanted};
use crate::error::{Error, Result, clip};
use crate::file::Container;
use crate::gradient::gradient;
use crate::limits;
use crate::op::{Family, Op};
use crate::plan::{Given, Plan, Planner, locate, peak, rehearse};
use crate::program::{Entry, Program, Role};
use crate::run::run;
use crate::tensor::{Borrowed, Held, detach, donate, from_arg, from_array, is_lent, lock};
use crate::value::{Ty, Val};
use crate::verify::{stored_as, verify};

/// Plans kept for one entry.
pub const MAX_PLANS: usize = 64;

/// A value of the program's state.
enum State<B: ExecBackend> {
    /// Still as it stands in the container.
    Initial,
    Held(Val<B>),
    /// A run failed between its commit and its end, which only a bug can bring about.
    Lost,
}

/// Where an argument of an entry comes from, or a result goes.
#[derive(Clone, Copy)]
enum Port {
    Caller,
    State(usize),
}

struct EntryPlans<B: ExecBackend> {
    args: Vec<Port>,
    results: Vec<Port>,
    callers: usize,
    returned: usize,
    writes: bool,
    plans: RwLock<Vec<Arc<Plan<B>>>>,
    clock: AtomicU64,
}

/// A verified program of backend `B`.
pub struct LoadedProgram<B: ExecBackend> {
    program: Program,
    container: Container,
    device: Device<B>,
    options: Options,
    /// The most bytes that a run may hold at a time.
    limit: AtomicUsize,
    entries: Vec<EntryPlans<B>>,
    /// Uploaded tensors of constants, by the name under which their bytes stand.
    constants: Mutex<BTreeMap<(String, DType), Val<B>>>,
    state_names: BTreeMap<String, usize>,
    state_types: Vec<Ty>,
    states: Mutex<Vec<State<B>>>,
    /// Held during a run that replaces state, so that two of them do not lose an update.
    writer: Mutex<()>,
    info: String,
}

impl<B: ExecBackend> LoadedProgram<B> {
    /// Decodes and verifies.
    pub fn new(mut container: Container, device: Device<B>, options: Options) -> Result<Self> {
        let program = Program::decode(container.take_program())?;
        let state = verify(&program, &container)?;
        let mut state_names = BTreeMap::new();
        let mut state_types = Vec::new();
        for (name, ty) in state {
            state_names.insert(name, state_types.len());
            state_types.push(ty);
        }
        let port = |role: &Role| match role {
            Role::State(path) => state_names
                .get(container.resolve(path))
                .map_or(Port::Caller, |i| Port::State(*i)),
            Role::Arg | Role::Key | Role::Result => Port::Caller,
        };
        let entries = program
            .entries
            .iter()
            .map(|e| {
                let args: Vec<Port> = e.args.iter().map(|a| port(&a.role)).collect();
                let results: Vec<Port> = e.results.iter().map(|r| port(&r.role)).collect();
                EntryPlans {
                    callers: args.iter().filter(|p| matches!(p, Port::Caller)).count(),
                    returned: results.iter().filter(|p| matches!(p, Port::Caller)).count(),
                    writes: results.iter().any(|p| matches!(p, Port::State(_))),
                    args,
                    results,
                    plans: RwLock::new(Vec::new()),
                    clock: AtomicU64::new(1),
                }
            })
            .collect();
        let states = state_types.iter().map(|_| State::Initial).collect();
        Ok(LoadedProgram {
            info: program.info().to_string(),
            limit: AtomicUsize::new(options.memory_limit),
            program,
            container,
            device,
            options,
            entries,
            constants: Mutex::new(BTreeMap::new()),
            state_names,
            state_types,
            states: Mutex::new(states),
            writer: Mutex::new(()),
        })
    }

    /// Over the container's bytes where alignment allows.
    fn stored_value(&self, name: &str, ty: &Ty) -> Result<Val<B>> {
        let bytes = self.container.bytes(name)?;
        if ty.elements() == 0 {
            return B::upload(Bytes::from_bytes_vec(Vec::new()), ty, &self.device);
        }
        let mut strides = vec![0; ty.rank()];
        let mut next = ty.dtype.itemsize() as isize;
        for (s, d) in strides.iter_mut().zip(&ty.shape).rev() {
            *s = next;
            next *= *d as isize;
        }
        let owner = Box::new(self.container.source());
        // SAFETY: the bytes are as many as the type takes, and `owner` keeps them.
        unsafe { B::borrow(bytes.as_ptr(), &strides, ty, owner, &self.device) }
    }

    fn constant(&self, literal: &Literal, ty: &Ty) -> Result<Val<B>> {
        match literal {
            Literal::Inline(bytes) => {
                if bytes.len() != ty.bytes() {
                    return Err(Error::invalid_program(format!(
                        "{} literal bytes for {ty}",
                        bytes.len()
                    )));
                }
                if ty.dtype == DType::Bool && bytes.iter().any(|b| *b > 1) {
                    return Err(Error::invalid_program("a bool literal is neither 0 nor 1"));
                }
                B::upload(Bytes::from_bytes_vec(bytes.clone()), ty, &self.device)
            }
            Literal::Tensor(name) => {
                if !self
                    .container
                    .ty(name)
                    .is_some_and(|stored| stored_as(stored, ty))
                {
                    return Err(Error::invalid_program(format!(
                        "tensor {:?} is not {ty}",
                        clip(name)
                    )));
                }
                let key = (self.container.resolve(name).to_string(), ty.dtype);
                if let Some(val) = lock(&self.constants).get(&key) {
                    return Ok(val.clone());
                }
                let val = self.stored_value(name, ty)?;
                lock(&self.constants).insert(key, val.clone());
                Ok(val)
            }
        }
    }

    /// The plan for these arguments: a cached one, or a new one.
    fn plan(&self, entry: &Entry, own: &EntryPlans<B>, args: &[Arg<'_>]) -> Result<Arc<Plan<B>>> {
        match self.cached(own, |i, ty| args.get(i).is_some_and(|arg| arg.is(ty))) {
            Some(plan) => Ok(plan),
            None => {
                let types = args.iter().map(Arg::ty).collect::<Result<Vec<_>>>()?;
                self.planned(entry, own, &types)
            }
        }
    }

    /// A new plan for arguments of these types.
    fn planned(&self, entry: &Entry, own: &EntryPlans<B>, given: &[Ty]) -> Result<Arc<Plan<B>>> {
        let mut given = given.iter();
        let types = own
            .args
            .iter()
            .map(|port| match port {
                Port::State(i) => Ok(self.state_types[*i].clone()),
                Port::Caller => match given.next() {
                    Some(ty) => Ok(ty.clone()),
                    None => Err(Error::argument("an argument is missing")),
                },
            })
            .collect::<Result<Vec<_>>>()?;
        let constant = |literal: &Literal, ty: &Ty| self.constant(literal, ty);
        let (most, fault) = (self.options.memory_limit, self.options.fault.as_deref());
        let planner = Planner::new(&self.program, &constant, most, fault);
        let plan = Arc::new(planner.plan(entry, types)?);
        for ((_, ty), port) in plan.body.results.iter().zip(&own.results) {
            if let Port::State(i) = port
                && *ty != self.state_types[*i]
            {
                return Err(Error::invalid_program(format!(
                    "a result of type {ty} replaces a state of type {}",
                    self.state_types[*i]
                )));
            }
        }
        let mut plans = own.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MAX_PLANS {
            let oldest = plans
                .iter()
                .enumerate()
                .min_by_key(|(_, p)| p.stamp.load(Ordering::Relaxed))
                .map(|(i, _)| i);
            if let Some(oldest) = oldest {
                plans.swap_remove(oldest);
            }
        }
        plan.stamp
            .store(own.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        plans.push(Arc::clone(&plan));
        Ok(plan)
    }

    /// A kept plan whose types of the caller's arguments, by their numbers, are `these`.
    fn cached(
        &self,
        own: &EntryPlans<B>,
        these: impl Fn(usize, &Ty) -> bool,
    ) -> Option<Arc<Plan<B>>> {
        let plans = own.plans.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |plan: &&Arc<Plan<B>>| {
            let mut given = 0..;
            plan.body
                .inputs
                .iter()
                .zip(&own.args)
                .all(|(ty, port)| match port {
                    Port::State(_) => true,
                    Port::Caller => given.next().is_some_and(|i| these(i, ty)),
                })
        };
        let plan = plans.iter().find(fits)?;
        if plans.len() > 1 {
            plan.stamp
                .store(own.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        Some(Arc::clone(plan))
    }

    /// How all arguments come, when those of the caller come so.
    fn given(&self, own: &EntryPlans<B>, callers: impl Iterator<Item = Given>) -> Vec<Given> {
        let mut callers = callers;
        let replaced = |i: usize| {
            let mut results = own.results.iter();
            results.any(|p| matches!(p, Port::State(k) if *k == i))
        };
        let ports = own.args.iter();
        ports
            .map(|port| match port {
                Port::State(i) if replaced(*i) => Given::Donated,
                Port::State(_) => Given::Kept,
                Port::Caller => callers.next().unwrap_or(Given::Kept),
            })
            .collect()
    }

    /// Refuses a run that would hold more than it may.
    fn admit(
        &self,
        entry: &Entry,
        own: &EntryPlans<B>,
        plan: &Plan<B>,
        args: &[Arg<'_>],
    ) -> Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let limit = limit.min(limits::memory_limit());
        if plan.most <= limit {
            return Ok(());
        }
        let given = args.iter().map(|arg| match arg {
            Arg::Tensor { donate: true, .. } => Given::Donated,
            Arg::Tensor { .. } => Given::Kept,
            Arg::Array(_) => Given::Lent,
        });
        let mut given = self.given(own, given);
        for (given, ty) in given.iter_mut().zip(&plan.body.inputs) {
            if *given == Given::Lent && !is_lent(ty) {
                *given = Given::Donated;
            }
        }
        if peak(&plan.body, &given) <= limit {
            return Ok(());
        }
        let memory = rehearse(&plan.body, &given);
        Err(refused(&self.program, &names(entry), &memory, limit))
    }

    /// The value of a state, taken from the container at first use.
    fn snapshot(&self, states: &mut [State<B>], i: usize) -> Result<Val<B>> {
        let name = || {
            let found = self.state_names.iter().find(|(_, at)| **at == i);
            found.map_or("", |(name, _)| name.as_str())
        };
        match &states[i] {
            State::Held(val) => Ok(val.clone()),
            State::Lost => Err(Error::runtime(format!(
                "state {:?} was lost in an earlier failure: set it again",
                name()
            ))
            .with_code("state-lost")),
            State::Initial => {
                let val = self.stored_value(name(), &self.state_types[i])?;
                states[i] = State::Held(val.clone());
                Ok(val)
            }
        }
    }

    /// Waits until no other run replaces state; a handler must not, as it may be called by such a run.
    fn writer(&self) -> Result<MutexGuard<'_, ()>> {
        if !inside_handler() {
            return Ok(lock(&self.writer));
        }
        match self.writer.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::runtime(
                "a run that replaces state is under way: a handler cannot start another one",
            )
            .with_code("busy")),
        }
    }

    /// Refuses what a backend's record has no place for, in a function and in all that it calls: loops and branches,
    /// whose results pass through memory of ours, and functions with derivatives of their own.
    fn check_straight(&self, function: usize) -> Result<()> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![function]);
        while let Some(function) = next.pop() {
            if !seen.insert(function) {
                continue;
            }
            for node in &self.program.functions[function].nodes {
                match &node.op {
                    Op::Call { function, .. }
                    | Op::Checkpoint { function, .. }
                    | Op::Fused { function, .. } => next.push(*function),
                    op if op.info().family == Family::Structure
                        || matches!(op, Op::Callback { .. }) =>
                    {
                        return Err(Error::unsupported(
                            "Burn's backward pass goes over straight programs without rules of their own",
                        )
                        .with_code("no-gradients")
                        .at_op(op.info().name));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn state_index(&self, path: &str) -> Result<usize> {
        self.state_names
            .get(self.container.resolve(path))
            .copied()
            .ok_or_else(|| Error::argument(format!("there is no state {:?}", clip(path))))
    }
}

impl<B: ExecBackend> Loaded for LoadedProgram<B> {
    fn info(&self) -> &str {
        &self.info
    }

    fn entry(&self, name: &str) -> Option<usize> {
        self.program.entries.iter().position(|e| e.name == name)
    }

    fn run(
        &self,
        entry: usize,
        args: &[Arg<'_>],
        wanted: Option<usize>,
    ) -> Result<Vec<Box<dyn Tensor>>> {
        let Some(own) = self.entries.get(entry) else {
            return Err(Error::argument(format!("there is no entry {entry}")));
        };
        let spec = &self.program.entries[entry];
        if args.len() != own.callers {
            return Err(Error::argument(format!(
                "entry {:?} takes {} arguments, not {}",
                spec.name,
                own.callers,
                args.len()
            ))
            .with_code("argument-count"));
        }
        if wanted.is_some_and(|n| n != own.returned) {
            return Err(Error::argument(format!(
                "entry {:?} gives {} results, not {}",
                spec.name,
                own.returned,
                wanted.unwrap_or_default()
            ))
            .with_code("result-count"));
        }
        let plan = self.plan(spec, own, args)?;
        self.admit(spec, own, &plan, args)?;
        let _writer = if own.writes {
            Some(self.writer()?)
        } else {
            None
        };

        let mut borrowed = Borrowed::new();
        let mut frame: Vec<Option<Val<B>>> = Vec::with_capacity(plan.body.slots);
        let mut given = args.iter();
        let mut states = (own.callers < own.args.len()).then(|| lock(&self.states));
        for (port, ty) in own.args.iter().zip(&plan.body.inputs) {
            let val = match (port, &mut states) {
                (Port::State(i), Some(states)) => self.snapshot(states, *i)?,
                _ => match given.next() {
                    Some(arg) => from_arg(arg, ty, &self.device, &mut borrowed)?,
                    None => return Err(Error::argument("an argument is missing")),
                },
            };
            frame.push(Some(val));
        }
        drop(states);
        frame.resize_with(plan.body.slots, || None);

        let mut held: Option<MutexGuard<'_, Vec<State<B>>>> = None;
        let commit = || {
            // The types of the handles have been checked when their values were taken.
            let _ = donate::<B>(args);
            if own.writes {
                let mut states = lock(&self.states);
                for port in &own.results {
                    if let Port::State(i) = port {
                        states[*i] = State::Lost;
                    }
                }
                held = Some(states);
            }
        };
        let values =
            run(&self.device, &plan, frame, commit).map_err(|(error, origin)| match origin {
                Some(origin) => locate(&self.program, origin, error),
                None => error,
            })?;
        let mut results = Vec::with_capacity(values.len());
        for ((val, (_, ty)), port) in values.into_iter().zip(&plan.body.results).zip(&own.results) {
            let val = detach(val, ty, &self.device, &borrowed)?;
            match (port, &mut held) {
                (Port::State(i), Some(states)) => states[*i] = State::Held(val),
                _ => results.push(Held::boxed(ty.clone(), val)),
            }
        }
        Ok(results)
    }

    fn memory(&self, entry: usize, args: &[(Ty, Given)]) -> Result<String> {
        let (Some(own), Some(spec)) = (self.entries.get(entry), self.program.entries.get(entry))
        else {
            return Err(Error::argument(format!("there is no entry {entry}")));
        };
        if args.len() != own.callers {
            return Err(Error::argument(format!(
                "entry {:?} takes {} arguments, not {}",
                spec.name,
                own.callers,
                args.len()
            ))
            .with_code("argument-count"));
        }
        let plan = match self.cached(own, |i, ty| args[i].0 == *ty) {
            Some(plan) => plan,
            None => {
                let types: Vec<Ty> = args.iter().map(|(ty, _)| ty.clone()).collect();
                self.planned(spec, own, &types)?
            }
        };
        let given = self.given(own, args.iter().map(|(_, given)| *given));
        let memory = rehearse(&plan.body, &given);
        Ok(described(&self.program, &names(spec), &memory))
    }

    fn limit_memory(&self, bytes: usize) {
        self.limit
            .store(bytes.min(self.options.memory_limit), Ordering::Relaxed);
    }

    fn gradient(
        &self,
        entry: usize,
        args: &[Arg<'_>],
        wanted: Wanted<'_>,
    ) -> Result<Vec<Box<dyn Tensor>>> {
        if self.entries.get(entry).is_some_and(|own| own.writes) {
            return Err(Error::unsupported(
                "an entry that replaces state is not differentiated: it would remember every run",
            )
            .with_code("writes-state"));
        }
        if let Some(spec) = self.program.entries.get(entry) {
            self.check_straight(spec.function)?;
        }
        gradient::<B>(&self.device, self, entry, args, wanted)
    }

    fn get_state(&self, path: &str) -> Result<Box<dyn Tensor>> {
        let i = self.state_index(path)?;
        let val = self.snapshot(&mut lock(&self.states), i)?;
        Ok(Held::boxed(self.state_types[i].clone(), val))
    }

    fn set_state(&self, path: &str, value: Arg<'_>) -> Result<()> {
        let i = self.state_index(path)?;
        let ty = &self.state_types[i];
        if !value.is(ty) {
            return Err(Error::argument(format!(
                "state {:?} is {ty}, not {}",
                clip(path),
                value.ty()?
            ))
            .with_code("shape"));
        }
        let val = match &value {
            Arg::Array(array) => from_array(array, ty, &self.device, None)?,
            Arg::Tensor { tensor, donate } => {
                let held = Held::<B>::of(*tensor)?;
                let val = held.get()?;
                if *donate {
                    held.take();
                }
                val
            }
        };
        let _writer = self.writer()?;
        lock(&self.states)[i] = State::Held(val);
        Ok(())
    }
}

/// What the arguments of an entry are called.
fn names(entry: &Entry) -> Vec<String> {
    entry.args.iter().map(|a| a.name.clone()).collect()
}
