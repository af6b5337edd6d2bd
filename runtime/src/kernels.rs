//! Native kernels of fused graphs, registered by the process and found by name while planning.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Write;
use std::sync::{PoisonError, RwLock};

use crate::dtype::DType;
use crate::error::{Error, Result, clip};

/// The version of [`Kernel`]'s interface.
pub const KERNEL_ABI: u32 = 1;

/// Computes the part `[begin, end)` of the flattened parallel axes: pointers to the operands, then to the results; the
/// extents of the space; strides in bytes, of each of them along each axis of the space. Anything but 0 is a failure.
///
/// Where each element of the results depends on one element of each operand, a result may be the very memory of an
/// operand: such a kernel reads what it needs for some elements before it writes them.
///
/// It reads and writes within these extents and strides only, each result's element in one part only, and may be
/// called from several threads at a time.
pub type Kernel = unsafe extern "C" fn(
    data: *const *mut c_void,
    extents: *const i64,
    strides: *const i64,
    begin: i64,
    end: i64,
) -> i32;

static KERNELS: RwLock<Option<HashMap<String, Kernel>>> = RwLock::new(None);

/// Makes a kernel known for the rest of the process, under the name that [`name`] gives for the nodes that it computes.
/// A later one of the same name takes its place in the plans that follow.
///
/// # Safety
/// `kernel` keeps the promises of [`Kernel`] for all nodes of this name, and is never unloaded.
pub unsafe fn register(name: &str, kernel: Kernel, version: u32) -> Result<()> {
    if version != KERNEL_ABI {
        return Err(Error::unsupported(format!(
            "a kernel of ABI version {version}; this library calls version {KERNEL_ABI}"
        ))
        .with_code("kernel-abi"));
    }
    let signature = name.split_once(':').map_or("", |(_, signature)| signature);
    if !signature.contains("->") {
        return Err(Error::argument(format!(
            "{:?} is not the name of a kernel, which is KEY:SIGNATURE",
            clip(name)
        ))
        .with_code("kernel-name"));
    }
    let mut kernels = KERNELS.write().unwrap_or_else(PoisonError::into_inner);
    kernels
        .get_or_insert_default()
        .insert(name.to_string(), kernel);
    Ok(())
}

/// The kernel of that name.
pub fn find(name: &str) -> Option<Kernel> {
    let kernels = KERNELS.read().unwrap_or_else(PoisonError::into_inner);
    kernels.as_ref()?.get(name).copied()
}

/// Any kernel at all.
pub fn any() -> bool {
    let kernels = KERNELS.read().unwrap_or_else(PoisonError::into_inner);
    kernels.is_some()
}

/// The name of the kernel for a fused node: its key, and all that a kernel takes for granted about memory. A file may
/// lie about its key, but so never gets a kernel that was made for other operands.
///
/// `KEY:f32[0,1];f32[1]->f32[0,1]/2/1` takes two operands, the second only along axis 1, and gives one result in a space
/// of two axes, of which one may be split.
pub fn name(
    key: &str,
    operands: &[(DType, &[i64])],
    results: &[(DType, &[i64])],
    rank: usize,
    parallel: usize,
) -> String {
    let mut name = format!("{key}:");
    let mut list = |values: &[(DType, &[i64])]| {
        for (i, (dtype, axes)) in values.iter().enumerate() {
            name.push_str(if i > 0 { ";" } else { "" });
            name.push_str(dtype.name());
            let axes: Vec<String> = axes.iter().map(i64::to_string).collect();
            name.push_str(&format!("[{}]", axes.join(",")));
        }
        name.push_str("->");
    };
    list(operands);
    list(results);
    name.truncate(name.len() - 2);
    // Writing to a string cannot fail.
    let _ = write!(name, "/{rank}/{parallel}");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(
        _: *const *mut c_void,
        _: *const i64,
        _: *const i64,
        _: i64,
        _: i64,
    ) -> i32 {
        0
    }

    #[test]
    fn test_a_name_tells_all_that_a_kernel_relies_on() {
        let (x, b): (&[i64], &[i64]) = (&[0, 1], &[-1]);
        let f = DType::F32;
        assert_eq!(
            name("ab", &[(f, x), (DType::Bool, b)], &[(f, x)], 2, 1),
            "ab:f32[0,1];bool[-1]->f32[0,1]/2/1"
        );
        assert_eq!(name("ab", &[], &[(f, &[])], 0, 0), "ab:->f32[]/0/0");
    }

    #[test]
    fn test_another_abi_or_a_bare_key_is_refused() {
        // SAFETY: nothing calls it.
        let register = |name: &str, version| unsafe { register(name, nothing, version) };
        assert_eq!(register("a:->f32[]/0/0", 2).unwrap_err().code, "kernel-abi");
        assert_eq!(register("a", 1).unwrap_err().code, "kernel-name");
        assert!(find("a:->f32[]/0/0").is_none());
        register("a:->f32[]/0/0", 1).unwrap();
        assert!(find("a:->f32[]/0/0").is_some());
    }
}
