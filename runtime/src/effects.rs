//! What a program does besides computing goes to the process' handler.

use std::cell::Cell;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, Status};
use crate::show::fill;
use crate::value::Ty;

pub use crate::show::Shown;

/// What a handler is asked to do.
pub enum Event<'a> {
    Print {
        format: &'a str,
        values: &'a [Shown<'a>],
    },
    Tap {
        name: &'a str,
        values: &'a [Shown<'a>],
    },
    /// Writes the dense elements of each result.
    Callback {
        name: &'a str,
        values: &'a [Shown<'a>],
        results: &'a mut [(&'a Ty, &'a mut [u8])],
    },
    /// Asks whether to go on.
    Poll,
}

/// Does what programs ask for; called by the thread that runs the program.
pub trait Handler: Send + Sync {
    /// False stops the run.
    fn handle(&self, event: Event<'_>) -> bool;
}

static HANDLER: RwLock<Option<Arc<dyn Handler>>> = RwLock::new(None);

/// Replaces the handler of the process; a call under way still ends in the one before.
pub fn set_handler(handler: Option<Arc<dyn Handler>>) {
    *HANDLER.write().unwrap_or_else(PoisonError::into_inner) = handler;
}

fn handler() -> Option<Arc<dyn Handler>> {
    HANDLER
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// True while this thread runs a handler: what it holds for the run that called it must not be waited for.
pub fn inside_handler() -> bool {
    INSIDE.get() > 0
}

fn ask(handler: &dyn Handler, event: Event<'_>) -> bool {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(INSIDE.get() - 1);
        }
    }
    INSIDE.set(INSIDE.get() + 1);
    let _leave = Leave;
    handler.handle(event)
}

fn refused(what: &str) -> Error {
    Error::runtime(format!("the handler of {what} failed")).with_code("handler")
}

/// Prints; without a handler to standard error.
pub fn print(format: &str, values: &[Shown<'_>]) -> Result<()> {
    match handler() {
        Some(handler) if ask(&*handler, Event::Print { format, values }) => Ok(()),
        Some(_) => Err(refused("print")),
        None => {
            eprintln!("{}", fill(format, values));
            Ok(())
        }
    }
}

/// Shows values under a name; without a handler nobody looks.
pub fn tap(name: &str, values: &[Shown<'_>]) -> Result<()> {
    match handler() {
        Some(handler) if !ask(&*handler, Event::Tap { name, values }) => Err(refused("tap")),
        _ => Ok(()),
    }
}

/// Has the results computed outside.
pub fn callback(name: &str, values: &[Shown<'_>], results: &mut [(&Ty, &mut [u8])]) -> Result<()> {
    let Some(handler) = handler() else {
        return Err(Error::unsupported(format!(
            "nothing in this process answers the callback {name:?}"
        ))
        .with_code("no-handler")
        .with("callback", name));
    };
    // The two lifetimes of the list are one in the event, which is over when this function returns.
    let mut rooms: Vec<(&Ty, &mut [u8])> =
        results.iter_mut().map(|(t, r)| (*t, &mut **r)).collect();
    let event = Event::Callback {
        name,
        values,
        results: &mut rooms,
    };
    if ask(&*handler, event) {
        Ok(())
    } else {
        Err(refused(&format!("the callback {name:?}")))
    }
}

/// The least time between two questions whether to go on.
const POLL: Duration = Duration::from_millis(50);
/// How often the clock is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// The most steps between two looks.
const MOST: u32 = 64;

/// Asks the handler now and then whether a run shall go on; each step of a loop counts, and looks at the clock only
/// where time may have passed.
#[derive(Default)]
pub struct Poll {
    left: Cell<u32>,
    steps: Cell<u32>,
    looked: Cell<Option<Instant>>,
    asked: Cell<Option<Instant>>,
}

impl Poll {
    /// A loop begins, whose steps may take longer than those before.
    pub fn start(&self) {
        self.left.set(1);
        self.steps.set(1);
        self.looked.set(None);
    }

    /// Counts a step of a loop.
    #[inline]
    pub fn step(&self) -> Result<()> {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left > 0 { Ok(()) } else { self.look() }
    }

    #[cold]
    fn look(&self) -> Result<()> {
        let now = Instant::now();
        let asked = self.asked.get().unwrap_or(now);
        self.asked.set(Some(asked));
        if let Some(before) = self.looked.replace(Some(now)) {
            let steps = self.steps.get();
            self.steps.set(if now - before < LOOK {
                (steps * 2).min(MOST)
            } else {
                (steps / 2).max(1)
            });
        }
        self.left.set(self.steps.get());
        if now - asked < POLL {
            return Ok(());
        }
        self.asked.set(Some(now));
        match handler() {
            Some(handler) if !ask(&*handler, Event::Poll) => Err(Error::new(
                Status::Interrupted,
                "the run was interrupted from outside",
            )),
            _ => Ok(()),
        }
    }
}
