//! The dynamic sizes of a capture: which sizes of its inputs get symbols, and what the program does with them. The sizes themselves are
//! those of `crates/symint`.

pub(crate) mod inputs;
pub(crate) mod int_inputs;
pub(crate) mod policy;
pub(crate) mod program_floats;
pub(crate) mod recipes;
pub(crate) mod unbacked_names;
