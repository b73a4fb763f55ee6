//! The reasons why this crate does not support the running interpreter.

use thiserror::Error;

/// The reasons why frames cannot be accessed here. Python itself is not affected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A version without a layout table.
    #[error("CPython {0} is not supported")]
    Version(String),
    /// It is switched off.
    #[error("DYNAMLIR_CAPTURE=0 is set")]
    Off,
    /// Reference counts and frames work differently without the global interpreter lock.
    #[error("free-threaded CPython is not supported")]
    FreeThreaded,
    /// The interpreter does not export a symbol listed in the table.
    #[error("this CPython does not export {0}")]
    Symbol(&'static str),
    /// The sentinel call did not match the table.
    #[error("the layout of this CPython is unknown: {0}")]
    Layout(&'static str),
    /// The sentinel call could not be made.
    #[error("the layout of this CPython could not be examined: {0}")]
    Probe(String),
}
