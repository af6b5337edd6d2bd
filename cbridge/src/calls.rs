//! Engines, programs, operations and tensors.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::path::PathBuf;

use dala_runtime::error::{Error, Result};
use dala_runtime::file::Container;
use dala_runtime::{Arg, Engine, Loaded, Operation, Options, engine, panics};

use crate::array::{argument, dala_arg, dala_array, dala_result, dala_tensor, give, host_array};
use crate::error::{dala_error, guard, text};
use crate::fork;
use crate::guard::{calls, count, get, null, quiet, slice, string};

/// An engine.
#[allow(non_camel_case_types)]
pub struct dala_engine(Box<dyn Engine>);

/// A program; it stays usable when its engine's handle is freed.
#[allow(non_camel_case_types)]
pub struct dala_program {
    pub(crate) loaded: Box<dyn Loaded>,
    info: CString,
}

/// One operation.
#[allow(non_camel_case_types)]
pub struct dala_op(Box<dyn Operation>);

/// The version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn dala_abi_version() -> i32 {
    count();
    1
}

/// Calls so far, this one not counted.
#[unsafe(no_mangle)]
pub extern "C" fn dala_call_count() -> u64 {
    calls()
}

/// # Safety
/// `out` is NULL or points to memory for one pointer.
unsafe fn put<T>(out: *mut *mut T, value: T) {
    // SAFETY: the callers have checked it for NULL; the rest is the caller's promise.
    unsafe { out.write(Box::into_raw(Box::new(value))) };
}

pub(crate) fn some<T>(out: *mut T, what: &str) -> Result<()> {
    if out.is_null() {
        Err(null(what))
    } else {
        Ok(())
    }
}

/// # Safety
/// `ptr` is NULL or a box of this library that was not freed.
unsafe fn release<T>(ptr: *mut T) {
    if !ptr.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(ptr) });
    }
}

/// Makes an engine.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_engine_new(
    name: *const c_char,
    options: *const c_char,
    out: *mut *mut dala_engine,
    err: *mut *mut dala_error,
) -> i32 {
    panics::install_hook();
    fork::watch();
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let options = if options.is_null() {
                Options::default()
            } else {
                Options::parse(string(options, "options")?)?
            };
            put(out, dala_engine(engine(string(name, "name")?, options)?));
            Ok(())
        })
    }
}

/// Releases an engine.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_engine_free(engine: *mut dala_engine) {
    // SAFETY: the caller's promise.
    quiet((), || unsafe { release(engine) });
}

/// # Safety
/// `out` points to memory for one pointer.
pub(crate) unsafe fn load(
    engine: &dala_engine,
    container: Container,
    out: *mut *mut dala_program,
) -> Result<()> {
    let loaded = engine.0.load(container)?;
    let info = text(loaded.info());
    // SAFETY: passed on to the caller.
    unsafe { put(out, dala_program { loaded, info }) };
    Ok(())
}

/// Loads a program from bytes.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_load(
    engine: *mut dala_engine,
    bytes: *const u8,
    len: usize,
    out: *mut *mut dala_program,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let engine = get(engine, "engine")?;
            load(engine, Container::load(slice(bytes, len, "bytes")?)?, out)
        })
    }
}

/// Maps a file and loads it.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_open(
    engine: *mut dala_engine,
    path: *const c_char,
    out: *mut *mut dala_program,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let engine = get(engine, "engine")?;
            let path = PathBuf::from(string(path, "path")?);
            load(engine, Container::open(&path)?, out)
        })
    }
}

/// Releases a program.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_free(program: *mut dala_program) {
    // SAFETY: the caller's promise.
    quiet((), || unsafe { release(program) });
}

/// The program's signature as JSON; NULL for NULL.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_info(program: *const dala_program) -> *const c_char {
    // SAFETY: the caller's promise.
    quiet(std::ptr::null(), || {
        unsafe { program.as_ref() }.map_or(std::ptr::null(), |p| p.info.as_ptr())
    })
}

/// The index of an entry, or -1.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_entry(
    program: *const dala_program,
    name: *const c_char,
) -> i32 {
    // SAFETY: the caller's promise.
    quiet(-1, || unsafe {
        let (Ok(program), Ok(name)) = (get(program, "program"), string(name, "name")) else {
            return -1;
        };
        let index = program.loaded.entry(name);
        index.and_then(|i| i32::try_from(i).ok()).unwrap_or(-1)
    })
}

