//! The guards that most of the capture uses: for the value, the identity or the class of an object.

use dynamlir_guards::{Facet, Guard, GuardError, Source, SourceId};
use pyo3::prelude::*;

use crate::{
    floors::{Numbers, Sources},
    graph_break::{GraphBreak, Halt, Outcome, reason},
    objects::{Tracked, type_name},
};

impl<'py> Sources<'py> {
    /// Converts the result of creating a guard. If it failed, the capture ends: the error is not an exception of the frame.
    pub fn guarded<T>(&self, outcome: Result<T, GuardError>) -> Outcome<T> {
        outcome.map_err(|error| self.unguardable(&error, error.to_string()))
    }

    fn unguardable(&self, error: &GuardError, message: String) -> Halt {
        let interrupted = if let GuardError::Python(error) = error { self.interruption(error) } else { None };
        interrupted.unwrap_or_else(|| Halt::Break(GraphBreak { reason: reason::UNGUARDABLE, message, location: self.location() }))
    }

    /// Guards the identity of an existing object: functions, classes, modules.
    pub fn pin(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        match self.guards.identity(source, object) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unguardable(&error, format!("{} at {}", type_name(object), self.guards.expression(source)))),
        }
    }

    /// Guards the type of an existing object.
    pub fn pin_type(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.guards.add(source, Guard::Type(object.get_type().into_any().unbind()));
        Ok(())
    }

    /// Returns the source of an existing object's class, and guards the object's type. All objects of a class share one source for it, so
    /// that the contents of the class are guarded once.
    pub fn class_source(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<SourceId> {
        self.pin_type(object, source)?;
        let class = object.get_type_ptr() as usize;
        if let Some(known) = self.existing.classes.borrow().get(&class) {
            return Ok(*known);
        }
        let at = self.guards.source(Source::Type(source));
        self.existing.classes.borrow_mut().insert(class, at);
        Ok(at)
    }
}

impl<'py> Numbers<'py> {
    /// Guards a primitive's value, because a decision depends on it or it goes where its source is not tracked.
    pub fn guard_value(&self, value: &Tracked<'py>) -> Outcome<()> {
        let Some(source) = value.source else { return Ok(()) };
        if self.torch.is_fake(&value.object) || self.source_of(&value.object).is_some() {
            return Ok(());
        }
        self.refuse_outside(value, source)?;
        if !self.guarded(self.guards.equals(source, &value.object))? {
            if value.object.is(self.py.NotImplemented()) {
                return self.pin_type(&value.object, source);
            }
            return self.break_graph(reason::UNGUARDABLE, format!("{} at {}", type_name(&value.object), self.guards.expression(source)));
        }
        self.guards.demand(source, Facet::Value);
        self.note_nan(&value.object, source);
        Ok(())
    }
}
