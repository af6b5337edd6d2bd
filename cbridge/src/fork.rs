//! A forked child has no worker threads: waiting for them would never end, so calls are refused instead.

use std::sync::atomic::{AtomicBool, Ordering};

use dala_runtime::error::{Error, Result};

/// Something ran, so that worker threads may exist.
static STARTED: AtomicBool = AtomicBool::new(false);
/// This process is a child, and the workers were left behind.
static ORPHANED: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> std::ffi::c_int;
}

extern "C" fn in_child() {
    if STARTED.load(Ordering::Relaxed) {
        ORPHANED.store(true, Ordering::Relaxed);
    }
}

/// Watches for forks; called when an engine is made.
pub fn watch() {
    #[cfg(unix)]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        // SAFETY: the handler only touches atomics.
        ONCE.call_once(|| unsafe {
            pthread_atfork(None, None, Some(in_child));
        });
    }
    #[cfg(not(unix))]
    let _ = in_child;
}

/// Refuses to go on in a child whose workers are gone; notes that something runs.
pub fn check() -> Result<()> {
    if ORPHANED.load(Ordering::Relaxed) {
        return Err(
            Error::unsupported("the library cannot be used after fork; use spawn")
                .with_code("after-fork"),
        );
    }
    if !STARTED.load(Ordering::Relaxed) {
        STARTED.store(true, Ordering::Relaxed);
    }
    Ok(())
}
