//! Decodes, verifies, plans and executes Dala graphs on Burn.
//!
//! A `.dala` file becomes a [`file::Container`], its program a [`program::Program`]; [`verify`] checks what needs no
//! sizes, [`infer`] the rest once the sizes of the arguments are known; a [`plan`] is then run on a backend by way of
//! [`exec`]. Callers see [`engine`] only. This crate knows nothing of C or Python.

pub mod attrs;
pub mod backend;
mod budget;
pub mod dim;
pub mod dtype;
pub mod effects;
pub mod engine;
mod engines;
pub mod error;
pub mod exec;
pub mod file;
mod gradient;
pub mod host;
pub mod infer;
pub mod kernels;
pub mod limits;
mod loaded;
pub mod op;
mod operation;
pub mod panics;
mod plan;
pub mod program;
mod run;
mod show;
pub mod signature;
mod symbolic;
mod tensor;
pub mod value;
pub mod verify;

pub use engine::{Arg, Engine, HostArray, Loaded, Operation, Options, Tensor, Wanted};
pub use engines::engine;
pub use error::{Error, Result, Status};
pub use plan::Given;
