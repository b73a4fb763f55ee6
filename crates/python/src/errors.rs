//! Errors of the native side as Python exceptions.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use dynamlir_driver::Error;
use dynamlir_reasons as reason;
use dynamlir_runtime::RunError as Refused;
use pyo3::{
    create_exception,
    exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError, PyValueError},
    prelude::*,
};

create_exception!(dynamlir._native, NativeError, PyException, "Anything the native side reports.");
create_exception!(dynamlir._native, Unsupported, NativeError, "The graph cannot be compiled: (reason_id, message, location).");
create_exception!(dynamlir._native, RunError, NativeError, "A call failed before anything of the caller's was written.");
create_exception!(dynamlir._native, Misaligned, RunError, "Inputs do not lie in memory as the code for a GPU counts on.");
create_exception!(dynamlir._native, Unfit, RunError, "An input is not like the one that the graph was compiled for.");
create_exception!(dynamlir._native, Overlapping, RunError, "Inputs overlap otherwise than those that the graph was compiled for.");
create_exception!(dynamlir._native, WrittenError, PyRuntimeError, "A call failed after something of the caller's was written.");

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
        error @ (Error::Mlir(_) | Error::Plan(_) | Error::Stage(_) | Error::Target(_)) => NativeError::new_err(error.to_string()),
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

/// Returns the exception for a run that failed.
pub fn raise_run(refused: &Refused) -> PyErr {
    match refused {
        Refused::Failed(failure) if failure.misaligned => Misaligned::new_err(failure.message.clone()),
        Refused::Guard(unfit) if unfit.overlaps => Overlapping::new_err(refused.to_string()),
        Refused::Guard(_) => Unfit::new_err(refused.to_string()),
        Refused::Failed(_) => RunError::new_err(refused.to_string()),
        Refused::AfterCommit(_) => WrittenError::new_err(refused.to_string()),
    }
}

/// Runs native code; a panic in it becomes an ordinary exception. The object that it was working on is not used again.
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(NativeError::new_err(format!("internal error: {}", text_of(&*panic)))))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
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
