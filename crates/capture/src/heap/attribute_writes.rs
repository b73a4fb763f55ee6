//! Writes to existing objects. The capture notes them, and attribute reads consult the notes. The call performs them in program order after
//! its graph has run.

use std::rc::Rc;

use dynamlir_cpython_abi::kind;
use dynamlir_frame::{AfterGraph, Recipe};
use dynamlir_graph::Line;
use dynamlir_guards::{Facet, Guard, Relation, Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyFunction, PyModule, PyString, PyType},
};

use crate::{
    floors::{Heap, Recipes, Writes},
    graph_break::{GraphBreak, Halt, Outcome, reason},
    objects::{
        Tracked,
        contents::is_named,
        lookup::{instance_dict, is_changeable, is_generic, lookup, text},
        special_names::is_dunder,
        type_name,
    },
    state::{Written, WrittenKind, outputs::Outputs},
};

/// The frame's effect on an attribute of an existing object.
pub(crate) enum Overlay<'py> {
    Untouched,
    Deleted,
    Set(Tracked<'py>),
}

/// The place that the frame writes to.
pub(crate) struct WriteTarget<'a, 'py> {
    pub kind: WrittenKind,
    /// The object, the cell, or the dict of globals.
    pub owner: &'a Bound<'py, PyAny>,
    /// The source of the owner.
    pub source: SourceId,
    /// The source of the stored value.
    pub stored: SourceId,
    /// The address of the object that stores the value.
    pub storage: usize,
    pub name: String,
    /// The value stored there now.
    pub now: Option<Bound<'py, PyAny>>,
}

impl<'py> Writes<'py> {
    fn refuse_write<T>(&self, owner: SourceId, key: &str, why: &str) -> Outcome<T> {
        self.refuse_place(self.guards.attr(owner, key), why)
    }

    /// Ends the capture at a read of an attribute that the frame has deleted.
    pub(crate) fn refuse_deleted<T>(&self, owner: SourceId, key: &str) -> Outcome<T> {
        self.break_graph(reason::SIDE_EFFECT, format!("reads {}.{key} after deleting it", self.guards.expression(owner)))
    }

    /// Ends the capture at a write to the value with the source `stored`.
    fn refuse_place<T>(&self, stored: SourceId, why: &str) -> Outcome<T> {
        self.break_graph(reason::SIDE_EFFECT, format!("writes {}{why}", self.guards.expression(stored)))
    }

    /// Notes a write to a value that an object stores in a slot or in its dict.
    fn note_write(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        value: Option<&Tracked<'py>>,
        slot: bool,
    ) -> Outcome<()> {
        let key = text(name)?;
        let dict = instance_dict(owner);
        if !slot && dict.is_none() {
            return self.refuse_write(source, &key, "");
        }
        if dict.as_ref().is_some_and(|dict| self.is_changed(dict)) {
            return self.refuse_write(source, &key, ", whose dict was changed");
        }
        if dict.as_ref().is_some_and(|dict| self.existing.snapshots.borrow().contains(&(dict.as_ptr() as usize))) {
            return self.refuse_write(source, &key, " after looking at all that it holds");
        }
        let now = match &dict {
            Some(dict) if !slot => dict.get_item(name)?,
            _ => None,
        };
        let stored = self.guards.attr(source, &key);
        match (self.written_attr(owner, &key), value) {
            (Overlay::Deleted, None) => return self.refuse_write(source, &key, " twice: it is deleted already"),
            (Overlay::Untouched, None) if now.is_none() => {
                // This raises with the interpreter's own message.
                let raised = self.py.get_type::<PyAny>().call_method1("__delattr__", (owner, name));
                self.guards.absent(stored);
                return self.returned(raised).map(|_| ());
            }
            (Overlay::Untouched, None) => self.guards.present(stored),
            _ => {}
        }
        let storage = dict.filter(|_| !slot).map_or_else(|| owner.as_ptr() as usize, |dict| dict.as_ptr() as usize);
        self.note(WriteTarget { kind: WrittenKind::Attribute, owner, source, stored, storage, name: key, now }, value)
    }