/// Releases the tensors first, then runs `body` on the arguments and hands its results out.
///
/// # Safety
/// As `dala_run` in `dala.h`.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn run(
    args: *const dala_arg,
    n_args: usize,
    results: *mut dala_result,
    n_results: usize,
    frees: *const *mut dala_tensor,
    n_frees: usize,
    body: impl FnOnce(&[Arg<'_>]) -> Result<Vec<Box<dyn dala_runtime::Tensor>>>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        for tensor in slice(frees, n_frees, "frees")? {
            release(*tensor);
        }
        fork::check()?;
        let given = slice(args, n_args, "args")?;
        let mut args = Vec::with_capacity(given.len());
        for arg in given {
            args.push(argument(arg)?);
        }
        slice(results, n_results, "results")?;
        let tensors = body(&args)?;
        let results: &mut [MaybeUninit<dala_result>] = if n_results == 0 {
            &mut []
        } else {
            std::slice::from_raw_parts_mut(results.cast(), n_results)
        };
        give(tensors, results)
    }
}

/// Runs an entry.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_run(
    program: *mut dala_program,
    entry: i32,
    args: *const dala_arg,
    n_args: usize,
    results: *mut dala_result,
    n_results: usize,
    frees: *const *mut dala_tensor,
    n_frees: usize,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            run(args, n_args, results, n_results, frees, n_frees, |args| {
                let program = get(program, "program")?;
                let entry = usize::try_from(entry)
                    .map_err(|_| Error::argument(format!("there is no entry {entry}")))?;
                program.loaded.run(entry, args, Some(n_results))
            })
        })
    }
}

/// Copies a state out.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_get_state(
    program: *mut dala_program,
    path: *const c_char,
    result: *mut dala_result,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(result, "result")?;
            fork::check()?;
            let program = get(program, "program")?;
            let state = program.loaded.get_state(string(path, "path")?)?;
            give(vec![state], std::slice::from_mut(&mut *result.cast()))
        })
    }
}

/// Replaces a state.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_set_state(
    program: *mut dala_program,
    path: *const c_char,
    value: *const dala_arg,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            fork::check()?;
            let program = get(program, "program")?;
            let value = argument(get(value, "value")?)?;
            program.loaded.set_state(string(path, "path")?, value)
        })
    }
}

/// Reads one operation.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_op_new(
    engine: *mut dala_engine,
    json: *const c_char,
    out: *mut *mut dala_op,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let engine = get(engine, "engine")?;
            put(out, dala_op(engine.0.operation(string(json, "json")?)?));
            Ok(())
        })
    }
}

/// Releases an operation.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_op_free(op: *mut dala_op) {
    // SAFETY: the caller's promise.
    quiet((), || unsafe { release(op) });
}

/// Runs one operation.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_op_run(
    op: *mut dala_op,
    args: *const dala_arg,
    n_args: usize,
    results: *mut dala_result,
    n_results: usize,
    frees: *const *mut dala_tensor,
    n_frees: usize,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            run(args, n_args, results, n_results, frees, n_frees, |args| {
                if n_results != 1 {
                    return Err(
                        Error::argument(format!("there is 1 result, not {n_results}"))
                            .with_code("result-count"),
                    );
                }
                get(op, "op")?.0.run(args)
            })
        })
    }
}

/// Copies an array into a new tensor.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_tensor_new(
    engine: *mut dala_engine,
    array: *const dala_array,
    out: *mut dala_result,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            fork::check()?;
            let engine = get(engine, "engine")?;
            let tensor = engine.0.write(host_array(get(array, "array")?)?)?;
            give(vec![tensor], std::slice::from_mut(&mut *out.cast()))
        })
    }
}

/// A second handle to the same storage.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_tensor_clone(
    tensor: *const dala_tensor,
    out: *mut *mut dala_tensor,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let copy = get(tensor, "tensor")?.tensor().duplicate()?;
            put(out, dala_tensor::new(copy)?);
            Ok(())
        })
    }
}

/// Describes a tensor.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_tensor_view(
    tensor: *const dala_tensor,
    out: *mut dala_array,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            out.write(get(tensor, "tensor")?.array()?);
            Ok(())
        })
    }
}

/// Releases a tensor.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_tensor_free(tensor: *mut dala_tensor) {
    // SAFETY: the caller's promise.
    quiet((), || unsafe { release(tensor) });
}
