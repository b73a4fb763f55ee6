//! An evaluation loop over CPython's own frames, whose operations can be intercepted.
//!
//! CPython binds arguments and makes frames, generators and coroutines; the frame evaluation hook brings each frame here, and
//! its bytecode is evaluated by this crate instead of CPython's loop. Locals stay in the frame, the value stack is ours until
//! the frame suspends or ends, and the last instruction of a frame (a return, a yield, a re-raise) is left to CPython's loop,
//! which thereby clears or suspends the frame as it does its own. So tracebacks, `sys._getframe`, `locals()` and `super()` see
//! nothing unusual, and a call from C comes through the hook like any other.
//!
//! What an instruction does is a method of [`Policy`]. The default methods are CPython's semantics on real objects: with
//! [`Concrete`], a program runs as it always does. Capture is the same loop under another policy.
//!
//! *Architecture invariant:* a frame is either evaluated here from its start (or from where it was suspended) until it
//! suspends or ends, or it is left to CPython before its first instruction, with a counted reason.
#![forbid(unsafe_code)]

mod activation;
mod concrete;
mod counts;
mod drive;
mod evaluator;
mod names;
mod native;
mod operators;
mod ops;
mod policy;
mod prepared;
mod run;
mod value;
mod versions;

pub use activation::{Activation, Site};
pub use concrete::{directly, take_direct as called_by_bytecode};
pub use counts::{Counts, counts, reset_counts};
pub use drive::{Drive, Driver, Standing, Turn};
pub use dynamlir_bytecode::{Instruction, Opcode, flags};
pub use dynamlir_cpython_abi::number::{BinaryOp, UnaryOp};
pub use evaluator::{Finished, abort, here, is_abort, is_listening, suspended, with_policy};
pub use operators::{comparison_name, operator_name, operators};
pub use ops::CallSite;
pub use policy::{Comparison, Concrete, Conversion, FunctionParts, Method, Outcome, Policy, Sent, Unwind, escape_each};
pub use prepared::Prepared;
pub use value::{SourceId, Value};

/// CPython's semantics on real objects, for policies that do part of an operation themselves.
pub mod semantics {
    pub use crate::concrete::*;
}
