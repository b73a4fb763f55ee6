//! Traces of `ATen` calls, and modules at stage 00 (aten).
//!
//! A [`Trace`] is plain data. The recorder, which runs the graph on fake tensors, fills it; [`Trace::write`] turns it into IR, and
//! [`Trace::read`] turns IR into a trace again. [`Trace::write`] checks the recorder's promises (known element types, operands that exist),
//! since a broken promise would become a wrong number later. [`Trace::at`] replaces dynamic sizes by numbers.
#![forbid(unsafe_code)]

mod at;
mod read;
mod trace;
mod write;

pub use dynamlir_dialect::ir::Base;
pub use trace::{Arg, Creation, Error, Frame, Input, OpCall, Output, Returned, TensorType, Trace, ValueId};
