//! Copies of strided memory.

use burn_std::Bytes;

/// The elements in row-major order.
///
/// # Safety
/// Every element that `ptr`, `shape` and `strides` (bytes) describe is readable.
pub unsafe fn gather_bytes(
    ptr: *const u8,
    shape: &[usize],
    strides: &[isize],
    item: usize,
) -> Bytes {
    let mut out = Vec::new();
    if !shape.contains(&0) {
        // SAFETY: passed on to the caller.
        unsafe { gather(ptr, shape, strides, item, &mut out) };
    }
    Bytes::from_bytes_vec(out)
}

unsafe fn gather(
    ptr: *const u8,
    shape: &[usize],
    strides: &[isize],
    item: usize,
    out: &mut Vec<u8>,
) {
    match (shape, strides) {
        ([d, shape @ ..], [s, strides @ ..]) => {
            for i in 0..*d {
                // SAFETY: `i` is in range of the axis, so the element is one of those promised.
                unsafe { gather(ptr.offset(s * i as isize), shape, strides, item, out) };
            }
        }
        // SAFETY: as above.
        _ => out.extend_from_slice(unsafe { std::slice::from_raw_parts(ptr, item) }),
    }
}
