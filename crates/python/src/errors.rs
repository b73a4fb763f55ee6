//! Errors of the compiler as Python exceptions; those of a run are in `dynamlir-autograd`.

use std::cell::Cell;

pub use dynamlir_autograd::errors::{Misaligned, NativeError, Overlapping, RunError, Unfit, WrittenError, guarded};
use dynamlir_dialect::pass::Refusal;
use dynamlir_driver::Error;
use pyo3::{
    create_exception,
    exceptions::{PyKeyboardInterrupt, PyValueError},
    prelude::*,
};

create_exception!(dynamlir._native, Unsupported, NativeError, "The graph cannot be compiled: (reason_id, message, location).");

thread_local! {
    /// The exception of a signal handler while this thread compiles.
    static INTERRUPTION: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Returns the exception for an error of the compiler.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    match error.into_refusal() {
        Ok(Refusal { reason, message, location }) => Unsupported::new_err((reason, message, location)),
        Err(Error::Interrupted) => match INTERRUPTION.take() {
            Some(error) => error,
            None => py.check_signals().err().unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        },
        Err(error) => NativeError::new_err(error.to_string()),
    }
}

/// Returns the exception for text that cannot be loaded: a `ValueError`, since the text is wrong.
pub fn raise_bad_text(py: Python<'_>, path: &str, error: Error) -> PyErr {
    match error {
        Error::File { path, error } => PyErr::from(std::io::Error::new(error.kind(), format!("{path}: {error}"))),
        error @ (Error::Interrupted | Error::Unsupported { .. }) => raise(py, error),
        error => PyValueError::new_err(format!("{path}: {error}")),
    }
}

/// Called between stages, without the GIL: returns an error if Ctrl-C was pressed.
pub fn interrupted() -> Result<(), Error> {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => Ok(()),
        Err(error) => {
            // Kept for `raise`, which runs in this thread on the way out.
            INTERRUPTION.set(Some(error));
            Err(Error::Interrupted)
        }
    })
}
