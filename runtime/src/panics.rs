//! Panics of the backend become errors; inside our calls they print nothing.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

use crate::error::{Error, Status};

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Where a worker thread panicked last: its panic reaches the caller, its thread-local does not.
static WORKER_PLACE: Mutex<Option<String>> = Mutex::new(None);

/// Makes the process' panic hook silent for panics that [`catch`] takes, and lets them say where they happened.
/// Others go to the hook that was there before.
pub fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info
                .location()
                .map(|at| format!("{}:{}:{}", at.file(), at.line(), at.column()));
            if INSIDE.get() > 0 {
                PLACE.set(place);
            } else if rayon::current_thread_index().is_some() {
                *WORKER_PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place;
            } else {
                previous(info);
            }
        }));
    });
}

/// Runs `f`; a panic becomes an error of status `Panic`.
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, Error> {
    INSIDE.set(INSIDE.get() + 1);
    let out = catch_unwind(AssertUnwindSafe(f));
    INSIDE.set(INSIDE.get() - 1);
    out.map_err(|payload| {
        let said = payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_string());
        let place = PLACE.take().or_else(|| {
            WORKER_PLACE
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        });
        // A payload's own drop may panic; leak it rather than unwind again.
        std::mem::forget(payload);
        let error = Error::new(Status::Panic, format!("a bug inside the library: {said}"));
        match place {
            Some(place) => error.with("panic_location", place),
            None => error,
        }
    })
}
