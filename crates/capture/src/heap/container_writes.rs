//! Changes to existing containers: `log.append(x)`, `cache["k"] = x`, `del table[key]`.
//!
//! The container itself is not touched. A change that reads nothing of it is only noted and guards nothing: the call performs it after its
//! graph has run. If the container is read after that, or if a change depends on its contents, a copy with fakes represents it from then
//! on, and all its contents are guarded. C code works on the copy, whose final contents are put into the container.

pub(crate) mod distinct;
pub(crate) mod reads;
pub(crate) mod steps;

use dynamlir_guards::{Facet, Source, SourceId};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyDict, PyFrozenSet, PyInt, PyIterator, PyList, PyModule, PyRange, PySet, PyString, PyTuple},
};

use crate::{
    floors::{Heap, Operations, Writes},
    graph_break::{Outcome, reason},
    objects::{Tracked, callables::Keywords, contents::is_deque, lookup::instance_dict},
    state::{Written, WrittenKind},
    values::is_operator::is_nan,
};

/// The frame's effect on an item of an existing container.
pub(crate) enum Item<'py> {
    Set(Tracked<'py>),
    Gone,
    /// Any effect: the item is found in the copy that represents the container.
    In(Bound<'py, PyAny>),
}

impl<'py> Writes<'py> {
    /// Returns true if changes to an existing object can be noted.
    pub(crate) fn can_change(&self, object: &Bound<'py, PyAny>) -> bool {
        self.torch.is_changeable_container(object)
    }

    /// Ends the capture where the container to be changed determines what `backward` does later.
    fn refuse_change_of_looked_at(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if self.writes.is_looked_at(container.as_ptr() as usize, None) {
            return self.refuse_change(source, ", which backward reads later, in a torch.autograd.Function or a checkpoint");
        }
        Ok(())
    }

    fn refuse_change<T>(&self, source: SourceId, why: &str) -> Outcome<T> {
        self.break_graph(reason::SIDE_EFFECT, format!("changes {}{why}", self.guards.expression(source)))
    }

    /// Returns true if iterating over a value runs nothing that could look at the container, or raise.
    fn is_still(&self, values: &Tracked<'py>, container: &Bound<'py, PyAny>) -> bool {
        let object = &values.object;
        let builtin =
            self.torch.is_container(object) || object.is_exact_instance_of::<PyRange>() || object.is_exact_instance_of::<PyString>();
        builtin && !object.is(container)
    }

    /// Returns true if each item that a list had before the frame is still at its index.
    fn only_grows(&self, list: &Bound<'py, PyAny>) -> bool {
        let address = list.as_ptr() as usize;
        let keeps = |written: &Written| matches!(written.name.as_str(), "append" | "__setitem__");
        !self.existing.changed.borrow().contains(&address) && self.writes.changes(address).iter().all(|written| keeps(written))
    }

    /// Ends the capture if the death of the value that a container holds at a place would run code or clear a weak reference.
    fn refuse_watched(&self, container: SourceId, stored: SourceId, value: Option<&Bound<'py, PyAny>>) -> Outcome<()> {
        if self.is_watched(value, stored)? {
            return self.refuse_change(container, ", and destroying what it held would run code or clear a weak reference");
        }
        Ok(())
    }

    /// Like [`Self::refuse_watched`], for everything that a container holds.
    fn refuse_watched_in(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.refuse_watched(source, source, Some(container))
    }

    /// Like [`Self::refuse_watched`], for the items that a deque of limited length drops when others are added.
    fn refuse_watched_drop(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        match container.getattr_opt("maxlen")? {
            Some(limit) if !limit.is_none() => self.refuse_watched_in(container, source),
            _ => Ok(()),
        }
    }

    /// Replaces the recorded changes of a container by the final contents of its copy. `method` is the one that was called last.
    fn settle(&self, container: &Bound<'py, PyAny>, source: SourceId, method: &str) {
        // An iterator over a deque remains valid if items are only replaced.
        let replaces = |method: &str| matches!(method, "__setitem__" | "reverse");
        let address = container.as_ptr() as usize;
        let only_replaces = replaces(method) && self.writes.changes(address).iter().all(|written| replaces(&written.name));
        self.writes.settle_contents(Written {
            kind: WrittenKind::Contents,
            owner: container.clone().unbind(),
            storage: container.as_ptr() as usize,
            source,
            stored: source,
            name: if only_replaces { "__setitem__".to_owned() } else { String::new() },
            key: None,
            value: None,
            location: self.location(),
        });
    }
}

impl<'py> Heap<'py> {
    /// `dict[key] = value`, for a key that is text or a number.
    fn put(&self, dict: &Tracked<'py>, source: SourceId, key: &Tracked<'py>, value: &Tracked<'py>) -> Outcome<()> {
        self.guard_value(key)?;
        let stored = self.guarded(self.guards.item(source, &key.object))?;
        self.guards.demand(stored, Facet::Nothing);
        let changed = self.changed_item(&dict.object, key)?;
        let holder = match &changed {
            None => Some(&dict.object),
            Some(Item::In(copy)) => Some(copy),
            Some(Item::Set(_) | Item::Gone) => None,
        };
        let now = holder.map(|holder| holder.cast::<PyDict>()?.get_item(&key.object)).transpose()?.flatten();
        if let Some(now) = &now
            && changed.is_none()
            && self.holds_already(stored, now, value)?
        {
            return Ok(());
        }
        self.refuse_watched(source, stored, now.as_ref())?;
        self.note_change((&dict.object, source), stored, "__setitem__", Some(key), Some(value))
    }

    /// Notes a change to a container. If a copy represents the container, the copy is changed at once.
    fn note_change(
        &self,
        (container, source): (&Bound<'py, PyAny>, SourceId),
        stored: SourceId,
        method: &str,
        key: Option<&Tracked<'py>>,
        value: Option<&Tracked<'py>>,
    ) -> Outcome<()> {
        if let Some(key) = key {
            self.guard_value(key)?;
        }
        let written = Written {
            kind: WrittenKind::Call,
            owner: container.clone().unbind(),
            storage: container.as_ptr() as usize,
            source,
            stored,
            name: method.to_owned(),
            key: key.map(|key| key.object.clone().unbind()),
            value: value.map(|value| (value.object.clone().unbind(), value.source)),
            location: self.location(),
        };
        // Code that iterates over it must see the change.
        if self.existing.snapshots.borrow().contains(&(container.as_ptr() as usize)) {
            let copy = self.copy_to_change(container, source)?;
            self.apply(&copy, &written)?;
            if copy.is_exact_instance_of::<PyList>() || copy.is_instance_of::<PyDict>() || is_deque(&copy)? {
                self.settle(container, source, method);
                return Ok(());
            }
        }
        self.writes.push(written);
        Ok(())
    }

    /// Applies a change to a copy.
    fn apply(&self, copy: &Bound<'py, PyAny>, written: &Written) -> Outcome<()> {
        if let Some(value) = written.tracked(self.py) {
            self.guard_value(&value)?;
        }
        // A copy has the container's own keys, even if they are tensors.
        let key = written.key.as_ref().map(|key| self.key_in_copy(key.bind(self.py)).map(Bound::unbind)).transpose()?;
        let given = key.into_iter().chain(written.value.as_ref().map(|(value, _)| value.clone_ref(self.py)));
        let given = PyTuple::new(self.py, given.collect::<Vec<_>>())?;
        dynamlir_interpreter::suspended(|| copy.call_method1(written.name.as_str(), given))?;
        Ok(())
    }

    /// Returns the copy that represents a container which the frame has changed or is about to change.
    pub(super) fn copy_to_change(&self, container: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        let address = container.as_ptr() as usize;
        if let Some(known) = self.existing.changed.borrow().get(&address) {
            return Ok(known.bind(self.py).clone());
        }
        if !self.torch.is_container(container) {
            return self.break_graph(reason::SIDE_EFFECT, format!("reads {} after changing it", self.guards.expression(source)));
        }
        let was_seen = self.existing.snapshots.borrow().contains(&address);
        let mut copy = self.snapshot_as_it_was(container, source)?;
        if copy.is(container) {
            if was_seen {
                // C code was given the container itself, and may still be looking at it.
                self.wants_copies.set(true);
                return self.refuse_change(source, " after C code has looked at it");
            }
            copy = dynamlir_interpreter::suspended(|| container.call_method0("copy"))?;
            self.existing.originals.borrow_mut().insert(copy.as_ptr() as usize, (container.clone().unbind(), source));
            self.existing.snapshots.borrow_mut().insert(address, copy.clone().unbind());
        }
        self.existing.changed.borrow_mut().insert(address, copy.clone().unbind());
        for written in self.writes.changes(address) {
            self.apply(&copy, &written)?;
        }
        if self.has_defaults(&copy)? {
            // C code that looks up a missing key puts a default into it.
            self.settle(container, source, "__missing__");
        }
        Ok(copy)
    }
}

impl<'py> Operations<'py> {
    /// `container.method(*args, **kwargs)`, if this changes an existing container.
    pub(crate) fn change(
        &self,
        container: &Bound<'py, PyAny>,
        source: SourceId,
        method: &str,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        self.refuse_change_of_looked_at(container, source)?;
        let is_attributes = matches!(self.guards.get(source), Source::GetAttr(_, name) if &*name == "__dict__");
        if is_attributes || self.written_in(container).is_some() {
            return self.refuse_change(source, ", which holds attributes");
        }
        if let Source::Attr(owner, _) = self.guards.get(source)
            && self.existing_at(owner).is_some_and(|owner| owner.is_instance_of::<PyModule>() && !self.is_writable_module(&owner))
        {
            return self.refuse_change(source, ", which others look at");
        }
        if container.is_exact_instance_of::<PyDict>() && !self.is_changed(container) {
            let holds = self.existing_where(|object, _| instance_dict(object).is_some_and(|dict| dict.is(container)));
            if let Some(object) = holds.first() {
                return self.refuse_change(source, &format!(", the attributes of {}", self.guards.expression(*object)));
            }
        }
        self.pin_type(container, source)?;
        self.layers.note_unrepeatable();
        let named = method == "update" && container.is_instance_of::<PyDict>() && (args.is_empty() || self.is_still(&args[0], container));
        if (kwargs.is_empty() || named)
            && let Some(result) =
                if named && args.is_empty() { Some(None) } else { self.change_unseen(container, source, method, args)?.map(Some) }
        {
            let this = Tracked { object: container.clone(), source: Some(source) };
            for (name, value) in kwargs {
                self.put(&this, source, &Tracked::new(PyString::new(self.py, name).into_any()), value)?;
            }
            return Ok(result.unwrap_or_else(|| Tracked::new(self.py.None().into_bound(self.py))));
        }
        self.change_copy(container, source, method, args, kwargs)
    }

    /// Performs a change that depends on at most one item of the container; None for other changes.
    fn change_unseen(
        &self,
        container: &Bound<'py, PyAny>,
        source: SourceId,
        method: &str,
        args: &[Tracked<'py>],
    ) -> Outcome<Option<Tracked<'py>>> {
        let list = container.is_exact_instance_of::<PyList>();
        let (dict, set) = (container.is_instance_of::<PyDict>(), container.is_exact_instance_of::<PySet>());
        let deque = !list && !dict && !set;
        let known = |key: &Tracked<'py>| self.torch.is_primitive(&key.object) && !is_nan(&key.object) && key.object.hash().is_ok();
        let this = Tracked { object: container.clone(), source: Some(source) };
        let none = || Tracked::new(self.py.None().into_bound(self.py));
        let note = |method: &str, value: Option<&Tracked<'py>>| self.note_change((container, source), source, method, None, value);
        match (method, args) {
            ("append", [value]) if list => note(method, Some(value))?,
            ("append" | "appendleft", [value]) if deque => {
                self.refuse_watched_drop(container, source)?;
                note(method, Some(value))?;
            }
            ("add" | "discard", [value]) if set && known(value) => {
                // Another type may have its own hash, or none.
                if let Some(at) = value.source {
                    self.pin_type(&value.object, at)?;
                }
                note(method, Some(value))?;
            }
            ("clear", []) => {
                self.refuse_watched_in(container, source)?;
                note(method, None)?;
            }
            // Iterating over the values must not look at the container, nor raise.
            ("extend" | "__iadd__" | "extendleft", [values]) if (list || deque) && self.is_still(values, container) => {
                let each = if method == "extendleft" { "appendleft" } else { "append" };
                self.refuse_watched_drop(container, source)?;
                for value in self.unpack_any(values)? {
                    note(each, Some(&value))?;
                }
            }
            // Each value is added before the next one is requested, so code in between sees the set as in plain Python.
            ("update", [values]) if set && self.is_young(&values.object) && values.object.is_instance_of::<PyIterator>() => {
                self.refuse_changed_beneath(&values.object)?;
                for value in values.object.cast::<PyIterator>().map_err(PyErr::from)?.clone() {
                    let value = self.wrap_untracked(value?)?;
                    if !known(&value) {
                        return self.refuse_change(source, " by what is neither text nor a number");
                    }
                    note("add", Some(&value))?;
                }
            }
            // A set that is updated with a set or a dict makes room for all of it at once, which affects its order.
            ("update", [values]) if set && self.is_still(values, container) && is_sequence(&values.object) => {
                let values = self.unpack_any(values)?;
                if !values.iter().all(known) {
                    return self.refuse_change(source, " by what is neither text nor a number");
                }
                for value in values {
                    note("add", Some(&value))?;
                }
            }
            ("update" | "__ior__", [values])
                if dict && self.is_still(values, container) && values.object.is_exact_instance_of::<PyDict>() =>
            {
                let keys = self.unpack_any(values)?;
                if !keys.iter().all(known) {
                    return Ok(None);
                }
                for key in keys {
                    let value = self.get_item(values, &key)?;
                    self.put(&this, source, &key, &value)?;
                }
            }
            ("__setitem__", [key, value]) if dict && known(key) => self.put(&this, source, key, value)?,
            ("__setitem__", [key, value]) if dict && self.real_of(&key.object).is_some() => {
                // The item is found by its key's identity, and the next call may have another key, or none.
                self.refuse_watched_in(container, source)?;
                self.note_change((container, source), source, method, Some(key), Some(value))?;
            }
            ("__setitem__", [key, value]) if list && self.only_grows(container) && has_index(container, &key.object)? => {
                let index: u32 = key.object.extract()?;
                let stored = self.guards.source(Source::Index(source, index));
                self.guards.present(stored);
                self.refuse_watched(source, stored, Some(&container.get_item(index)?))?;
                self.note_change((container, source), stored, method, Some(key), Some(value))?;
            }
            ("__delitem__" | "pop", [key]) | ("pop", [key, _]) if dict && known(key) => {
                if !self.contains(&this, key)? {
                    return match args {
                        [_, default] => Ok(Some(default.clone())),
                        _ => Err(PyKeyError::new_err((key.object.clone().unbind(),)).into()),
                    };
                }
                let value = self.get_item(&this, key)?;
                self.refuse_watched(source, self.guarded(self.guards.item(source, &key.object))?, Some(&value.object))?;
                self.note_change((container, source), source, "__delitem__", Some(key), None)?;
                return Ok(Some(if method == "pop" { value } else { none() }));
            }
            ("setdefault", [key, default @ ..]) if dict && known(key) => {
                if self.contains(&this, key)? {
                    return self.get_item(&this, key).map(Some);
                }
                let default = default.first().cloned().unwrap_or_else(none);
                self.put(&this, source, key, &default)?;
                return Ok(Some(default));
            }
            _ => return Ok(None),
        }
        Ok(Some(if matches!(method, "__iadd__" | "__ior__") { this } else { none() }))
    }

    /// Performs a change that depends on the contents of the container.
    fn change_copy(
        &self,
        container: &Bound<'py, PyAny>,
        source: SourceId,
        method: &str,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        if !container.is_exact_instance_of::<PyList>() && !container.is_instance_of::<PyDict>() && !is_deque(container)? {
            return self.refuse_change(source, &format!(" by {method}, which depends on what is in it"));
        }
        let copy = self.copy_to_change(container, source)?;
        self.refuse_watched_in(container, source)?;
        self.refuse_watched_in(&copy, source)?;
        // Code that is called back sees the copy.
        self.settle(container, source, method);
        let args = self.keyed_as_in_copy(&copy, method, args)?;
        self.mutate(&copy.getattr(method)?, method, &args, kwargs)
    }
}

fn is_sequence(value: &Bound<'_, PyAny>) -> bool {
    !value.is_instance_of::<PyDict>() && !value.is_instance_of::<PySet>() && !value.is_instance_of::<PyFrozenSet>()
}

/// Returns true if a list had an item at a non-negative index before the frame.
fn has_index(list: &Bound<'_, PyAny>, index: &Bound<'_, PyAny>) -> PyResult<bool> {
    let index = index.cast_exact::<PyInt>().ok().and_then(|index| index.extract::<u32>().ok());
    let length = list.len()?;
    Ok(index.is_some_and(|index| (index as usize) < length))
}
