//! Why this crate does not work with the running interpreter.

use thiserror::Error;

/// Why frames cannot be touched here. Python itself is not affected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A version without a layout table.
    #[error("CPython {0} is not supported")]
    Version(String),
    /// Somebody does not want it.
    #[error("DYNAMLIR_CAPTURE=0 is set")]
    Off,
    /// Reference counts and frames work otherwise without the global interpreter lock.
    #[error("free-threaded CPython is not supported")]
    FreeThreaded,
    /// The interpreter does not export what the table says it does.
    #[error("this CPython does not export {0}")]
    Symbol(&'static str),
    /// The sentinel call found something else than the table says.
    #[error("the layout of this CPython is unknown: {0}")]
    Layout(&'static str),
    /// The sentinel call could not be made.
    #[error("the layout of this CPython could not be examined: {0}")]
    Probe(String),
}
