//! Values in host memory.

pub mod copy;

use crate::dtype::DType;

/// A read-only look at a value in host memory. The shape is that of the storage: a key has a last dim of 2.
#[derive(Clone, Copy, Debug)]
pub struct HostView<'a> {
    /// The first element.
    pub ptr: *const u8,
    pub shape: &'a [usize],
    /// In elements; may be 0 or negative.
    pub strides: &'a [isize],
    /// A key shows as `U32`.
    pub dtype: DType,
}
