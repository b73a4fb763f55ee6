//! Why a graph ends before its frame does.
//!
//! The frame then goes on after it in another graph, or runs as plain Python from its beginning: the [kind](reason::Kind) of the reason
//! says which.

use dynamlir_graph::Line;
use pyo3::PyErr;

/// A reason from the registry (`dynamlir.reasons`), with what happened and where in the user's Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBreak {
    /// The reason's ID.
    pub reason: &'static str,
    /// What happened, in a few words.
    pub message: String,
    /// Innermost frame first.
    pub location: Vec<Line>,
}

impl GraphBreak {
    /// The capture itself failed.
    pub fn internal(error: &PyErr) -> Self {
        Self { reason: reason::INTERNAL_ERROR, message: error.to_string(), location: Vec::new() }
    }

    /// What could be done about it.
    pub fn kind(&self) -> reason::Kind {
        reason::kind(self.reason)
    }
}

/// The IDs of the registry.
pub use dynamlir_reasons as reason;