    /// Notes a write.
    pub(crate) fn note(&self, place: WriteTarget<'_, 'py>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        let WriteTarget { kind, owner, source, stored, storage, name, now } = place;
        if value.is_some() {
            self.guards.demand(stored, Facet::Nothing);
        }
        if self.writes.is_looked_at(storage, Some(&name)) {
            return self.refuse_place(stored, ", which backward reads later, in a torch.autograd.Function or a checkpoint");
        }
        if let (Overlay::Untouched, Some(value), Some(now)) = (self.written_at(storage, &name), value, &now)
            && self.holds_already(stored, now, value)?
        {
            return Ok(());
        }
        if self.is_watched(now.as_ref(), stored)? {
            return self.refuse_place(stored, ", and destroying its former value would run code or clear a weak reference");
        }
        let value = value.map(|value| (value.object.clone().unbind(), value.source));
        let (owner, location) = (owner.clone().unbind(), self.location());
        self.writes.push(Written { kind, owner, storage, source, stored, name, key: None, value, location });
        Ok(())
    }

    /// Returns true if a place already holds the primitive that is written there, and will whenever the guards pass. The write is then
    /// redundant.
    pub(super) fn holds_already(&self, stored: SourceId, now: &Bound<'py, PyAny>, value: &Tracked<'py>) -> Outcome<bool> {
        let is_same = value.source.is_none() && self.torch.is_primitive(&value.object) && now.is(&value.object);
        if !is_same || !self.sizes.may_leave_out(|| self.guards.expression(stored)) {
            return Ok(false);
        }
        let holds = self.guarded(self.guards.equals(stored, &value.object))?;
        if holds {
            self.sizes.leave_out(stored);
        }
        Ok(holds)
    }

    /// Ends the capture at a custom operator of the user after the frame has written something: the operator's code would run before the
    /// writes.
    pub(crate) fn refuse_operator_after_writes(&self, operator: &Bound<'py, PyAny>) -> Outcome<()> {
        const OF_LIBRARIES: &[&str] = &["aten", "prim", "prims", "torchvision", "transformers"];
        if self.writes.is_empty() {
            return Ok(());
        }
        // An operator packet whose overload is not resolved would take `namespace` for the name of an overload.
        let named = dynamlir_interpreter::suspended(|| {
            let name = operator.getattr_opt("_qualified_op_name")?;
            Ok::<_, PyErr>((name.map_or_else(|| operator.call_method0("name"), Ok)?.extract::<String>()?, operator.str()?))
        });
        let (name, shown) = named?;
        if name.split_once("::").is_some_and(|(namespace, _)| OF_LIBRARIES.contains(&namespace)) {
            return Ok(());
        }
        self.break_graph(reason::SIDE_EFFECT, format!("{shown} may read what was written before it"))
    }

    /// Guards that nothing notices when the object stored at a place dies, or that no object is stored there: it dies later than in plain
    /// Python. Returns true if its death would be noticed now.
    pub(super) fn is_watched(&self, object: Option<&Bound<'py, PyAny>>, stored: SourceId) -> Outcome<bool> {
        self.guards.demand(stored, Facet::Unwatched);
        self.guards.add(stored, Guard::Unwatched);
        object.map_or(Ok(false), |object| self.death_is_noticed(object))
    }

