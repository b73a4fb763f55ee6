//! Replacements for existing containers that are passed to C code: copies with fakes for tensors, all of whose contents are guarded.

use dynamlir_guards::{Facet, Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PySet, PyTuple},
};

use crate::{
    floors::Heap,
    graph_break::{Outcome, reason},
    objects::{Tracked, contents::is_deque, type_name},
};

impl<'py> Heap<'py> {
    /// Returns an argument in the form that C code may read: existing lists, tuples, dicts and sets as copies with fakes for tensors.
    /// Everything in them is guarded, because the reads of the code are not visible.
    pub fn readable(&self, value: &Tracked<'py>) -> Outcome<Bound<'py, PyAny>> {
        self.guard_value(value)?;
        self.uses(value, Facet::Value);
        if let Some(view) = self.readable_view(&value.object)? {
            return Ok(view);
        }
        self.pin_all_unseen(&value.object)?;
        match self.source_of(&value.object) {
            Some(source) if self.torch.is_container(&value.object) => {
                let given = self.snapshot(&value.object, source)?;
                self.guards.demand(source, if given.is(&value.object) { Facet::Items } else { Facet::Shape });
                Ok(given)
            }
            Some(source) if self.all_contents(&value.object, source)? => {
                self.break_graph(reason::UNGUARDABLE, format!("tensors in a {}", type_name(&value.object)))
            }
            _ => {
                self.refuse_changed_beneath(&value.object)?;
                Ok(value.object.clone())
            }
        }
    }

    /// Returns the guarded copy of an existing container, or, if the frame has changed it, the copy that represents it.
    pub fn snapshot(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        self.refuse_written(container)?;
        self.note_looks_within([container]);
        let Some(copy) = self.changed(container)? else { return self.snapshot_as_it_was(container, source) };
        if copy.is_exact_instance_of::<PySet>() {
            // The order of a set is that in which it was filled.
            return self.break_graph(reason::SIDE_EFFECT, format!("looks at all of {} after changing it", self.guards.expression(source)));
        }
        Ok(copy)
    }

    /// Returns the guarded copy of an existing container, as it was before the frame.
    pub(super) fn snapshot_as_it_was(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        let key = container.as_ptr() as usize;
        if let Some(known) = self.existing.snapshots.borrow().get(&key) {
            return Ok(known.bind(self.py).clone());
        }
        let _deeper = self.deeper(container)?;
        self.pin_type(container, source)?;
        let py = self.py;
        let made: Bound<'py, PyAny> = if let Ok(items) = container.cast_exact::<PyList>() {
            self.guards.length(source, items.len());
            let copy = PyList::empty(py);
            for (at, item) in items.iter().enumerate() {
                copy.append(self.element(item, Source::Index(source, at as u32))?)?;
            }
            copy.into_any()
        } else if let Ok(items) = container.cast_exact::<PyTuple>() {
            self.guards.length(source, items.len());
            let copy: Vec<_> =
                items.iter().enumerate().map(|(at, item)| self.element(item, Source::Index(source, at as u32))).collect::<Outcome<_>>()?;
            PyTuple::new(py, copy)?.into_any()
        } else if let Ok(items) = container.cast::<PyDict>() {
            self.pin_factory(container, source)?;
            self.guarded(self.guards.dict_keys(source, items))?;
            // OrderedDict and defaultdict keep their types.
            let copy = container.call_method0("copy")?;
            let copy_dict = copy.cast::<PyDict>().map_err(PyErr::from)?;
            for (at, (key, item)) in items.iter().enumerate() {
                let from = self.value_at(source, &key, at);
                copy_dict.set_item(key, return_element(self, item, from)?)?;
            }
            copy
        } else if is_deque(container)? {
            self.guards.length(source, container.len()?);
            let longest = self.guards.source(Source::GetAttr(source, "maxlen".into()));
            self.guards.demand(longest, Facet::Value);
            self.guarded(self.guards.equals(longest, &container.getattr("maxlen")?))?;
            let copy = container.call_method0("copy")?;
            for (at, item) in container.try_iter()?.enumerate() {
                copy.set_item(at, self.element(item?, Source::Index(source, at as u32))?)?;
            }
            copy
        } else {
            let known = self.guarded(self.guards.set_order(source, container))?;
            let frozen = container.is_exact_instance_of::<pyo3::types::PyFrozenSet>();
            if !known && (!frozen || self.guards.identity(source, container).is_err()) {
                return self.break_graph(reason::UNGUARDABLE, format!("a set of objects at {}", self.guards.expression(source)));
            }
            container.clone()
        };
        // If no tensor was replaced, the container itself is passed, and stays the same object for `is`. A dict with defaults may be
        // written by a lookup.
        let itself = !self.copies_containers && same_items(container, &made) && !self.has_defaults(container)?;
        let made = if itself { container.clone() } else { made };
        if !made.is(container) {
            self.existing.originals.borrow_mut().insert(made.as_ptr() as usize, (container.clone().unbind(), source));
        }
        self.existing.snapshots.borrow_mut().insert(key, made.clone().unbind());
        Ok(made)
    }

