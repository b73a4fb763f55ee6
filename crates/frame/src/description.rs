//! What callables are made of.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::cache::Share;

/// What a callable is made of.
pub struct Description<'py> {
    /// The Python function whose frame is captured.
    pub function: Bound<'py, PyAny>,
    /// Arguments that it is bound to.
    pub bound: Vec<Bound<'py, PyAny>>,
    /// Whether the first argument of each call is dropped.
    pub skips_first: bool,
    /// What plain Python calls, with the same arguments.
    pub plain: Bound<'py, PyAny>,
    /// Which entries of the code's cache it uses: None for its own.
    pub share: Option<Arc<Share>>,
    /// Whether its backend is the one that a stance forces: it is used under that stance only.
    pub forced: bool,
}
