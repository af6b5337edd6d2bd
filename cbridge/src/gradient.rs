//! Gradients by Burn.

use dala_runtime::Wanted;
use dala_runtime::error::{Error, Result};

use crate::array::{argument, dala_arg, dala_result, dala_tensor};
use crate::calls::{dala_program, run};
use crate::error::{dala_error, guard};
use crate::guard::{get, slice};

/// Runs an entry and Burn's backward pass.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_gradient(
    program: *mut dala_program,
    entry: i32,
    args: *const dala_arg,
    n_args: usize,
    output: i32,
    cotangent: *const dala_arg,
    wrt: *const i32,
    n_wrt: usize,
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
                let cotangent = match cotangent.as_ref() {
                    Some(cotangent) => Some(argument(cotangent)?),
                    None => None,
                };
                let wrt = slice(wrt, n_wrt, "wrt")?
                    .iter()
                    .map(|i| number(*i, "argument"));
                let wrt = wrt.collect::<Result<Vec<usize>>>()?;
                let wanted = Wanted {
                    output: number(output, "result")?,
                    cotangent,
                    wrt: &wrt,
                };
                program
                    .loaded
                    .gradient(number(entry, "entry")?, args, wanted)
            })
        })
    }
}

fn number(i: i32, what: &str) -> Result<usize> {
    usize::try_from(i).map_err(|_| Error::argument(format!("there is no {what} {i}")))
}
