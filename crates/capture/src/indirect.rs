//! Values that are reached indirectly, through a context variable or a weak reference.

use dynamlir_guards::Source;
use pyo3::{exceptions::PyLookupError, prelude::*, types::PyDict};

use crate::{
    calls::receiver,
    graph_break::reason,
    state::{Capture, Outcome, Tracked},
};

impl<'py> Capture<'py> {
    /// `variable.get(…)` of a `contextvars.ContextVar`.
    pub(crate) fn context_value(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let bound = receiver(callable).map(Tracked::new);
        let all: Vec<_> = bound.into_iter().chain(args.iter().cloned()).collect();
        let Some((variable, given)) = all.split_first() else {
            return self.break_graph(reason::C_FUNCTION, "ContextVar.get");
        };
        let Some(source) = self.source_of(&variable.object) else {
            return self.break_graph(reason::UNGUARDABLE, "a context variable that the frame made");
        };
        self.pin_type(&variable.object, source)?;
        if let Some(default) = given.first() {
            // It comes before a default that the variable has of its own.
            let at = self.guards.source(Source::ContextValue(source));
            let unset = PyDict::new(self.py).into_any();
            let value = variable.object.call_method1("get", (&unset,))?;
            if value.is(&unset) {
                self.guards.absent(at);
                return Ok(default.clone());
            }
            return self.wrap(value, at);
        }
        let at = self.guards.source(Source::ContextVar(source));
        match variable.object.call_method0("get") {
            Ok(value) => self.wrap(value, at),
            Err(error) => {
                if error.is_instance_of::<PyLookupError>(self.py) {
                    self.guards.absent(at);
                }
                Err(error.into())
            }
        }
    }

    /// `reference()` of a `weakref.ref`.
    pub(crate) fn referent(&self, reference: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let value = reference.object.call0()?;
        let Some(source) = self.source(reference) else { return self.wrap_untracked(value) };
        self.pin_type(&reference.object, source)?;
        let at = self.guards.source(Source::Referent(source));
        if value.is_none() {
            self.guards.absent(at);
            return Ok(Tracked::new(value));
        }
        self.wrap(value, at)
    }
}
