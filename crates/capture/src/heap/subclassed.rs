//! Existing instances of subclasses of tuple, list and dict: named tuples, the outputs of models.
//!
//! If a class inherits a lookup from its builtin base class, this is guarded, and an item is read as the base class reads it: one item has
//! its own source, and implies nothing about the others. The whole contents of such an object are guarded where C code inspects it
//! (`native_contents.rs`).

use dynamlir_cpython_abi::types;
use dynamlir_guards::SourceId;
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Heap, Numbers},
    graph_break::Outcome,
    objects::{Tracked, lookup::lookup},
};

impl<'py> Heap<'py> {
    /// Returns true if the items of an existing object are those of its list or tuple: it is exactly one of these, or its class inherits
    /// the item lookup, which is guarded.
    pub(crate) fn has_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        let is_exact = object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>();
        Ok(is_exact || !object.is_instance_of::<PyDict>() && self.leaves_to_base(object, source, &["__getitem__"])?)
    }

    /// Returns the number of items of an existing object, if its class inherits the length from its builtin base class. The number is
    /// guarded.
    pub(crate) fn count_of_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<usize>> {
        if !self.leaves_to_base(object, source, &["__len__"])? {
            return Ok(None);
        }
        let count = item_count(object)?;
        self.guards.length(source, count);
        Ok(Some(count))
    }

    /// Returns the truth value of an existing object, if it is true exactly when it has items.
    pub(crate) fn truth_by_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<bool>> {
        if lookup(&object.get_type(), "__bool__")?.is_some() {
            return Ok(None);
        }
        let count = self.count_of_items(object, source)?;
        if count.is_some() {
            self.pin_class_entry(object, source, intern!(self.py, "__bool__"))?;
        }
        Ok(count.map(|count| count > 0))
    }

    /// Returns the value that an existing instance of a subclass of dict has under text or a number; `None` if its class overrides the
    /// lookup, or if the key is missing.
    pub(crate) fn item_of_subclass(
        &self,
        object: &Bound<'py, PyAny>,
        source: SourceId,
        key: &Bound<'py, PyAny>,
    ) -> Outcome<Option<Tracked<'py>>> {
        let Ok(dict) = object.cast::<PyDict>() else { return Ok(None) };
        if !self.torch.is_primitive(key) || !self.leaves_to_base(object, source, &["__getitem__"])? {
            return Ok(None);
        }
        self.refuse_looks_after_writes(object)?;
        let (Some(value), Ok(at)) = (dict.get_item(key)?, self.guards.item(source, key)) else { return Ok(None) };
        self.wrap(value, at).map(Some)
    }

    /// Returns an iterator over the keys of an existing instance of a subclass of dict; `None` if its class overrides the iteration.
    pub(crate) fn keys_of_subclass(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Tracked<'py>>> {
        let Ok(dict) = object.cast::<PyDict>() else { return Ok(None) };
        if !self.leaves_to_base(object, source, &["__iter__"])? {
            return Ok(None);
        }
        self.guarded(self.guards.dict_keys(source, dict))?;
        let iterator = object.try_iter()?.into_any();
        self.note_new(&iterator);
        Ok(Some(Tracked::new(iterator)))
    }

    /// Returns true if the class of an existing object derives from tuple, list or dict and inherits these methods from it, which is
    /// guarded.
    fn leaves_to_base(&self, object: &Bound<'py, PyAny>, source: SourceId, names: &[&str]) -> Outcome<bool> {
        let py = self.py;
        let bases = [py.get_type::<PyTuple>(), py.get_type::<PyList>(), py.get_type::<PyDict>()];
        let class = object.get_type();
        let mro = types::mro(&class)?;
        let Some(mut base) = bases.into_iter().find(|base| mro.iter().any(|known| known.is(base))) else { return Ok(false) };
        let ordered =
            dynamlir_cpython_abi::import(py, "collections")?.getattr("OrderedDict")?.cast_into::<PyType>().map_err(PyErr::from)?;
        if mro.iter().any(|known| known.is(&ordered)) {
            base = ordered;
        }
        for name in names {
            if !lookup(&class, name)?.zip(lookup(&base, name)?).is_some_and(|(own, known)| own.is(&known)) {
                return Ok(false);
            }
        }
        self.pin_type(object, source)?;
        for name in names {
            self.pin_class_entry(object, source, &PyString::intern(py, name))?;
        }
        Ok(true)
    }

    /// Guards the number of items of an instance of a subclass of tuple or list, or the keys of one of dict and its handling of missing
    /// keys.
    pub(super) fn guard_shape(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.pin_type(object, source)?;
        if let Ok(dict) = object.cast::<PyDict>() {
            self.pin_class_entry(object, source, intern!(self.py, "__missing__"))?;
            self.refuse_unseen_defaults(object, source)?;
            return self.guarded(self.guards.dict_keys(source, dict));
        }
        self.guards.length(source, item_count(object)?);
        Ok(())
    }

    /// Returns an existing named tuple, or another instance of a subclass of tuple or list that inherits the iteration, as a tuple with
    /// fakes.
    pub(crate) fn plain_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyTuple>>> {
        if object.is_instance_of::<PyDict>() || !self.leaves_to_base(object, source, &["__iter__"])? {
            return Ok(None);
        }
        self.refuse_looks_after_writes(object)?;
        self.guard_shape(object, source)?;
        let items = self.items_at(object, source)?.into_iter().map(|(item, at)| self.handed_out(item, at));
        Ok(Some(PyTuple::new(self.py, items.collect::<Outcome<Vec<_>>>()?)?))
    }

    /// Returns an item of an existing object in the form stored in a copy, from which it will be read: its stand-in, or the guarded item
    /// itself.
    fn handed_out(&self, item: Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        let item = self.wrap(item, source)?;
        self.guard_value(&item)?;
        Ok(item.object)
    }

    /// Returns an existing instance of a subclass of dict as the plain dict that C code sees, with fakes. Lookups that its class overrides
    /// are handled where they are called.
    pub(crate) fn plain_dict(&self, object: &Bound<'py, PyDict>, source: SourceId) -> Outcome<Bound<'py, PyDict>> {
        self.refuse_looks_after_writes(object)?;
        self.guard_shape(object, source)?;
        let ordered =
            dynamlir_cpython_abi::import(self.py, "collections")?.getattr("OrderedDict")?.cast_into::<PyType>().map_err(PyErr::from)?;
        let base = if object.is_instance(&ordered)? { ordered } else { self.py.get_type::<PyDict>() };
        let plain = base.call0()?.cast_into::<PyDict>().map_err(PyErr::from)?;
        // An `OrderedDict` has its own order.
        for (at, key) in base.getattr("__iter__")?.call1((object,))?.try_iter()?.enumerate() {
            let key = key?;
            let Some(value) = object.get_item(&key)? else { continue };
            let at = self.value_at(source, &key, at);
            plain.as_any().set_item(key, self.handed_out(value, at)?)?;
        }
        Ok(plain)
    }

    /// Returns the position of the named tuple's item that a descriptor in its class represents; `None` for another descriptor.
    pub(super) fn field_of(&self, owner: &Bound<'py, PyAny>, descriptor: &Bound<'py, PyAny>) -> Outcome<Option<usize>> {
        let Some(position) = self.field_position(descriptor)?.filter(|_| owner.is_instance_of::<PyTuple>()) else { return Ok(None) };
        Ok(Some(position).filter(|position| item_count(owner).is_ok_and(|count| *position < count)))
    }

    /// Returns the position that a descriptor of a named tuple represents; `None` for another descriptor.
    fn field_position(&self, descriptor: &Bound<'py, PyAny>) -> Outcome<Option<usize>> {
        if !descriptor.get_type().is(dynamlir_cpython_abi::import(self.py, "_collections")?.getattr("_tuplegetter")?) {
            return Ok(None);
        }
        // It is immutable, and pickling reveals its parts.
        let made_of = dynamlir_interpreter::suspended(|| descriptor.call_method0("__reduce__"))?.get_item(1)?;
        Ok(Some(made_of.get_item(0)?.extract::<usize>()?))
    }
}

impl<'py> Numbers<'py> {
    /// Returns the items of an instance of a subclass of tuple or list, as C stores them.
    pub(crate) fn sequence(&self, object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let kind = if object.is_instance_of::<PyTuple>() { self.py.get_type::<PyTuple>() } else { self.py.get_type::<PyList>() };
        kind.getattr("__iter__")?.call1((object,))?.try_iter()?.collect()
    }
}

/// Returns the number of items that a tuple, list or dict has for C code, regardless of its class.
pub(crate) fn item_count(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok(tuple.len());
    }
    match object.cast::<PyList>() {
        Ok(list) => Ok(list.len()),
        Err(_) => Ok(object.cast::<PyDict>()?.len()),
    }
}
