//! What becomes of exceptions while capturing: reasons to stop, or the frame's own.

use dynamlir_cpython_abi::exception;
use pyo3::{exceptions::PyBaseException, prelude::*};

use crate::{
    state::{Capture, Halt},
    stop::{Stop, reason},
};

impl Capture<'_> {
    /// Ends the capture where a signal handler has raised: that is the caller's, as it is.
    pub(crate) fn interruption(&self, error: &PyErr) -> Option<Halt> {
        let py = self.py;
        let found = if exception::may_interrupt(py, error) { interruption_behind(py, error) } else { None };
        found.map(|error| self.interrupted(error))
    }

    /// Ends the capture with an exception that is the caller's.
    pub(crate) fn interrupted(&self, error: PyErr) -> Halt {
        let message = error.to_string();
        self.interruption.borrow_mut().get_or_insert(error);
        Halt::Stop(Stop { reason: reason::RAISED, message, location: Vec::new() })
    }

    /// The reason behind an exception of the session, or the exception itself.
    pub fn session_error(&self, error: PyErr) -> Halt {
        let py = self.py;
        if let Some(halt) = self.interruption(&error) {
            return halt;
        }
        let failure = self.ask("failure", (error.value(py),));
        match failure {
            Ok(failure) if !failure.is_none() => {
                let text = |name: &str| failure.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
                let (id, message) = (text("reason"), text("message"));
                match reason::named(&id) {
                    Some(reason) => Halt::Stop(Stop { reason, message, location: self.location() }),
                    // Python refuses such an ID, too: this is about a package that does not fit the extension.
                    None => Halt::Stop(self.internal(format!("there is no reason {id}: {message}"))),
                }
            }
            _ => Halt::Raise(error),
        }
    }

    /// Something of ours went wrong here.
    pub fn internal(&self, message: String) -> Stop {
        Stop { reason: reason::INTERNAL_ERROR, message, location: self.location() }
    }

    /// As [`Self::session_error`], where a torch function raised. On fakes it does so in other words than on tensors, and the
    /// user's code may catch the exception and read it.
    pub fn refused_by_torch(&self, error: PyErr) -> Halt {
        match self.session_error(error) {
            Halt::Raise(error) => Halt::Stop(Stop { reason: reason::RAISED, message: error.to_string(), location: self.location() }),
            stop @ Halt::Stop(_) => stop,
        }
    }
}

/// What a signal handler has raised, if it is behind an error; see `dynamlir.interruptions`.
pub(crate) fn interruption_behind(py: Python<'_>, error: &PyErr) -> Option<PyErr> {
    // Before CPython 3.12 an error has its traceback beside the exception.
    let exception: Py<PyBaseException> = error.clone_ref(py).into_value(py);
    match dynamlir_interpreter::suspended(|| py.import("dynamlir.interruptions")?.call_method1("of", (exception,))) {
        Ok(found) => (!found.is_none()).then(|| PyErr::from_value(found)),
        // What is asked raises nothing by itself.
        Err(another) => Some(another),
    }
}
