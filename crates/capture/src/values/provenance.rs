//! The provenance of objects: the sources of existing ones, the age of the frame's own, and nothing else.
//!
//! C code may return any object: a new one, a part of an argument, or one never seen before. An object that the frame did not create and
//! that has no known source can neither be guarded nor changed: it ends the capture.

use dynamlir_cpython_abi::object;
use dynamlir_guards::{Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyCFunction, PyCode, PyFrozenSet, PyFunction, PyModule, PyTuple, PyType},
};

use crate::{
    floors::{Numbers, Record, Sources},
    graph_break::{Outcome, reason},
    objects::{Tracked, type_name},
};

impl<'py> Sources<'py> {
    /// Returns the source of an enumeration member: its name in its class.
    fn enumerated(&self, object: &Bound<'py, PyAny>) -> Outcome<Option<SourceId>> {
        let class = object.get_type();
        let enums = dynamlir_cpython_abi::import(self.py, "enum")?;
        if !class.get_type().is(enums.getattr("EnumType").or_else(|_| enums.getattr("EnumMeta"))?) {
            return Ok(None);
        }
        let Ok(name) = dynamlir_interpreter::suspended(|| object.getattr("_name_"))?.extract::<String>() else { return Ok(None) };
        let found = dynamlir_interpreter::suspended(|| class.getattr_opt(name.as_str()))?;
        if !found.is_some_and(|found| found.is(object)) {
            return Ok(None);
        }
        let label: String = class.getattr("__qualname__")?.extract()?;
        let held = self.guarded(self.guards.hold(&class, &label))?;
        Ok(Some(self.guards.source(Source::GetAttr(held, name.as_str().into()))))
    }

    /// Records that an object is new; see [`Births::note`](dynamlir_cpython_abi::Births::note).
    pub(crate) fn note_new(&self, object: &Bound<'py, PyAny>) {
        if let Some(births) = &self.own.births {
            births.note(object);
        }
    }

    /// Returns true if an object without a known origin is immutable: code, named objects, tuples of these. They are guarded when they are
    /// used.
    pub(crate) fn never_changes(&self, object: &Bound<'py, PyAny>) -> Outcome<bool> {
        let mut waiting = vec![object.clone()];
        let mut count = 0usize;
        while let Some(object) = waiting.pop() {
            if self.torch.is_primitive(&object) || self.torch.is_fake(&object) || self.source_of(&object).is_some() {
                continue;
            }
            count += 1;
            if count > 1000 {
                return Ok(false);
            }
            if let Ok(items) = object.cast_exact::<PyTuple>() {
                waiting.extend(items.iter());
            } else if let Ok(items) = object.cast_exact::<PyFrozenSet>() {
                waiting.extend(items.iter());
            } else if !(self.has_name(&object) || self.is_young(&object)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_name(&self, object: &Bound<'py, PyAny>) -> bool {
        object.is_instance_of::<PyType>()
            || object.is_exact_instance_of::<PyFunction>()
            || object.is_instance_of::<PyModule>()
            || object.is_exact_instance_of::<PyCFunction>()
            || object.is_exact_instance_of::<PyCode>()
            || self.effects.is_descriptor(object)
    }
}

impl<'py> Record<'py> {
    /// Returns true if this object was created by the frame, or by code that it has called.
    pub(crate) fn is_young(&self, object: &Bound<'py, PyAny>) -> bool {
        self.own.births.as_ref().is_some_and(|births| births.is_new(object))
    }

    /// Returns the existing container of which C code was given this copy.
    pub(crate) fn original(&self, copy: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, SourceId)> {
        let originals = self.existing.originals.borrow();
        originals.get(&(copy.as_ptr() as usize)).map(|(original, source)| (original.bind(self.py).clone(), *source))
    }

    /// Ends the capture unless the frame created this object, which is about to be changed.
    pub(crate) fn own(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        let existing = self.source_of(object).or_else(|| self.original(object).map(|(_, source)| source));
        if let Some(source) = existing {
            return self.break_graph(reason::SIDE_EFFECT, format!("changes {}", self.guards.expression(source)));
        }
        if self.is_young(object) {
            return Ok(());
        }
        self.break_graph(reason::SIDE_EFFECT, format!("changes a {} that existed before", type_name(object)))
    }
}

impl<'py> Numbers<'py> {
    /// Takes in a result with no known source: created by the frame, or found by C code among existing objects.
    pub fn wrap_untracked(&self, object: Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
        if self.torch.is_primitive(&object) || self.torch.is_fake(&object) {
            return Ok(Tracked::new(object));
        }
        if let Some(source) = self.source_of(&object) {
            return Ok(Tracked { object, source: Some(source) });
        }
        if let Some((original, source)) = self.original(&object) {
            return Ok(Tracked { object: original, source: Some(source) });
        }
        if self.torch.is_tensor(&object) {
            return match self.fake_of_real(&object) {
                Some(fake) => Ok(Tracked::new(fake)),
                None => self.break_graph(reason::UNGUARDABLE, "a tensor that came out of C code"),
            };
        }
        // From CPython 3.14 on the garbage collector does not track tuples of plain values.
        if object.is_exact_instance_of::<PyTuple>() && object::references(&object) == 1 {
            self.note_new(&object);
        }
        if self.is_young(&object) || self.never_changes(&object)? {
            return Ok(Tracked::new(object));
        }
        if let Some(source) = self.enumerated(&object)? {
            return self.wrap(object, source);
        }
        self.break_graph(reason::UNGUARDABLE, format!("a {} that existed before and came out of C code", type_name(&object)))
    }
}
