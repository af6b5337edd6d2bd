//! How much memory runs may hold, besides what an engine allows: a limit of the thread that runs.

use std::cell::Cell;

thread_local! {
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The most bytes that runs of this thread may hold at a time.
pub fn memory_limit() -> usize {
    LIMIT.get()
}

/// Sets it, and gives what it was; `usize::MAX` is no limit.
pub fn set_memory_limit(bytes: usize) -> usize {
    LIMIT.replace(bytes)
}
