//! Calls that run as plain Python, and reporting them to the user.

use dynamlir_cpython_abi::{Thread, callable::Arguments, stack};
use pyo3::prelude::*;

use crate::{
    cache::{Entry, Run},
    callable::Callable,
    settings,
};

impl Callable {
    /// Checks that plain Python may run under an entry that says so, and reports it to the user.
    ///
    /// # Errors
    /// Returns the exception that the call raises instead.
    pub(crate) fn tell_plain(&self, py: Python<'_>, entry: &Entry) -> PyResult<()> {
        let Run::Plain(plain) = &entry.run else { return Ok(()) };
        if settings::breaks_are_errors(py) {
            self.compiler().forbidden(py, plain.why())?;
        }
        if plain.is_due(settings::refuses_plain()) {
            self.compiler().plain(py, plain.why())?;
            plain.note_reported();
        }
        Ok(())
    }

    pub(crate) fn call_plain<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let call = || arguments.forward(self.wrapped().bind(arguments.py()));
        match Thread::current(arguments.py()) {
            Ok(thread) => stack::in_place_of_bytecode(thread, call),
            Err(_) => call(),
        }
    }

    /// Runs the call as plain Python under an entry that says so, unless the user does not allow that.
    pub(crate) fn call_plain_under<'py>(&self, entry: &Entry, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tell_plain(arguments.py(), entry)?;
        let result = self.call_plain(arguments)?;
        if let Run::Plain(plain) = &entry.run {
            plain.returned();
        }
        Ok(result)
    }

    /// Runs the call as plain Python after a graph failed. Either plain Python raises its own exception, or the failure was unnecessary.
    pub(crate) fn repeat_plain<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let result = self.call_plain(arguments)?;
        self.compiler().repeated(arguments.py())?;
        Ok(result)
    }
}
