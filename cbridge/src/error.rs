//! `dala_error`.

use std::ffi::{CString, c_char};

use dala_runtime::error::{Error, Result};
use dala_runtime::panics;

use crate::guard::{count, quiet};

/// An error handle with its two texts.
#[allow(non_camel_case_types)]
pub struct dala_error {
    status: i32,
    message: CString,
    json: CString,
}

/// A handle that the caller owns.
fn into_handle(error: Error) -> *mut dala_error {
    Box::into_raw(Box::new(dala_error {
        status: error.status as i32,
        message: text(&error.to_string().replace(['\n', '\r'], " ")),
        json: text(&error.to_json().to_string()),
    }))
}

/// Counts the call and runs its body; gives the status, and the error through `err` when it is not NULL.
///
/// # Safety
/// `err` is NULL or points to memory for one pointer.
pub unsafe fn guard(err: *mut *mut dala_error, body: impl FnOnce() -> Result<()>) -> i32 {
    count();
    let Err(error) = panics::catch(body).and_then(|r| r) else {
        return 0;
    };
    let status = error.status as i32;
    if !err.is_null() {
        // Making the handle formats text, which must not unwind either.
        let handle = panics::catch(|| into_handle(error)).unwrap_or(std::ptr::null_mut());
        // SAFETY: not NULL, so the caller gave memory for it.
        unsafe { err.write(handle) };
    }
    status
}

/// As a C string; a NUL inside becomes a blank.
pub fn text(s: &str) -> CString {
    CString::new(s.replace('\0', " ")).unwrap_or_default()
}

/// The status of an error; that of success for NULL.
///
/// # Safety
/// `err` is NULL or a live error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_error_status(err: *const dala_error) -> i32 {
    // SAFETY: the caller's promise.
    quiet(0, || unsafe { err.as_ref() }.map_or(0, |e| e.status))
}

/// One line for a person.
///
/// # Safety
/// `err` is NULL or a live error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_error_message(err: *const dala_error) -> *const c_char {
    // SAFETY: the caller's promise.
    quiet(c"".as_ptr(), || {
        unsafe { err.as_ref() }.map_or(c"".as_ptr(), |e| e.message.as_ptr())
    })
}

/// The error as JSON.
///
/// # Safety
/// `err` is NULL or a live error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_error_json(err: *const dala_error) -> *const c_char {
    // SAFETY: the caller's promise.
    quiet(c"{}".as_ptr(), || {
        unsafe { err.as_ref() }.map_or(c"{}".as_ptr(), |e| e.json.as_ptr())
    })
}

/// Releases an error.
///
/// # Safety
/// `err` is NULL or an error that was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_error_free(err: *mut dala_error) {
    quiet((), || {
        if !err.is_null() {
            // SAFETY: the caller's promise; made by `into_handle`.
            drop(unsafe { Box::from_raw(err) });
        }
    });
}
