//! An evaluation loop over CPython's own frames, whose operations can be intercepted.
//!
//! CPython binds arguments and creates frames, generators and coroutines. The frame evaluation hook brings each frame here, and this crate
//! evaluates its bytecode instead of CPython's loop. Locals stay in the frame. The value stack is ours until the frame suspends or ends.
//! The last instruction of a frame (a return, a yield, a re-raise) is run by CPython's loop, which thereby clears or suspends the frame as
//! usual. So tracebacks, `sys._getframe`, `locals()` and `super()` see nothing unusual, and a call from C comes through the hook like any
//! other.
//!
//! Each instruction calls a method of [`Policy`]. The default methods are CPython's semantics on real objects: with [`Concrete`], a program
//! runs as usual. Capture is the same loop under another policy.
//!
//! *Architecture invariant:* a frame is either evaluated here from its start (or from where it was suspended) until it suspends or ends, or
//! it is run by CPython from its first instruction, with a counted reason.
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
mod refill;
mod run;
mod value;
mod versions;

pub use activation::{Activation, Site};
pub use concrete::{directly, take_direct as called_by_bytecode};
pub use counts::{Counts, counts, reset_counts};
pub use drive::{Drive, Driver, FrameState, Turn};
pub use dynamlir_bytecode::{Instruction, Opcode, flags};
pub use dynamlir_cpython_abi::number::{BinaryOp, UnaryOp};
pub use evaluator::{Finished, abort, here, is_abort, is_listening, suspended, with_policy};
pub use operators::{comparison_name, operator_name, operators};
pub use ops::CallSite;
pub use policy::{Comparison, Concrete, Conversion, FunctionParts, Method, Outcome, Policy, Sent, Unwind, escape_each};
pub use prepared::Prepared;
pub use refill::refilling;
pub use value::{SourceId, Value};

/// CPython's semantics on real objects, for policies that perform part of an operation themselves.
pub mod semantics {
    pub use crate::concrete::*;
}
