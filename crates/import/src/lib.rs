//! Turns a recorded trace of `ATen` calls into a module at stage 00 (aten).
//!
//! A [`Trace`] is plain data, filled by the recorder, which runs the graph on fake tensors; [`Trace::write`] turns it into IR. It checks
//! the recorder's promises (known element types, operands that exist), since a broken promise would become a wrong number later.
#![forbid(unsafe_code)]

mod emit;
mod trace;

pub use dynamlir_dialect::ir::Base;
pub use trace::{Arg, Creation, Error, Frame, Input, OpCall, Output, Returned, TensorType, Trace, ValueId};
