//! `select`: only moves elements, so only their size matters.

use super::nest::{Kernel, row3};
use super::num::Flag;

/// The kernel for values of `itemsize` bytes.
pub fn kernel(itemsize: usize) -> Kernel<3> {
    with_bits!(itemsize, T => Kernel::cheap(row3(|c: Flag, x: T, y: T| if c.get() { x } else { y })))
}
