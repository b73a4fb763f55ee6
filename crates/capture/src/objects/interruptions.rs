//! Exceptions of signal handlers, which go to the caller unchanged wherever they meet a capture.

use dynamlir_cpython_abi::Thread;
use dynamlir_guards::GuardError;
use dynamlir_interpreter::suspended;
use pyo3::{exceptions::PyBaseException, prelude::*};

/// Returns the exception raised by a signal handler, if one is behind an error; see `dynamlir.interruptions`.
pub fn interruption_behind(py: Python<'_>, error: &PyErr) -> Option<PyErr> {
    // Before CPython 3.12 an error stores its traceback separately from the exception.
    let exception: Py<PyBaseException> = error.clone_ref(py).into_value(py);
    let ask = || dynamlir_cpython_abi::import(py, "dynamlir.interruptions")?.call_method1("of", (exception,));
    match suspended(|| with_room(py, ask)) {
        Ok(found) => (!found.is_none()).then(|| PyErr::from_value(found)),
        // The queried function itself does not raise.
        Err(another) => Some(another),
    }
}

/// Describes why a guard could not be created, as text; an interruption is raised.
pub fn words_of(py: Python<'_>, error: &GuardError) -> PyResult<String> {
    match error {
        GuardError::Python(raised) => interruption_behind(py, raised).map_or_else(|| Ok(error.to_string()), Err),
        GuardError::NotWeak(_) | GuardError::NotATensor(_) | GuardError::Computed => Ok(error.to_string()),
    }
}

/// Runs a query for which CPython would raise a `RecursionError` while another one is being raised.
pub(crate) fn with_room<R>(py: Python<'_>, question: impl FnOnce() -> R) -> R {
    match Thread::current(py) {
        Ok(thread) => thread.with_room(question),
        Err(_) => question(),
    }
}
