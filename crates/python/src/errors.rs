//! Errors of the compiler as Python exceptions; those of a run are in `dynamlir-autograd`.

use std::cell::Cell;

pub use dynamlir_autograd::errors::{Misaligned, NativeError, Overlapping, RunError, Unfit, WrittenError, guarded};
use dynamlir_driver::Error;
use dynamlir_reasons as reason;
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
    match error {
        Error::Unsupported { reason, message, location } => {
            let location: Vec<_> = location.into_iter().map(|frame| (frame.file, frame.line, frame.function)).collect();
            Unsupported::new_err((reason, message, location))
        }
        // A pass reports an operation that it does not support, but eager does.
        Error::Mlir(dynamlir_dialect::Error::Pass { refusal: Some(refusal), .. }) => {
            Unsupported::new_err((refusal.reason, refusal.message, refusal.location))
        }
        Error::Mlir(dynamlir_dialect::Error::Pass { diagnostics, location, .. }) => {
            Unsupported::new_err((reason::PASS_FAILED, diagnostics, location))
        }
        error @ (Error::Codegen { .. } | Error::Link(_)) => {
            Unsupported::new_err((reason::CODEGEN_FAILED, error.to_string(), None::<Vec<(String, u32, String)>>))
        }
        Error::Interrupted => match INTERRUPTION.take() {
            Some(error) => error,
            None => py.check_signals().err().unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        },
        Error::File { path, error } => {
            let message = format!("{path}: {error}");
            Unsupported::new_err((reason::UNWRITABLE, message, None::<Vec<(String, u32, String)>>))
        }
        error @ (Error::Load { .. } | Error::Mlir(_) | Error::Plan(_) | Error::Stage(_) | Error::Target(_)) => {
            NativeError::new_err(error.to_string())
        }
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
