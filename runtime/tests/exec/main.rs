//! Every op on small exact cases. Each case runs on owned, shared and strided operands, which must agree.

mod array;
mod borrow;
mod contraction;
mod elementwise;
mod fourier;
mod indexing;
mod matrix;
mod movement;
mod random;
mod reduction;
mod threads;
mod window;
