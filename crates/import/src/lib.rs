//! From a recorded trace of `ATen` calls to a module at stage 00 (aten).
//!
//! A [`Trace`] is plain data, filled by whoever ran the graph on fake tensors; [`Trace::write`] turns it into IR. It
//! checks what the recorder promises (known element types, operands that exist), since a wrong promise would be a
//! wrong number later.
#![forbid(unsafe_code)]

mod emit;
mod trace;

pub use dynamlir_dialect::ir::Base;
pub use trace::{Arg, Creation, Error, Frame, Input, OpCall, Output, Returned, TensorType, Trace, ValueId};
