//! Errors of the native side as Python exceptions.

use dynamlir_driver::Error;
use pyo3::{create_exception, exceptions::PyException, exceptions::PyKeyboardInterrupt, prelude::*};

create_exception!(dynamlir._native, NativeError, PyException, "Anything the native side reports.");
create_exception!(dynamlir._native, Unsupported, NativeError, "The graph cannot be compiled: (reason_id, message, location).");
create_exception!(dynamlir._native, RunError, NativeError, "A call failed before anything of the caller's was written.");

/// The exception for an error of the compiler.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Unsupported { message, location } => {
            let location: Vec<_> = location.into_iter().map(|frame| (frame.file, frame.line, frame.function)).collect();
            Unsupported::new_err(("unsupported", message, location))
        }
        // A pass names what it cannot do; eager can.
        Error::Mlir(dynamlir_dialect::Error::Pass { diagnostics, .. }) => {
            Unsupported::new_err(("pass-failed", diagnostics, None::<Vec<(String, u32, String)>>))
        }
        Error::Interrupted => match py.check_signals() {
            Err(error) => error,
            Ok(()) => PyKeyboardInterrupt::new_err(()),
        },
        Error::File { path, error } => PyErr::from(std::io::Error::new(error.kind(), format!("{path}: {error}"))),
        error @ (Error::Mlir(_) | Error::Codegen(_) | Error::Link(_) | Error::Plan(_)) => NativeError::new_err(error.to_string()),
    }
}

/// Asked between stages, without the GIL: has somebody pressed Ctrl-C?
pub fn interrupted() -> Result<(), Error> {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => Ok(()),
        Err(error) => {
            // Kept for `raise`, which runs with the GIL on the way out.
            error.restore(py);
            let _ = PyErr::take(py);
            Err(Error::Interrupted)
        }
    })
}
