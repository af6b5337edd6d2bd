//! Engines as the callers see them: no backend type shows.

use std::any::Any;

use serde_json::Value;

use crate::dtype::DType;
use crate::error::{Error, Result, clip};
use crate::file::Container;
use crate::host::HostView;
use crate::plan::Given;
use crate::value::{MAX_RANK, Ty};

/// An array in the caller's memory; one of keys is described by its storage, with a last dim of 2. Whoever makes one vouches that every element that `data`, `shape` and `strides`
/// describe is readable for `'a`; this is what makes [`HostArray::new`] unsafe.
#[derive(Clone, Copy)]
pub struct HostArray<'a> {
    dtype: DType,
    shape: &'a [i64],
    strides: Option<&'a [i64]>,
    data: *const u8,
}

impl<'a> HostArray<'a> {
    /// Checks that the description makes sense; strides are in bytes, `None` means dense and row-major.
    ///
    /// # Safety
    /// The elements described are readable for `'a`, and nobody writes to them.
    pub unsafe fn new(
        dtype: DType,
        shape: &'a [i64],
        strides: Option<&'a [i64]>,
        data: *const u8,
    ) -> Result<Self> {
        let array = HostArray {
            dtype,
            shape,
            strides,
            data,
        };
        if shape.len() > MAX_RANK {
            return Err(
                Error::argument(format!("rank {} is above {MAX_RANK}", shape.len()))
                    .with_code("rank-too-high"),
            );
        }
        if !dtype.is_stored() {
            return Err(Error::unsupported(format!(
                "arrays of dtype {} are not taken",
                dtype.name()
            ))
            .with_code("dtype"));
        }
        if shape.iter().any(|d| *d < 0) || (dtype == DType::Key && shape.last() != Some(&2)) {
            return Err(Error::argument(format!(
                "a shape of {shape:?} for {}",
                dtype.name()
            )));
        }
        if shape.contains(&0) {
            return Ok(array);
        }
        if data.is_null() {
            return Err(Error::argument("data is NULL"));
        }
        if let Some(strides) = strides {
            let reach = shape.iter().zip(strides).try_fold(0i64, |sum, (d, s)| {
                sum.checked_add(s.checked_abs()?.checked_mul(d - 1)?)
            });
            if reach.is_none_or(|n| n > i64::MAX / 2) {
                return Err(Error::argument("strides overflow"));
            }
        }
        Ok(array)
    }

    /// A dense array over `bytes`.
    pub fn dense(dtype: DType, shape: &'a [i64], bytes: &'a [u8]) -> Result<Self> {
        // SAFETY: nothing is read before the length has been checked against the shape just below.
        let array = unsafe { Self::new(dtype, shape, None, bytes.as_ptr()) }?;
        if array.ty()?.bytes() != bytes.len() {
            return Err(Error::argument(format!(
                "{} bytes for {}",
                bytes.len(),
                array.ty()?
            )));
        }
        Ok(array)
    }

    /// Its type.
    pub fn ty(&self) -> Result<Ty> {
        Ty::new(
            self.dtype,
            self.logical_shape().iter().map(|d| *d as usize).collect(),
        )
    }

    fn logical_shape(&self) -> &[i64] {
        match self.shape.split_last() {
            Some((_, shape)) if self.dtype == DType::Key => shape,
            _ => self.shape,
        }
    }

    pub(crate) fn is(&self, ty: &Ty) -> bool {
        let shape = self.logical_shape();
        self.dtype == ty.dtype
            && shape.len() == ty.shape.len()
            && shape.iter().zip(&ty.shape).all(|(a, b)| *a as usize == *b)
    }

    /// True when the elements lie in row-major order without gaps.
    pub(crate) fn is_dense(&self) -> bool {
        let Some(strides) = self.strides else {
            return true;
        };
        let mut next = self.dtype.part_size() as i64;
        self.shape.iter().zip(strides).rev().all(|(d, s)| {
            let fits = *d == 1 || *s == next;
            next = next.saturating_mul(*d);
            fits
        })
    }

    pub(crate) fn data(&self) -> *const u8 {
        self.data
    }

    /// Strides of the storage in bytes.
    pub(crate) fn byte_strides(&self) -> Vec<isize> {
        match self.strides {
            Some(strides) => strides.iter().map(|s| *s as isize).collect(),
            None => {
                let mut strides = vec![0; self.shape.len()];
                let mut next = self.dtype.part_size() as isize;
                for (s, d) in strides.iter_mut().zip(self.shape).rev() {
                    *s = next;
                    next = next.saturating_mul((*d).max(1) as isize);
                }
                strides
            }
        }
    }
}

