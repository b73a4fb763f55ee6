//! Calls that run as plain Python, and what the user is told of them.

use dynamlir_cpython_abi::{Thread, callable::Arguments, stack};
use pyo3::prelude::*;

use crate::{
    cache::{Entry, Run},
    call::Callable,
    settings,
};

impl Callable {
    /// Whether plain Python may run under an entry that says so; tells the user.
    ///
    /// # Errors
    /// What the call raises instead.
    pub(crate) fn tell_plain(&self, py: Python<'_>, entry: &Entry) -> PyResult<()> {
        let Run::Plain(plain) = &entry.run else { return Ok(()) };
        if settings::breaks_are_errors(py) {
            self.compiler().forbidden(py, plain.why())?;
        }
        if plain.is_due(settings::refuses_plain()) {
            self.compiler().plain(py, plain.why())?;
            plain.told();
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

    /// As an entry has it, unless the user does not want that.
    pub(crate) fn call_plain_under<'py>(&self, entry: &Entry, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tell_plain(arguments.py(), entry)?;
        let result = self.call_plain(arguments)?;
        if let Run::Plain(plain) = &entry.run {
            plain.returned();
        }
        Ok(result)
    }

    /// After a graph has failed: plain Python raises what it raises, or there was no need to fail.
    pub(crate) fn repeat_plain<'py>(&self, arguments: Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let result = self.call_plain(arguments)?;
        self.compiler().repeated(arguments.py())?;
        Ok(result)
    }
}