    /// Returns true if attributes of an existing object are stored in its dict and looked up there, where reads consult the noted writes.
    fn stores_plainly(&self, owner: &Bound<'py, PyAny>) -> Outcome<bool> {
        if owner.is_instance_of::<PyType>() || owner.is_instance_of::<PyFunction>() {
            return Ok(false);
        }
        if owner.is_instance_of::<PyModule>() {
            return Ok(self.is_writable_module(owner));
        }
        let generic = self.py.get_type::<PyAny>();
        for slot in ["__getattribute__", "__setattr__", "__delattr__"] {
            let (own, general) = (lookup(&owner.get_type(), slot)?, lookup(&generic, slot)?);
            // A Python method that has reached this point has already run.
            let plain = |own: &Bound<'py, PyAny>| own.is_exact_instance_of::<PyFunction>() || slot == "__getattribute__" && is_generic(own);
            if !own.zip(general).is_some_and(|(own, general)| own.is(&general) || plain(&own)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the frame has written to an existing object. The object itself is not touched.
    pub(crate) fn is_written(&self, owner: &Bound<'py, PyAny>) -> bool {
        let storage = || instance_dict(owner).map(|dict| dict.as_ptr() as usize);
        if self.writes.is_recording() {
            storage().into_iter().chain([owner.as_ptr() as usize]).for_each(|storage| self.writes.look(storage, None));
        }
        !self.writes.is_empty() && {
            let storage = storage();
            let is_it = |entry: &Written| entry.owner.is(owner) || storage == Some(entry.storage);
            self.writes.find_map(|entry| is_it(entry).then_some(())).is_some()
        }
    }

    /// Returns the existing object that the frame has written to and whose `__dict__` this is.
    pub(crate) fn written_in(&self, dict: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let storage = dict.as_ptr() as usize;
        self.writes.look(storage, None);
        self.writes.find_map(|entry| (entry.storage == storage).then(|| entry.owner.bind(self.py).clone()))
    }

    /// Ends the capture where C code would read a `__dict__` without the frame's writes.
    pub(crate) fn refuse_written(&self, dict: &Bound<'py, PyAny>) -> Outcome<()> {
        match self.written_in(dict) {
            Some(owner) => self.break_graph(reason::SIDE_EFFECT, format!("reads all of a {} after writing to it", type_name(&owner))),
            None => Ok(()),
        }
    }

    /// Returns the frame's write to an attribute of an existing object, if any.
    pub(crate) fn written_attr(&self, owner: &Bound<'py, PyAny>, key: &str) -> Overlay<'py> {
        if self.writes.is_quiet() {
            return Overlay::Untouched;
        }
        let dict = instance_dict(owner).map(|dict| dict.as_ptr() as usize);
        let mut places = dict.into_iter().chain([owner.as_ptr() as usize]).map(|storage| self.written_at(storage, key));
        places.find(|overlay| !matches!(overlay, Overlay::Untouched)).unwrap_or(Overlay::Untouched)
    }

    /// Returns the frame's write to a name in the storage at an address, if any.
    pub(crate) fn written_at(&self, storage: usize, key: &str) -> Overlay<'py> {
        let Some(value) = self.writes.find(storage, key, |entry| entry.tracked(self.py)) else { return Overlay::Untouched };
        // It may be one of the frame's own objects, which can change.
        self.layers.note_unrepeatable();
        value.map_or(Overlay::Deleted, Overlay::Set)
    }

    /// Returns true if a write has no effect that remains at the end of the frame.
    pub(super) fn leaves_nothing(&self, written: &Written, writes: &[Rc<Written>]) -> bool {
        self.is_set_back(written, writes) || is_set_later(written, writes)
    }

    /// Returns true if a place is set back to its original value, regardless of that value. A value that the frame does not look at is not
    /// guarded, so the next call may store one of another kind.
    fn is_set_back(&self, written: &Written, writes: &[Rc<Written>]) -> bool {
        // Writes to other items of a container may come in between.
        let same = |other: &&Rc<Written>| other.storage == written.storage && (other.name == written.name || other.key.is_some());
        let is_place = written.kind != WrittenKind::Call || written.key.is_some();
        let was_there = |(value, source): &(Py<PyAny>, Option<SourceId>)| {
            let value = value.bind(self.py);
            source.or_else(|| self.source_of(value)).or_else(|| self.input_source(value)) == Some(written.stored)
        };
        is_place && written.value.as_ref().is_some_and(was_there) && writes.iter().filter(same).count() == 1
    }

    /// Returns true if a value was put into the `__dict__` of an object whose class has a data descriptor under that name. The descriptor
    /// must not run again.
    fn is_past_setter(&self, written: &Written) -> Outcome<bool> {
        let owner = written.owner.bind(self.py);
        Ok(written.storage != owner.as_ptr() as usize && setter(&owner.get_type(), &written.name)?.is_some())
    }
}

impl<'py> Heap<'py> {
    /// Notes a write to an existing object, which itself is not touched: the call performs the write after its graph has run.
    pub(crate) fn write_attr(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        value: Option<&Tracked<'py>>,
    ) -> Outcome<()> {
        let key = text(name)?;
        if !self.stores_plainly(owner)? || owner.is_instance_of::<PyModule>() && is_dunder(&key) {
            return self.refuse_write(source, &key, "");
        }
        for entry in [intern!(self.py, "__getattribute__"), intern!(self.py, "__setattr__"), intern!(self.py, "__delattr__"), name] {
            self.pin_class_entry(owner, source, entry)?;
        }
        let slot = match setter(&owner.get_type(), &key)? {
            Some(descriptor) if value.is_some() && is_slot(&descriptor)? => true,
            Some(descriptor) if sets_in_python(&descriptor, value.is_some())? => {
                // The descriptor's code is interpreted, and its writes are noted. The owner's class has already run its own `__setattr__`.
                let class = owner.get_type();
                self.pin_descriptor(&class, &descriptor, self.guards.type_attr(self.class_source(owner, source)?, &key))?;
                let slot = if value.is_some() { "__set__" } else { "__delete__" };
                let Some(slot) = lookup(&descriptor.get_type(), slot)? else { return self.refuse_write(source, &key, "") };
                let set = match value {
                    Some(value) => {
                        self.guard_value(value)?;
                        slot.call1((&descriptor, owner, &value.object))
                    }
                    None => slot.call1((&descriptor, owner)),
                };
                return self.returned(set).map(|_| ());
            }
            Some(_) => return self.refuse_write(source, &key, ""),
            None => false,
        };
        self.note_write(owner, source, name, value, slot)
    }

    /// `owner.__dict__[name] = value`, or `del owner.__dict__[name]`, of an existing object.
    pub(crate) fn write_in_dict(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        value: Option<&Tracked<'py>>,
    ) -> Outcome<()> {
        let key = text(name)?;
        let decides = owner.is_instance_of::<PyModule>() && is_dunder(&key);
        let is_slot = setter(&owner.get_type(), &key)?.map_or(Ok(false), |found| is_slot(&found))?;
        if value.is_none() || decides || is_slot || !self.stores_plainly(owner)? {
            return self.refuse_write(source, &key, "");
        }
        for entry in [intern!(self.py, "__getattribute__"), name] {
            self.pin_class_entry(owner, source, entry)?;
        }
        self.note_write(owner, source, name, value, false)
    }

    /// Guards that no written place was also read through another source: as the dict of another object, or as that dict itself.
    fn tell_written_apart(&self, writes: &[Rc<Written>]) -> Outcome<()> {
        let is_module = |object: &Bound<'py, PyAny>| self.torch.is_module(object);
        self.tell_containers_apart(writes);
        self.tell_tensors_apart(writes);
        for written in writes {
            let of_tensor = self.torch.is_tensor(written.owner.bind(self.py));
            if of_tensor || matches!(written.kind, WrittenKind::Call | WrittenKind::Contents) {
                continue;
            }
            if kind::is_cell(written.owner.bind(self.py)) {
                self.tell_cells_apart(written);
                continue;
            }
            if written.kind == WrittenKind::Context {
                self.tell_variables_apart(written);
                continue;
            }
            let (owner, of_module) = (written.owner.bind(self.py), is_module(written.owner.bind(self.py)));
            let dict = |source: SourceId| self.guards.source(Source::GetAttr(source, "__dict__".into()));
            // There are many modules, and they do not share what they store.
            let others = self.existing_where(|object, source| {
                let alike = if of_module { object.get_type().is(owner.get_type()) } else { !is_module(object) };
                source != written.source && alike && instance_dict(object).is_some() && !is_named(object)
            });
            let dicts = self.existing_where(|object, source| match self.guards.get(source) {
                Source::GetAttr(_, name) if &*name == "__dict__" => false,
                Source::Attr(owner, _) if self.existing_at(owner).is_some_and(|owner| is_module(&owner)) => false,
                _ => object.is_exact_instance_of::<PyDict>(),
            });
            let shares = |source: &SourceId| {
                let other = self.existing_at(*source);
                other.is_some_and(|other| {
                    let dict = instance_dict(&other).map_or(0, |dict| dict.as_ptr() as usize);
                    [dict, other.as_ptr() as usize].contains(&written.storage)
                })
            };
            if let Some(other) = others.iter().chain(&dicts).find(|source| shares(source)) {
                let message = format!(" which {} shares", self.guards.expression(*other));
                return self.refuse_place(written.stored, &message).map_err(|halt| at(halt, &written.location));
            }
            if others.is_empty() && dicts.is_empty() {
                continue;
            }
            let place = if instance_dict(owner).is_some() { dict(written.source) } else { written.source };
            for other in others.into_iter().map(dict).chain(dicts) {
                self.guards.relate(Relation::Distinct(vec![place.min(other), place.max(other)]));
            }
        }
        Ok(())
    }
}

impl<'py> Recipes<'py> {
    /// Returns the writes to existing objects as steps after the graph.
    pub fn effect_steps(&self, outputs: &mut Outputs<'py>) -> Outcome<Vec<AfterGraph>> {
        let writes = self.writes.all();
        let mut steps = Vec::with_capacity(writes.len() + 1);
        for written in &writes {
            if self.leaves_nothing(written, &writes) {
                continue;
            }
            let stored = written.stored;
            if let Some((value, _)) = &written.value
                && let Some(was) = self.guards.equal_to(stored)
                && self.has_changed(stored, &was)
                && !was.object().bind(self.py).is(value)
            {
                let message = format!("writes {}, whose value Python needs", self.guards.expression(stored));
                return Err(at(Halt::Break(GraphBreak { reason: reason::SIDE_EFFECT, message, location: Vec::new() }), &written.location));
            }
            self.guards.written(written.source);
            if matches!(written.kind, WrittenKind::Call | WrittenKind::Contents) {
                steps.extend(self.change_steps(written, outputs).map_err(|halt| at(halt, &written.location))?);
                continue;
            }
            if written.kind == WrittenKind::Context {
                steps.extend(self.context_step(written, outputs).map_err(|halt| at(halt, &written.location))?);
                continue;
            }
            let owner = Recipe::Input(self.guards.collect(written.source));
            let past_class = written.kind == WrittenKind::Attribute && self.is_past_setter(written)?;
            let name = PyString::intern(self.py, &written.name).unbind();
            let value = written.tracked(self.py).map(|value| self.recipe(&value, outputs)).transpose();
            steps.push(match (written.kind, value.map_err(|halt| at(halt, &written.location))?) {
                (WrittenKind::Global, Some(value)) => AfterGraph::StoreGlobal { globals: owner, name, value },
                (WrittenKind::Attribute, Some(value)) if past_class => {
                    let dict = self.guards.source(Source::GetAttr(written.source, "__dict__".into()));
                    AfterGraph::StoreGlobal { globals: Recipe::Input(self.guards.collect(dict)), name, value }
                }
                (WrittenKind::Global, None) => AfterGraph::DeleteGlobal { globals: owner, name },
                (_, Some(value)) => AfterGraph::StoreAttribute { owner, name, value },
                (_, None) => AfterGraph::DeleteAttribute { owner, name },
            });
        }
        self.tell_written_apart(&writes)?;
        Ok(steps)
    }
}

/// Returns the attribute of a class that decides what happens to writes under its name, with or without a `__get__`.
fn setter<'py>(class: &Bound<'py, PyType>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(found) = lookup(class, name)? else { return Ok(None) };
    let kind = found.get_type();
    let sets = lookup(&kind, "__set__")?.is_some() || lookup(&kind, "__delete__")?.is_some();
    Ok(sets.then_some(found))
}

/// Returns true if a data descriptor was created by `__slots__`. Those of C classes may be read-only.
fn is_slot(descriptor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let of_class = || Ok(descriptor.getattr("__objclass__")?.cast_into::<PyType>().is_ok_and(|class| is_changeable(&class)));
    if kind::is_member_descriptor(descriptor) { of_class() } else { Ok(false) }
}

/// Returns true if setting (`sets`) or deleting the attribute of a data descriptor calls Python code and nothing else.
fn sets_in_python(descriptor: &Bound<'_, PyAny>, sets: bool) -> PyResult<bool> {
    if kind::is_property(descriptor) {
        return Ok(descriptor.getattr(if sets { "fset" } else { "fdel" })?.is_exact_instance_of::<PyFunction>());
    }
    let slot = lookup(&descriptor.get_type(), if sets { "__set__" } else { "__delete__" })?;
    Ok(slot.is_some_and(|slot| slot.is_exact_instance_of::<PyFunction>()))
}

/// Returns true if a context variable is set again later: only its latest value is visible to others.
fn is_set_later(written: &Written, writes: &[Rc<Written>]) -> bool {
    let latest = |other: &&Rc<Written>| other.kind == WrittenKind::Context && other.storage == written.storage;
    written.kind == WrittenKind::Context
        && writes.iter().rev().find(latest).is_some_and(|latest| !std::ptr::eq(&raw const **latest, written))
}

/// Returns the same halt, located at these lines.
fn at(halt: Halt, location: &[Line]) -> Halt {
    match halt {
        Halt::Break(found) => Halt::Break(GraphBreak { location: location.to_vec(), ..found }),
        raised @ Halt::Raise(_) => raised,
    }
}