/// A tensor of an engine.
pub trait Tensor: Send + Sync {
    fn ty(&self) -> &Ty;
    /// Shows where it lies in host memory; an error when it was donated, `None` when it lies elsewhere.
    fn view(&self, f: &mut dyn FnMut(Option<HostView<'_>>)) -> Result<()>;
    /// A second handle to the same storage.
    fn duplicate(&self) -> Result<Box<dyn Tensor>>;
    /// For the engine to find its own.
    fn as_any(&self) -> &dyn Any;
}

/// One argument of a run.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// Read during the call only.
    Array(HostArray<'a>),
    /// With `donate`, the run takes the storage; the handle is empty afterwards, unless the run fails.
    Tensor {
        tensor: &'a dyn Tensor,
        donate: bool,
    },
}

impl Arg<'_> {
    pub(crate) fn is(&self, ty: &Ty) -> bool {
        match self {
            Arg::Array(array) => array.is(ty),
            Arg::Tensor { tensor, .. } => tensor.ty() == ty,
        }
    }

    pub(crate) fn ty(&self) -> Result<Ty> {
        match self {
            Arg::Array(array) => array.ty(),
            Arg::Tensor { tensor, .. } => Ok(tensor.ty().clone()),
        }
    }
}

/// What is to be differentiated, and by what.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The number of the result.
    pub output: usize,
    /// A tensor of the result's type to multiply it by before it is added up; without one it is a scalar.
    pub cotangent: Option<Arg<'a>>,
    /// Numbers of arguments.
    pub wrt: &'a [usize],
}

/// A loaded program.
pub trait Loaded: Send + Sync {
    /// Entries, arguments, results and dims as JSON.
    fn info(&self) -> &str;
    /// The index of an entry.
    fn entry(&self, name: &str) -> Option<usize>;
    /// Runs an entry on its arguments without those of role `state`; where the caller has room for `wanted` results
    /// and there are not as many, nothing runs.
    fn run(
        &self,
        entry: usize,
        args: &[Arg<'_>],
        wanted: Option<usize>,
    ) -> Result<Vec<Box<dyn Tensor>>>;
    /// How much memory a run of an entry holds, on arguments of these types that come so: as JSON.
    fn memory(&self, entry: usize, args: &[(Ty, Given)]) -> Result<String>;
    /// The most bytes that a run of it may hold at a time, from now on.
    fn limit_memory(&self, bytes: usize);
    /// Runs an entry that replaces no state, and the backend's own backward pass over what it ran: its results, then
    /// the gradients. For engines that record, which `"flex-autodiff"` does.
    fn gradient(
        &self,
        entry: usize,
        args: &[Arg<'_>],
        wanted: Wanted<'_>,
    ) -> Result<Vec<Box<dyn Tensor>>>;
    /// The value of a state.
    fn get_state(&self, path: &str) -> Result<Box<dyn Tensor>>;
    /// Replaces a state by a value of the same type.
    fn set_state(&self, path: &str, value: Arg<'_>) -> Result<()>;
}

/// One operation, without a program.
pub trait Operation: Send + Sync {
    fn run(&self, args: &[Arg<'_>]) -> Result<Vec<Box<dyn Tensor>>>;
}

/// Something that runs programs.
pub trait Engine: Send + Sync {
    fn name(&self) -> &str;
    /// Verifies a container's program and makes it ready.
    fn load(&self, container: Container) -> Result<Box<dyn Loaded>>;
    /// Reads one operation: `{"op": NAME, "attrs": {...}}`.
    fn operation(&self, json: &str) -> Result<Box<dyn Operation>>;
    /// Copies an array into a new tensor.
    fn write(&self, array: HostArray<'_>) -> Result<Box<dyn Tensor>>;
    /// The dense bytes of a tensor.
    fn read(&self, tensor: &dyn Tensor) -> Result<Vec<u8>>;
    /// Waits for everything that was started.
    fn sync(&self) -> Result<()>;
}

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes that one run may hold at a time.
    pub memory_limit: usize,
    /// For tests: `panic:OP` lets every execution of OP panic.
    pub fault: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            memory_limit: physical_memory().map_or(usize::MAX / 2, |n| n / 10 * 8),
            fault: None,
        }
    }
}

impl Options {
    /// Reads `{"memory_limit": BYTES, "fault": "panic:OP"}`; both may be absent.
    pub fn parse(json: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(json)
            .map_err(|e| Error::argument(format!("the options are not JSON: {e}")))?;
        let Value::Object(map) = value else {
            return Err(Error::argument("the options are not an object"));
        };
        let mut options = Options::default();
        for (key, value) in map {
            match (key.as_str(), &value) {
                ("memory_limit", Value::Number(n)) if n.is_u64() => {
                    let n = n.as_u64().unwrap_or(u64::MAX);
                    options.memory_limit = usize::try_from(n).unwrap_or(usize::MAX);
                }
                ("fault", Value::String(text)) if text.starts_with("panic:") => {
                    options.fault = Some(text["panic:".len()..].to_string());
                }
                _ => {
                    return Err(Error::argument(format!(
                        "option {:?} is unknown, or its value is wrong",
                        clip(&key)
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// The memory of the machine, or of the control group that the process is in.
fn physical_memory() -> Option<usize> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    let total = kib.saturating_mul(1024);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    Some(total.min(group.unwrap_or(usize::MAX)))
}
