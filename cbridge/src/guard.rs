//! What stands around every exported function.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};

use dala_runtime::error::{Error, Result};
use dala_runtime::panics;

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Counts a call.
pub fn count() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Calls so far.
pub fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Runs the body of a function without a status; `fallback` after a panic.
pub fn quiet<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    count();
    panics::catch(body).unwrap_or(fallback)
}

/// A reference from a pointer of the caller.
///
/// # Safety
/// `ptr` is NULL or a live object of this library for `'a`.
pub unsafe fn get<'a, T>(ptr: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: passed on to the caller.
    unsafe { ptr.as_ref() }.ok_or_else(|| null(what))
}

/// The error for a NULL that must not be.
pub fn null(what: &str) -> Error {
    Error::argument(format!("{what} is NULL")).with_code("null")
}

/// A slice from a pointer and a length of the caller; NULL stands for an empty one.
///
/// # Safety
/// `ptr` is NULL or points to `len` elements that live for `'a`.
pub unsafe fn slice<'a, T>(ptr: *const T, len: usize, what: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if ptr.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(null(what));
    }
    // SAFETY: passed on to the caller; NULL is excluded.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

/// # Safety
/// `text` is NULL or NUL-terminated, for `'a`.
pub unsafe fn string<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Error::argument(format!("{what} is not UTF-8")))
}
