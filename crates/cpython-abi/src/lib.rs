//! Access to CPython internals without a stable ABI: interpreter frames, the frame evaluation hook (PEP 523), thread state, code extras,
//! version tags of types and dicts.
//!
//! One `abi3` module serves all supported versions, so offsets and symbols are data: a [`layout`] table per version, and symbols looked up
//! at run time. An unknown version, a free-threaded build, or a build whose frames do not match the table (a sentinel call is examined
//! before the first use) results in a [`Refusal`]; plain Python continues.
//!
//! All unsafe code about CPython that is not pyo3's is in this crate. Each function that crosses the boundary documents its ownership
//! rules.

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

/// Cleans up in a process that was forked while another thread was capturing a call: that thread, which would finish its work, does not
/// exist here.
pub fn forked(py: pyo3::Python<'_>) {
    collector::forked(py);
    strangers::forked(py);
}
