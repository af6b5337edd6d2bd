//! Decodes, verifies, plans and executes Dala graphs on Burn.

pub mod attrs;
pub mod backend;
pub mod dim;
pub mod dtype;
pub mod error;
pub mod exec;
pub mod host;
pub mod op;
pub mod value;
