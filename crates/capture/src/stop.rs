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
        Self { reason: reason::INTERNAL, message: error.to_string(), location: Vec::new() }
    }
}

/// The IDs used by the capture; each has an entry in the registry (a test compares).
pub mod reason {
    /// A C function that the effect table does not know.
    pub const C_FUNCTION: &str = "c-function";
    /// Something that existed before the frame would be changed.
    pub const SIDE_EFFECT: &str = "side-effect";
    /// A Python value depends on the contents of a tensor.
    pub const DATA_DEPENDENT: &str = "data-dependent";
    /// An operation ran on tensors where the graph could not note it.
    pub const HIDDEN_OPERATION: &str = "hidden-operation";
    /// A value that no guard can check.
    pub const UNGUARDABLE: &str = "unguardable";
    /// A tensor attribute or method that shows what a fake cannot.
    pub const TENSOR_ESCAPE: &str = "tensor-escape";
    /// The frame returns something that cannot be rebuilt.
    pub const OUTPUT: &str = "output";
    /// The frame returns with another thread state than it began with.
    pub const STATE: &str = "thread-state";
    /// Input and output.
    pub const PRINT: &str = "print";
    /// The interpreter met bytecode it does not run.
    pub const BYTECODE: &str = "bytecode";
    /// The frame raised.
    pub const RAISED: &str = "raised";
    /// Gradients would be recorded.
    pub const AUTOGRAD: &str = "autograd";
    /// A function that a switch of torch's keeps out of graphs.
    pub const DISABLED: &str = "disabled";
    /// A size that must not be specialised.
    pub const DYNAMIC_SHAPE: &str = "dynamic-shape";
    /// Frames of this CPython are not known.
    pub const PYTHON: &str = "unknown-python";
    /// Something of ours went wrong.
    pub const INTERNAL: &str = "internal-error";
}
