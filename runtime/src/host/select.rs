//! `select`: only moves elements, so only their size matters.

use super::row::{Kernel, choice};

/// The kernel for values of `itemsize` bytes.
pub fn kernel(itemsize: usize) -> Kernel<3> {
    with_bits!(itemsize, T => Kernel::cheap(choice::<T>()))
}
