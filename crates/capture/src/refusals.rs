//! What becomes of exceptions while capturing: reasons to stop, or the frame's own.

use dynamlir_cpython_abi::{Thread, exception};
use dynamlir_guards::GuardError;
use dynamlir_interpreter::{Unwind, abort, suspended};
use pyo3::{
    exceptions::{PyBaseException, PyRecursionError},
    prelude::*,
};

use crate::{
    graph_break::{GraphBreak, reason},
    state::{Capture, Halt},
};

impl Capture<'_> {
    /// What the interpreter is told: an exception that the frame's handlers may catch, or that nothing more of it is captured.
    pub(crate) fn unwind(&self, halt: Halt) -> Unwind {
        match halt {
            Halt::Raise(_) if self.graph_break.borrow().is_some() => abort(),
            Halt::Raise(error) if self.undecided_size().is_some() => {
                // Said by whoever was asked: no handler of the frame's may see it.
                suspended(|| drop(error));
                self.graph_break.borrow_mut().get_or_insert_with(|| self.undecided_size().unwrap_or_else(|| unreachable!("asked above")));
                abort()
            }
            Halt::Raise(error) => match self.interruption(&error).or_else(|| self.too_deep(&error)) {
                Some(halt) => self.unwind(halt),
                None => Unwind::Raise(error),
            },
            Halt::Break(found) => {
                self.graph_break.borrow_mut().get_or_insert(found);
                abort()
            }
        }
    }

    /// How deep calls may nest depends on who calls the frame, which is different each time, and on what the capture adds.
    fn too_deep(&self, error: &PyErr) -> Option<Halt> {
        let py = self.py;
        if !error.is_instance_of::<PyRecursionError>(py) {
            return None;
        }
        let (message, location) = with_room(py, || (error.to_string(), self.location()));
        Some(Halt::Break(GraphBreak { reason: reason::RECURSION, message, location }))
    }

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
        Halt::Break(GraphBreak { reason: reason::RAISED, message, location: Vec::new() })
    }

    /// The reason behind an exception of the session, or the exception itself.
    pub fn session_error(&self, error: PyErr) -> Halt {
        let py = self.py;
        if let Some(halt) = self.interruption(&error).or_else(|| self.too_deep(&error)) {
            return halt;
        }
        let failure = self.ask("failure", (error.value(py),));
        match failure {
            Ok(failure) if !failure.is_none() => {
                let text = |name: &str| failure.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
                let (id, message) = (text("reason"), text("message"));
                match reason::named(&id) {
                    Some(reason) => Halt::Break(GraphBreak { reason, message, location: self.location() }),
                    // Python refuses such an ID, too: this is about a package that does not fit the extension.
                    None => Halt::Break(self.internal(format!("there is no reason {id}: {message}"))),
                }
            }
            Ok(_) => Halt::Raise(error),
            Err(another) => self.interruption(&another).unwrap_or(Halt::Raise(error)),
        }
    }

    /// Something of ours went wrong here.
    pub fn internal(&self, message: String) -> GraphBreak {
        GraphBreak { reason: reason::INTERNAL_ERROR, message, location: self.location() }
    }

    /// As [`Self::session_error`], where a torch function raised. On fakes it does so in other words than on tensors, and the
    /// user's code may catch the exception and read it.
    pub fn refused_by_torch(&self, error: PyErr) -> Halt {
        match self.session_error(error) {
            Halt::Raise(error) => self.left_to_python(error),
            found @ Halt::Break(_) => found,
        }
    }

    /// Ends the capture at an instruction whose exception must not reach the program. Python then runs that instruction.
    pub(crate) fn left_to_python(&self, error: PyErr) -> Halt {
        let found = GraphBreak { reason: reason::RAISED, message: error.to_string(), location: self.location() };
        // Generators of torch's may end with its traceback.
        suspended(|| drop(error));
        Halt::Break(found)
    }
}

/// What a signal handler has raised, if it is behind an error; see `dynamlir.interruptions`.
pub fn interruption_behind(py: Python<'_>, error: &PyErr) -> Option<PyErr> {
    // Before CPython 3.12 an error has its traceback beside the exception.
    let exception: Py<PyBaseException> = error.clone_ref(py).into_value(py);
    let ask = || dynamlir_cpython_abi::import(py, "dynamlir.interruptions")?.call_method1("of", (exception,));
    match suspended(|| with_room(py, ask)) {
        Ok(found) => (!found.is_none()).then(|| PyErr::from_value(found)),
        // What is asked raises nothing by itself.
        Err(another) => Some(another),
    }
}

/// What a guard could not be made of, in words; an interruption is raised.
pub fn words_of(py: Python<'_>, error: &GuardError) -> PyResult<String> {
    match error {
        GuardError::Python(raised) => interruption_behind(py, raised).map_or_else(|| Ok(error.to_string()), Err),
        GuardError::NotWeak(_) | GuardError::NotATensor(_) | GuardError::Computed => Ok(error.to_string()),
    }
}

/// Asks what CPython would refuse with a `RecursionError` where one is being raised.
fn with_room<R>(py: Python<'_>, question: impl FnOnce() -> R) -> R {
    match Thread::current(py) {
        Ok(thread) => thread.with_room(question),
        Err(_) => question(),
    }
}
