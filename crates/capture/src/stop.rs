//! Why a capture ended before the frame did.

use dynamlir_graph::Line;
use pyo3::PyErr;

/// A reason from the registry (`dynamlir.reasons`), with what happened and where in the user's Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The reason's ID.
    pub reason: &'static str,
    /// What happened, in a few words.
    pub message: String,
    /// Innermost frame first.
    pub location: Vec<Line>,
}

impl Stop {
    /// The capture itself failed.
    pub fn internal(error: &PyErr) -> Self {
        Self { reason: reason::INTERNAL_ERROR, message: error.to_string(), location: Vec::new() }
    }
}

/// The IDs of the registry.
pub use dynamlir_reasons as reason;
