//! How much memory runs may hold, besides what an engine allows: a limit of the thread that runs.

use std::cell::Cell;

use crate::error::{Error, Result};

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

/// Refuses more bytes than `limit`.
pub fn check_bytes(bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit {
        return Err(Error::out_of_memory(format!(
            "{bytes} bytes are needed, the limit is {limit}"
        ))
        .with("needed", bytes)
        .with("limit", limit));
    }
    Ok(())
}
