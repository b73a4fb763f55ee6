//! The reason why a graph ends before its frame does.
//!
//! The frame then continues after the break in another graph, or runs as plain Python from its beginning: the [kind](reason::Kind) of the
//! reason decides which.

use dynamlir_graph::Line;
use pyo3::PyErr;

pub use dynamlir_reasons as reason;

/// A reason from the registry (`dynamlir.reasons`), with a message and the lines of the user's Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBreak {
    /// The reason's ID.
    pub reason: &'static str,
    /// A short description of what happened.
    pub message: String,
    /// The lines, innermost frame first.
    pub location: Vec<Line>,
}

impl GraphBreak {
    /// A break because the capture itself failed.
    pub fn internal(error: &PyErr) -> Self {
        Self { reason: reason::INTERNAL_ERROR, message: error.to_string(), location: Vec::new() }
    }

    /// Returns the kind of the reason, which says what could be done about it.
    pub fn kind(&self) -> reason::Kind {
        reason::kind(self.reason)
    }
}

/// The reason why an operation has no result.
#[derive(Debug)]
pub enum Halt {
    /// Python raised; the frame may handle it.
    Raise(PyErr),
    /// The capture ends.
    Break(GraphBreak),
}

impl From<PyErr> for Halt {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

/// The result of an operation during a capture.
pub type Outcome<T> = Result<T, Halt>;
