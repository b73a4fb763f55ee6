//! What CPython does not promise: interpreter frames, the frame evaluation hook (PEP 523), thread state, code extras,
//! version tags of types and dicts.
//!
//! One `abi3` module serves all supported versions, so offsets and symbols are data: a [`layout`] table per version, and
//! symbols looked up at run time. An unknown version, a free-threaded build, or a build whose frames do not look as the
//! table says (a sentinel call is examined before the first use) is a [`Refusal`]; plain Python goes on.
//!
//! All unsafe code about CPython that is not pyo3's is in this crate. Each function that crosses the boundary says who owns what.

mod abi;
mod births;
pub mod call;
pub mod callable;
pub mod cell;
pub mod code;
pub mod collector;
mod error;
pub mod exception;
mod extra;
mod frame;
pub mod function;
mod hook;
mod imports;
mod inline;
pub mod kind;
mod layout;
pub mod lazy;
pub mod mapping;
pub mod number;
pub mod object;
mod observers;
pub mod offsets;
mod probe;
mod reference;
pub mod remembered;
pub mod shown;
pub mod stack;
mod storage;
mod strangers;
mod symbols;
mod table;
mod thread;
pub mod types;

pub use abi::{Abi, abi};
pub use births::Births;
pub use error::Refusal;
pub use extra::CodeSlot;
pub use frame::{Evaluated, Frame, Linked, Owner, loop_iterator, unit_of};
pub use hook::{Handler, Hook, Listening, install};
pub use imports::{import, import_once};
pub use inline::SharedValues;
pub use observers::observer;
pub use shown::shown;
pub use storage::{Attributes, InstanceStorage, Words};
pub use table::Table;
pub use thread::Thread;

/// In a process that was forked while another thread captured a call: it has none of the threads that would end what they have begun.
pub fn forked(py: pyo3::Python<'_>) {
    collector::forked(py);
    strangers::forked(py);
}
