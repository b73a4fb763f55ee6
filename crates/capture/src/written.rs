//! Writes to existing objects. They are noted, and what reads the attributes consults the notes; the call does them once its graph
//! has run, in the order of the program.

use dynamlir_cpython_abi::kind;
use dynamlir_frame::{AfterGraph, Recipe};
use dynamlir_graph::Line;
use dynamlir_guards::{Relation, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyFunction, PyModule, PyString, PyType},
};

use crate::{
    attributes::{ClassAttr, classify, instance_dict, lookup, text},
    graph_break::{GraphBreak, reason},
    outputs::Outputs,
    state::{Capture, Halt, Outcome, Tracked, Written, type_name},
};

/// What the frame did to an attribute of an existing object.
pub(crate) enum Overlay<'py> {
    Untouched,
    Deleted,
    Set(Tracked<'py>),
}

impl<'py> Capture<'py> {
    /// Notes a write to an existing object, which itself is not touched: the call does it once its graph has run.
    pub(crate) fn write_attr(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        value: Option<&Tracked<'py>>,
    ) -> Outcome<()> {
        let key = text(name)?;
        if !self.stores_plainly(owner)? {
            return self.refuse_write(source, &key, "");
        }
        for entry in [intern!(self.py, "__getattribute__"), intern!(self.py, "__setattr__"), intern!(self.py, "__delattr__"), name] {
            self.pin_class_entry(owner, source, entry)?;
        }
        let slot = match classify(&owner.get_type(), &key)? {
            ClassAttr::Data(descriptor) if kind::is_member_descriptor(&descriptor) && value.is_some() => true,
            ClassAttr::Data(descriptor) if sets_in_python(&descriptor, value.is_some())? => {
                // Its code is interpreted; what that writes is noted.
                let set = match value {
                    Some(value) => {
                        self.guard_value(value)?;
                        owner.setattr(name, &value.object)
                    }
                    None => owner.delattr(name),
                };
                return self.returned(set.map(|()| self.py.None().into_bound(self.py))).map(|_| ());
            }
            ClassAttr::Data(_) => return self.refuse_write(source, &key, ""),
            _ => false,
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
        if value.is_none() || !self.stores_plainly(owner)? || matches!(classify(&owner.get_type(), &key)?, ClassAttr::Data(_)) {
            return self.refuse_write(source, &key, "");
        }
        for entry in [intern!(self.py, "__getattribute__"), name] {
            self.pin_class_entry(owner, source, entry)?;
        }
        self.note_write(owner, source, name, value, false)
    }

    fn refuse_write<T>(&self, owner: SourceId, key: &str, why: &str) -> Outcome<T> {
        self.break_graph(reason::SIDE_EFFECT, format!("writes {}.{key}{why}", self.guards.expression(owner)))
    }

    /// Notes a write to what an object stores: in a slot, or in its dict.
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
        if dict.as_ref().is_some_and(|dict| self.existing.snapshots.borrow().contains(&(dict.as_ptr() as usize))) {
            return self.refuse_write(source, &key, " after looking at all that it holds");
        }
        if value.is_none() {
            let stored = self.guards.attr(source, &key);
            if !self.is_stored(owner, dict.as_ref(), name)? {
                // It raises, in words of its own.
                let raised = self.py.get_type::<PyAny>().call_method1("__delattr__", (owner, name));
                self.guards.absent(stored);
                return self.returned(raised).map(|_| ());
            }
            self.guards.present(stored);
        }
        if !slot
            && let Some(value) = value.filter(|value| value.source.is_none() && self.torch.is_primitive(&value.object))
            && matches!(self.written_attr(owner, &key), Overlay::Untouched)
            && dict.as_ref().map(|dict| dict.get_item(name)).transpose()?.flatten().is_some_and(|now| now.is(&value.object))
            && self.guarded(self.guards.equals(self.guards.attr(source, &key), &value.object))?
        {
            // It is there already.
            return Ok(());
        }
        let value = value.map(|value| (value.object.clone().unbind(), value.source));
        self.writes.push(Written { owner: owner.clone().unbind(), source, name: key, value, location: self.location() });
        Ok(())
    }

