//! The C ABI of the Dala runtime.
