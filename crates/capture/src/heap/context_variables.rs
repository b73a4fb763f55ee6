//! Context variables: `variable.get()`, `variable.set(value)`, `variable.reset(token)`.
//!
//! A new value is noted like a write to an attribute (see [`crate::heap::attribute_writes`]) and set after the graph has run, unless the old
//! value was set back. The frame gets real tokens, each from a separate context. A token that leaves the frame would have to belong to the
//! caller's context, so it ends the capture.

use dynamlir_frame::{AfterGraph, Recipe};
use dynamlir_guards::{Relation, Source, SourceId};
use pyo3::{exceptions::PyLookupError, prelude::*, types::PyDict};

use crate::{
    floors::{Heap, Recipes},
    graph_break::{Outcome, reason},
    heap::attribute_writes::{Overlay, WriteTarget},
    objects::{Tracked, callables::receiver},
    state::{Written, WrittenKind, fresh::Token, outputs::Outputs},
};

/// The name under which a variable's value is noted.
const VALUE: &str = "value";

impl<'py> Heap<'py> {
    /// Returns the variable whose method is called, its source, and the other arguments.
    fn variable_of(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
    ) -> Outcome<(Bound<'py, PyAny>, SourceId, Vec<Tracked<'py>>)> {
        let mut all = receiver(callable).map(Tracked::new).into_iter().chain(args.iter().cloned());
        let Some(variable) = all.next() else { return self.break_graph(reason::C_FUNCTION, "a method of ContextVar") };
        let Some(source) = self.source_of(&variable.object) else {
            return self.break_graph(reason::UNGUARDABLE, "a context variable that the frame made");
        };
        self.pin_type(&variable.object, source)?;
        Ok((variable.object, source, all.collect()))
    }

    /// `variable.get(…)`
    pub(crate) fn context_value(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let (variable, source, given) = self.variable_of(callable, args)?;
        if let Overlay::Set(value) = self.written_at(variable.as_ptr() as usize, VALUE) {
            return Ok(value);
        }
        if let Some(default) = given.first() {
            // It takes precedence over the variable's own default.
            return Ok(self.context_held(&variable, source)?.unwrap_or_else(|| default.clone()));
        }
        let at = self.guards.source(Source::ContextVar(source));
        match variable.call_method0("get") {
            Ok(value) => self.wrap(value, at),
            Err(error) => {
                if error.is_instance_of::<PyLookupError>(self.py) {
                    self.guards.absent(at);
                }
                Err(error.into())
            }
        }
    }

    /// Returns the value of a variable before the frame, ignoring its default.
    fn context_held(&self, variable: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Tracked<'py>>> {
        let at = self.guards.source(Source::ContextValue(source));
        let unset = PyDict::new(self.py).into_any();
        let value = variable.call_method1("get", (&unset,))?;
        if value.is(&unset) {
            self.guards.absent(at);
            return Ok(None);
        }
        self.wrap(value, at).map(Some)
    }

    /// `variable.set(value)`
    pub(crate) fn set_context(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let (variable, source, given) = self.variable_of(callable, args)?;
        let [value] = &given[..] else { return self.break_graph(reason::C_FUNCTION, "ContextVar.set") };
        let before = match self.written_at(variable.as_ptr() as usize, VALUE) {
            Overlay::Set(value) => Some(value),
            Overlay::Deleted => None,
            Overlay::Untouched => self.context_held(&variable, source)?,
        };
        let context = dynamlir_cpython_abi::import(self.py, "contextvars")?.call_method0("copy_context")?;
        let object = dynamlir_interpreter::suspended(|| context.call_method1("run", (variable.getattr("set")?, self.py.None())))?;
        self.note_new(&object);
        let before = before.map(|value| (value.object.unbind(), value.source));
        self.own.tokens.borrow_mut().push(Token { object: object.clone().unbind(), variable: variable.clone().unbind(), before });
        self.layers.note_unrepeatable();
        self.note_context(&variable, source, Some(value))?;
        Ok(Tracked::new(object))
    }

    /// `variable.reset(token)`
    pub(crate) fn reset_context(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let (variable, source, given) = self.variable_of(callable, args)?;
        let known = given.first().filter(|_| given.len() == 1).and_then(|token| {
            let mut tokens = self.own.tokens.borrow_mut();
            let at = tokens.iter().position(|known| known.object.is(&token.object) && known.variable.is(&variable))?;
            // A token can be used once.
            Some(tokens.remove(at))
        });
        let Some(token) = known else {
            return self.break_graph(reason::C_FUNCTION, "ContextVar.reset of a token that the function did not make for the variable");
        };
        self.layers.note_unrepeatable();
        let before = token.before.as_ref().map(|(value, source)| Tracked { object: value.bind(self.py).clone(), source: *source });
        self.note_context(&variable, source, before.as_ref())?;
        Ok(Tracked::new(self.py.None().into_bound(self.py)))
    }

    fn note_context(&self, variable: &Bound<'py, PyAny>, source: SourceId, value: Option<&Tracked<'py>>) -> Outcome<()> {
        let stored = self.guards.source(Source::ContextValue(source));
        let storage = variable.as_ptr() as usize;
        self.note(
            WriteTarget { kind: WrittenKind::Context, owner: variable, source, stored, storage, name: VALUE.to_owned(), now: None },
            value,
        )
    }

    /// Guards that other context variables are not the one that was set.
    pub(super) fn tell_variables_apart(&self, written: &Written) {
        let class = written.owner.bind(self.py).get_type();
        for other in self.existing_where(|object, source| source != written.source && object.get_type().is(&class)) {
            self.guards.relate(Relation::Distinct(vec![other.min(written.source), other.max(written.source)]));
        }
    }

    /// Ends the capture at a read of a token's attributes, such as its old value: the frame's tokens belong to other contexts.
    pub(crate) fn refuse_token(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.own.tokens.borrow().iter().any(|token| token.object.is(object)) {
            return self.break_graph(reason::C_FUNCTION, "an attribute of a token of a context variable");
        }
        Ok(())
    }
}

impl<'py> Recipes<'py> {
    /// Returns the step after the graph that sets a variable. A variable without a final value did not have one before either.
    pub(super) fn context_step(&self, written: &Written, outputs: &mut Outputs<'py>) -> Outcome<Option<AfterGraph>> {
        let Some(value) = written.tracked(self.py) else { return Ok(None) };
        let method = written.owner.bind(self.py).get_type().getattr("set")?.unbind();
        let variable = Recipe::Input(self.guards.collect(written.source));
        Ok(Some(AfterGraph::Call { method, given: vec![variable, self.recipe(&value, outputs)?] }))
    }
}