    /// Returns true if looking up a missing key in a dict adds it, without running Python code.
    pub(crate) fn has_defaults(&self, dict: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(self.effects.kinds.default_factory(dict)?.is_some_and(|factory| !factory.is_none()))
    }

    /// Guards the default factory of an existing `defaultdict`, which also decides if it has defaults.
    pub(crate) fn pin_factory(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let Some(factory) = self.effects.kinds.default_factory(object)? else { return Ok(()) };
        let at = self.guards.source(Source::GetAttr(source, "default_factory".into()));
        self.pin(&factory, at)
    }

    /// Ends the capture where C code would receive an instance of a subclass of `defaultdict`, which it may write by a lookup.
    pub(super) fn refuse_unseen_defaults(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if self.torch.is_container(object) {
            return Ok(());
        }
        self.pin_factory(object, source)?;
        if self.has_defaults(object)? {
            return self.break_graph(reason::SIDE_EFFECT, format!("a default may be put into {}", self.guards.expression(source)));
        }
        Ok(())
    }

    /// Ends the capture if C code has looked up a key that is missing in an existing `defaultdict`: the copy then contains a default.
    pub(crate) fn refuse_defaults(&self) -> Outcome<()> {
        for (_, copy) in self.existing.snapshots.borrow().iter() {
            let copy = copy.bind(self.py);
            if self.has_defaults(copy)?
                && let Some((original, source)) = self.existing.originals.borrow().get(&(copy.as_ptr() as usize))
                && !self.is_changed(original.bind(self.py))
                && copy.len()? != original.bind(self.py).len()?
            {
                return self.break_graph(reason::SIDE_EFFECT, format!("a default is put into {}", self.guards.expression(*source)));
            }
        }
        Ok(())
    }

    /// Returns one element of an existing container, guarded.
    fn element(&self, item: Bound<'py, PyAny>, source: Source) -> Outcome<Bound<'py, PyAny>> {
        return_element(self, item, self.guards.source(source))
    }
}

fn return_element<'py>(capture: &Heap<'py>, item: Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
    let wrapped = capture.wrap(item, source)?;
    capture.guard_value(&wrapped)?;
    if capture.source_of(&wrapped.object).is_some() {
        if capture.torch.is_container(&wrapped.object) {
            return capture.snapshot(&wrapped.object, source);
        }
        capture.refuse_unseen_defaults(&wrapped.object, source)?;
        capture.guard_element(&wrapped.object, source)?;
    }
    Ok(wrapped.object)
}

/// Returns true if a copy holds the same objects as the original, in the same positions.
fn same_items(container: &Bound<'_, PyAny>, copy: &Bound<'_, PyAny>) -> bool {
    let pairs = |lhs: &Bound<'_, PyAny>, rhs: &Bound<'_, PyAny>| -> PyResult<bool> {
        for (left, right) in lhs.try_iter()?.zip(rhs.try_iter()?) {
            if !left?.is(&right?) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    match (container.cast::<PyDict>(), copy.cast::<PyDict>()) {
        (Ok(lhs), Ok(rhs)) => pairs(lhs.values().as_any(), rhs.values().as_any()).unwrap_or(false),
        _ => pairs(container, copy).unwrap_or(false),
    }
}
