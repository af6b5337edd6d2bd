//! The C ABI of the Dala runtime: `include/dala.h`, function by function. Nothing is decided here; every body checks
//! its pointers, calls the runtime, and lets neither an error nor a panic pass other than as a status.

mod array;
mod calls;
mod error;
mod fork;
mod gradient;
mod guard;
mod hooks;
mod memory;
mod signing;
#[cfg(test)]
mod tests;

#[global_allocator]
static ALLOCATOR: memory::Pooled = memory::Pooled;