    /// Whether attributes of an existing object are stored in its dict, and looked up there: what reads them consults what was written.
    fn stores_plainly(&self, owner: &Bound<'py, PyAny>) -> Outcome<bool> {
        if owner.is_instance_of::<PyModule>() || owner.is_instance_of::<PyType>() || owner.is_instance_of::<PyFunction>() {
            return Ok(false);
        }
        let generic = self.py.get_type::<PyAny>();
        for slot in ["__getattribute__", "__setattr__", "__delattr__"] {
            let (own, general) = (lookup(&owner.get_type(), slot)?, lookup(&generic, slot)?);
            // Python code that has come here has had its say.
            if !own.zip(general).is_some_and(|(own, general)| own.is(&general) || own.is_exact_instance_of::<PyFunction>()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an existing object holds something under a name, as far as the frame knows.
    fn is_stored(&self, owner: &Bound<'py, PyAny>, dict: Option<&Bound<'py, PyDict>>, name: &Bound<'py, PyString>) -> Outcome<bool> {
        match self.written_attr(owner, name.to_str()?) {
            Overlay::Untouched => Ok(dict.is_some_and(|dict| dict.contains(name).unwrap_or(false))),
            Overlay::Deleted => Ok(false),
            Overlay::Set(_) => Ok(true),
        }
    }

    /// Whether the frame has written to an existing object, which itself is not touched.
    pub(crate) fn is_written(&self, owner: &Bound<'py, PyAny>) -> bool {
        self.writes.find_map(|entry| entry.owner.is(owner).then_some(())).is_some()
    }

    /// The existing object that the frame has written to and whose `__dict__` this is.
    pub(crate) fn written_in(&self, dict: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let owns = |owner: &Bound<'py, PyAny>| instance_dict(owner).is_some_and(|own| own.is(dict));
        self.writes.find_map(|entry| Some(entry.owner.bind(self.py)).filter(|owner| owns(owner)).cloned())
    }

    /// Ends the capture where C code would look into a `__dict__` without what the frame has written.
    pub(crate) fn refuse_written(&self, dict: &Bound<'py, PyAny>) -> Outcome<()> {
        match self.written_in(dict) {
            Some(owner) => self.break_graph(reason::SIDE_EFFECT, format!("reads all of a {} after writing to it", type_name(&owner))),
            None => Ok(()),
        }
    }

    /// What the frame has written to an attribute of an existing object, if it has.
    pub(crate) fn written_attr(&self, owner: &Bound<'py, PyAny>, key: &str) -> Overlay<'py> {
        let Some(value) = self.writes.find(owner, key, |entry| entry.tracked(self.py)) else { return Overlay::Untouched };
        // It may be something of the frame's own, which can change.
        self.layers.note_unrepeatable();
        value.map_or(Overlay::Deleted, Overlay::Set)
    }

    /// What was written to existing objects, as steps after the graph.
    pub fn replayed(&self, outputs: &mut Outputs<'py>) -> Outcome<Vec<AfterGraph>> {
        let writes = self.writes.all(self.py);
        let mut steps = Vec::with_capacity(writes.len() + 1);
        for written in &writes {
            let stored = self.guards.attr(written.source, &written.name);
            let same = |other: &&Written| other.owner.is(&written.owner) && other.name == written.name;
            if written.value.as_ref().is_some_and(|(_, source)| *source == Some(stored)) && writes.iter().filter(same).count() == 1 {
                // Set back to what it was, whatever that is.
                continue;
            }
            self.guards.written(written.source);
            let owner = Recipe::Input(self.guards.collect(written.source));
            let name = PyString::intern(self.py, &written.name).unbind();
            steps.push(match written.tracked(self.py) {
                Some(value) => {
                    let value = self.recipe(&value, outputs).map_err(|halt| at(halt, &written.location))?;
                    AfterGraph::StoreAttribute { owner, name, value }
                }
                None => AfterGraph::DeleteAttribute { owner, name },
            });
        }
        self.tell_written_apart(&writes)?;
        Ok(steps)
    }

    /// Guards that what was written is not another existing object of its class, whose attributes may have been read.
    fn tell_written_apart(&self, writes: &[Written]) -> Outcome<()> {
        let mut classes: Vec<Bound<'py, PyType>> = Vec::new();
        for written in writes {
            let class = written.owner.bind(self.py).get_type();
            if !classes.iter().any(|known| known.is(&class)) {
                classes.push(class);
            }
        }
        for class in classes {
            let mut sources = self.existing_of(&class);
            sources.sort_unstable();
            if sources.len() > 1 {
                self.guards.relate(Relation::Distinct(sources));
            }
        }
        Ok(())
    }
}

/// Whether setting, or else deleting, what a data descriptor stands for calls Python code and nothing else.
fn sets_in_python(descriptor: &Bound<'_, PyAny>, sets: bool) -> PyResult<bool> {
    if kind::is_property(descriptor) {
        return Ok(descriptor.getattr(if sets { "fset" } else { "fdel" })?.is_exact_instance_of::<PyFunction>());
    }
    let slot = lookup(&descriptor.get_type(), if sets { "__set__" } else { "__delete__" })?;
    Ok(slot.is_some_and(|slot| slot.is_exact_instance_of::<PyFunction>()))
}

/// The same end of a capture, at these lines.
fn at(halt: Halt, location: &[Line]) -> Halt {
    match halt {
        Halt::Break(found) => Halt::Break(GraphBreak { location: location.to_vec(), ..found }),
        raised @ Halt::Raise(_) => raised,
    }
}
