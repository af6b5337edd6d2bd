//! Kernels on host memory, used where Burn has no primitive, or one with other semantics or less speed.
//!
//! They read strided views, write dense buffers, and split their work on a grid that depends on sizes only: the
//! number of threads never changes a result.

#[macro_use]
mod dispatch;

pub mod binary;
pub mod cast;
pub mod conv;
pub mod copy;
pub mod dot;
pub mod fourier;
pub mod gemm;
pub mod indexing;
pub mod matrix;
pub mod nest;
pub mod num;
pub mod order;
pub mod pad;
pub mod random;
pub mod reduce;
pub mod row;
pub mod scan;
pub mod select;
pub mod special;
pub mod stage;
pub mod unary;
pub mod window;

use std::ops::Range;

use burn_std::Bytes;
use rayon::prelude::*;

use crate::dtype::DType;
use crate::error::Error;

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

// SAFETY: a view only reads memory that its value keeps alive and unwritten for `'a`.
unsafe impl Send for HostView<'_> {}
// SAFETY: as above.
unsafe impl Sync for HostView<'_> {}

impl<'a> HostView<'a> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements of a view that is dense and aligned, and whose dtype is that of `T`.
    pub(in crate::host) fn dense_elements<T: num::Elem>(&self) -> &'a [T] {
        let n = self.elements();
        if n == 0 {
            return &[];
        }
        debug_assert!(self.is_dense() && self.dtype.itemsize() == size_of::<T>());
        // SAFETY: as said above; the memory lives for `'a`.
        unsafe { std::slice::from_raw_parts(self.ptr.cast(), n) }
    }

    /// True when the elements lie in row-major order without gaps.
    pub fn is_dense(&self) -> bool {
        is_dense(self.shape, self.strides)
    }
}

/// True when `strides` (in elements) are those of a dense row-major array; any are when it is empty.
pub fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    let mut expected = 1isize;
    let mut dense = true;
    for (&n, &s) in shape.iter().zip(strides).rev() {
        if n == 0 {
            return true;
        }
        dense &= n == 1 || s == expected;
        expected = expected.saturating_mul(n as isize);
    }
    dense
}

/// Row-major strides in elements.
pub fn dense_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1) as isize;
    }
    strides
}

/// A pointer that worker threads write through, each to its own part.
#[derive(Clone, Copy)]
pub struct Shared(pub *mut u8);

// SAFETY: whoever makes one sees to it that threads write disjoint parts.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The pointer `n` elements of `T` in.
    ///
    /// # Safety
    /// The same as for `ptr::add`.
    pub unsafe fn at<T>(self, n: usize) -> *mut T {
        // SAFETY: passed on to the caller.
        unsafe { self.0.cast::<T>().add(n) }
    }
}

enum Storage {
    B1(Vec<u8>),
    B2(Vec<u16>),
    B4(Vec<u32>),
    B8(Vec<u64>),
}

/// A dense result under construction.
pub struct Out {
    storage: Storage,
    len: usize,
}

macro_rules! each_storage {
    ($storage:expr, $vec:ident => $body:expr) => {
        match $storage {
            Storage::B1($vec) => $body,
            Storage::B2($vec) => $body,
            Storage::B4($vec) => $body,
            Storage::B8($vec) => $body,
        }
    };
}

impl Out {
    /// Room for `len` elements, not initialised.
    pub fn new(len: usize, itemsize: usize) -> Self {
        let storage = match itemsize {
            1 => Storage::B1(Vec::with_capacity(len)),
            2 => Storage::B2(Vec::with_capacity(len)),
            4 => Storage::B4(Vec::with_capacity(len)),
            _ => Storage::B8(Vec::with_capacity(len * itemsize / 8)),
        };
        let len = if itemsize > 8 {
            len * itemsize / 8
        } else {
            len
        };
        Out { storage, len }
    }

    /// `len` elements whose bytes are all 0.
    pub fn zeros(len: usize, itemsize: usize) -> Self {
        let storage = match itemsize {
            1 => Storage::B1(vec![0; len]),
            2 => Storage::B2(vec![0; len]),
            4 => Storage::B4(vec![0; len]),
            _ => Storage::B8(vec![0; len * itemsize / 8]),
        };
        let len = if itemsize > 8 {
            len * itemsize / 8
        } else {
            len
        };
        Out { storage, len }
    }

    pub fn ptr(&mut self) -> *mut u8 {
        each_storage!(&mut self.storage, v => v.as_mut_ptr().cast())
    }

    pub fn shared(&mut self) -> Shared {
        Shared(self.ptr())
    }

    /// The finished buffer.
    ///
    /// # Safety
    /// Every element has been written.
    pub unsafe fn finish(self) -> Bytes {
        let len = self.len;
        each_storage!(self.storage, v => {
            let mut v = v;
            // SAFETY: the capacity is at least `len` and the caller has written every element.
            unsafe { v.set_len(len) };
            Bytes::from_elems(v)
        })
    }
}

/// Elements per task where an element costs a few cycles.
pub const GRAIN: usize = 1 << 16;
/// Elements per task where an element costs tens of cycles.
pub const FINE_GRAIN: usize = 1 << 13;

/// Calls `work` on consecutive parts of `0..n` of `grain` each, in parallel when there is more than one.
pub fn parallel(n: usize, grain: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    let grain = grain.max(1);
    if n <= grain {
        if n > 0 {
            work(0..n);
        }
        return;
    }
    (0..n.div_ceil(grain))
        .into_par_iter()
        .for_each(|i| work(i * grain..((i + 1) * grain).min(n)));
}

/// The grain for `rows` of `row` elements each, counted in rows.
pub fn rows_per_task(row: usize, grain: usize) -> usize {
    (grain / row.max(1)).max(1)
}

/// Only reached by a program that was not verified.
pub fn bad_dtype(op: &str, dtype: DType) -> Error {
    Error::unsupported(format!("{op} has no host kernel for {}", dtype.name())).with_code("dtype")
}
