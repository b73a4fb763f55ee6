//! What the process has set for all compiled callables (`dynamlir.config`, `error_on_graph_break`): looked at on each call, so without
//! Python.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dynamlir_cpython_abi::mapping::imported;
use pyo3::{intern, prelude::*};

use crate::cache::Limits;

static REFUSES_PLAIN: AtomicBool = AtomicBool::new(false);
static ENTRIES: AtomicUsize = AtomicUsize::new(8);
static ACCUMULATED: AtomicUsize = AtomicUsize::new(256);

/// Sets whether a call that would run as plain Python asks its compiler each time, which may refuse, and how many entries there may be.
pub fn set(refuses_plain: bool, limits: Limits) {
    REFUSES_PLAIN.store(refuses_plain, Ordering::Relaxed);
    ENTRIES.store(limits.entries, Ordering::Relaxed);
    ACCUMULATED.store(limits.accumulated, Ordering::Relaxed);
}

/// Whether calls are not to run as plain Python.
#[inline]
pub fn refuses_plain() -> bool {
    REFUSES_PLAIN.load(Ordering::Relaxed)
}

/// The module of torch's that knows whether graphs may break, and the name of its global that says so.
pub const BREAKS_ARE_ERRORS: (&str, &str) = ("torch._dynamo.utils", "_error_on_graph_break");

/// Whether the program is where a graph break is an error, by `error_on_graph_break`. Torch's module is not imported for being asked.
pub fn breaks_are_errors(py: Python<'_>) -> bool {
    let Ok(Some(module)) = imported(py, intern!(py, BREAKS_ARE_ERRORS.0)) else { return false };
    let said = module.getattr_opt(intern!(py, BREAKS_ARE_ERRORS.1));
    said.ok().flatten().is_some_and(|said| said.is_truthy().unwrap_or(false))
}

/// How many entries there may be.
pub fn limits() -> Limits {
    Limits { entries: ENTRIES.load(Ordering::Relaxed), accumulated: ACCUMULATED.load(Ordering::Relaxed) }
}
