//! The fate of exceptions during a capture: they become break reasons, or are the frame's own.

use dynamlir_cpython_abi::exception;
use dynamlir_interpreter::{Unwind, abort, suspended};
use pyo3::{exceptions::PyRecursionError, prelude::*};

use crate::{
    floors::Record,
    graph_break::{GraphBreak, Halt, reason},
    objects::interruptions::{interruption_behind, with_room},
};

impl Record<'_> {
    /// Converts a halt for the interpreter: an exception that the frame's handlers may catch, or the end of this frame's capture.
    pub(crate) fn unwind(&self, halt: Halt) -> Unwind {
        match halt {
            Halt::Raise(_) if self.graph_break.borrow().is_some() => abort(),
            Halt::Raise(error) if self.undecided_size().is_some() => {
                // The code that queried the size raised it: no handler of the frame may see it.
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

    /// Ends the capture at a `RecursionError`. The allowed depth of calls depends on the frame's caller, which varies, and on the depth
    /// that the capture adds.
    fn too_deep(&self, error: &PyErr) -> Option<Halt> {
        let py = self.py;
        if !error.is_instance_of::<PyRecursionError>(py) {
            return None;
        }
        let (message, location) = with_room(py, || (error.to_string(), self.location()));
        Some(Halt::Break(GraphBreak { reason: reason::RECURSION, message, location }))
    }

    /// Ends the capture if a signal handler has raised: the exception goes to the caller unchanged.
    pub(crate) fn interruption(&self, error: &PyErr) -> Option<Halt> {
        let py = self.py;
        let found = if exception::may_interrupt(py, error) { interruption_behind(py, error) } else { None };
        found.map(|error| self.interrupted(error))
    }

    /// Ends the capture with an exception that goes to the caller.
    pub(crate) fn interrupted(&self, error: PyErr) -> Halt {
        let message = error.to_string();
        self.interruption.borrow_mut().get_or_insert(error);
        Halt::Break(GraphBreak { reason: reason::RAISED, message, location: Vec::new() })
    }

    /// Returns the break reason behind an exception of the session, or the exception itself.
    pub fn session_error(&self, error: PyErr) -> Halt {
        let py = self.py;
        if let Some(halt) = self.interruption(&error).or_else(|| self.too_deep(&error)) {
            return halt;
        }
        match self.recorder().failure(error.value(py).as_any()) {
            Ok(Some((id, message))) => match reason::named(&id) {
                Some(reason) => Halt::Break(GraphBreak { reason, message, location: self.location() }),
                // Python refuses such an ID, too: this happens only if the Python package does not match the extension.
                None => Halt::Break(self.internal(format!("there is no reason {id}: {message}"))),
            },
            Ok(None) => Halt::Raise(error),
            Err(another) => self.interruption(&another).unwrap_or(Halt::Raise(error)),
        }
    }

    /// Reports an internal error at the current location.
    pub fn internal(&self, message: String) -> GraphBreak {
        GraphBreak { reason: reason::INTERNAL_ERROR, message, location: self.location() }
    }

    /// Like [`Self::session_error`], for an exception raised by a torch function. On fakes its message differs from that on tensors, and
    /// the user's code may catch the exception and read it.
    pub fn refused_by_torch(&self, error: PyErr) -> Halt {
        match self.session_error(error) {
            Halt::Raise(error) => self.left_to_python(error),
            found @ Halt::Break(_) => found,
        }
    }

    /// Ends the capture at an instruction whose exception must not reach the program. Python then runs that instruction.
    pub(crate) fn left_to_python(&self, error: PyErr) -> Halt {
        let found = GraphBreak { reason: reason::RAISED, message: error.to_string(), location: self.location() };
        // Torch's generators may end with its traceback.
        suspended(|| drop(error));
        Halt::Break(found)
    }
}
