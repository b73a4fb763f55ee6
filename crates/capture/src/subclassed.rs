//! Existing instances of subclasses of tuple, list and dict: named tuples, the outputs of models.
//!
//! Where a class leaves a look to the class of Python's own beneath it, that is guarded, and an item is read as that class reads it: one item
//! has its own place, and says nothing of the others. All that such an object holds is guarded where C code looks into it (`contents.rs`).

use dynamlir_cpython_abi::types;
use dynamlir_guards::SourceId;
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple, PyType},
};

use crate::{
    attributes::lookup,
    state::{Capture, Outcome, Tracked},
};

impl<'py> Capture<'py> {
    /// Returns true if items of an existing object are those of the list or tuple that it is: exactly one, or of a class that leaves the look
    /// for an item to these, which is guarded.
    pub(crate) fn has_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        let is_exact = object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>();
        Ok(is_exact || !object.is_instance_of::<PyDict>() && self.leaves_to_base(object, source, &["__getitem__"])?)
    }

    /// The number of items of an existing object, if that is for the class of Python's own beneath its class to say. It is guarded.
    pub(crate) fn count_of_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<usize>> {
        if !self.leaves_to_base(object, source, &["__len__"])? {
            return Ok(None);
        }
        let count = item_count(object)?;
        self.guards.length(source, count);
        Ok(Some(count))
    }

    /// The truth of an existing object, if it is true where it has items.
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

    /// The value that an existing instance of a subclass of dict has under text or a number; None where its class has a say, or where there is
    /// none.
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

    /// The keys of an existing instance of a subclass of dict, through which it goes; None where its class has a say.
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

    /// Returns true if the class of an existing object is one of a tuple, list or dict that leaves these to the class of Python's own; guards
    /// it.
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

    /// Guards how many items an instance of a subclass of tuple or list has, or which keys one of dict, and how it looks for others.
    pub(crate) fn guard_shape(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.pin_type(object, source)?;
        if let Ok(dict) = object.cast::<PyDict>() {
            self.pin_class_entry(object, source, intern!(self.py, "__missing__"))?;
            self.refuse_unseen_defaults(object, source)?;
            return self.guarded(self.guards.dict_keys(source, dict));
        }
        self.guards.length(source, item_count(object)?);
        Ok(())
    }

    /// The items of an instance of a subclass of tuple or list, as C stores them.
    pub(crate) fn sequence(&self, object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let kind = if object.is_instance_of::<PyTuple>() { self.py.get_type::<PyTuple>() } else { self.py.get_type::<PyList>() };
        kind.getattr("__iter__")?.call1((object,))?.try_iter()?.collect()
    }

    /// An existing named tuple, or another subclass of tuple or list that iterates as these do, as a tuple with fakes.
    pub(crate) fn plain_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyTuple>>> {
        if object.is_instance_of::<PyDict>() || !self.leaves_to_base(object, source, &["__iter__"])? {
            return Ok(None);
        }
        self.refuse_looks_after_writes(object)?;
        self.guard_shape(object, source)?;
        let items = self.items_at(object, source)?.into_iter().map(|(item, at)| self.handed_out(item, at));
        Ok(Some(PyTuple::new(self.py, items.collect::<Outcome<Vec<_>>>()?)?))
    }

    /// An item of an existing object as it is put into a copy, from which it is handed out: what stands for it, or itself, guarded.
    fn handed_out(&self, item: Bound<'py, PyAny>, source: SourceId) -> Outcome<Bound<'py, PyAny>> {
        let item = self.wrap(item, source)?;
        self.guard_value(&item)?;
        Ok(item.object)
    }

    /// An existing instance of a subclass of dict as the dict of Python's own that it is for C, with fakes: what its class says of looks
    /// into it is for those who ask it.
    pub(crate) fn plain_dict(&self, object: &Bound<'py, PyDict>, source: SourceId) -> Outcome<Bound<'py, PyDict>> {
        self.refuse_looks_after_writes(object)?;
        self.guard_shape(object, source)?;
        let ordered =
            dynamlir_cpython_abi::import(self.py, "collections")?.getattr("OrderedDict")?.cast_into::<PyType>().map_err(PyErr::from)?;
        let base = if object.is_instance(&ordered)? { ordered } else { self.py.get_type::<PyDict>() };
        let plain = base.call0()?.cast_into::<PyDict>().map_err(PyErr::from)?;
        // An `OrderedDict` has an order of its own.
        for (at, key) in base.getattr("__iter__")?.call1((object,))?.try_iter()?.enumerate() {
            let key = key?;
            let Some(value) = object.get_item(&key)? else { continue };
            let at = self.value_at(source, &key, at);
            plain.as_any().set_item(key, self.handed_out(value, at)?)?;
        }
        Ok(plain)
    }

    /// The item of a named tuple that a descriptor in its class stands for, by its position; None for another descriptor.
    pub(crate) fn field_of(&self, owner: &Bound<'py, PyAny>, descriptor: &Bound<'py, PyAny>) -> Outcome<Option<usize>> {
        let Some(position) = self.field_position(descriptor)?.filter(|_| owner.is_instance_of::<PyTuple>()) else { return Ok(None) };
        Ok(Some(position).filter(|position| item_count(owner).is_ok_and(|count| *position < count)))
    }

    /// For which item of a named tuple a descriptor stands; None for another descriptor.
    fn field_position(&self, descriptor: &Bound<'py, PyAny>) -> Outcome<Option<usize>> {
        if !descriptor.get_type().is(dynamlir_cpython_abi::import(self.py, "_collections")?.getattr("_tuplegetter")?) {
            return Ok(None);
        }
        // It does not change, and pickling says what it is made of.
        let made_of = dynamlir_interpreter::suspended(|| descriptor.call_method0("__reduce__"))?.get_item(1)?;
        Ok(Some(made_of.get_item(0)?.extract::<usize>()?))
    }
}

/// How many items a tuple, list or dict has for C, whatever its class says.
pub(crate) fn item_count(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok(tuple.len());
    }
    match object.cast::<PyList>() {
        Ok(list) => Ok(list.len()),
        Err(_) => Ok(object.cast::<PyDict>()?.len()),
    }
}
