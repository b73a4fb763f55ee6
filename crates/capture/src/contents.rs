//! Existing objects that C code looks into, and that are not Python's own containers.
//!
//! What Python code reads of an object is interpreted, and guarded there. What C code reads is not seen: the number in an
//! instance of a subclass of `float`, the items of a named tuple. So all it may find is guarded beforehand.

use dynamlir_guards::{Constant, Source};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyFloat, PyFunction, PyInt, PyList, PyModule, PyString, PyTuple, PyType},
};

use dynamlir_guards::SourceId;

use crate::{
    attributes::lookup,
    calls::receiver,
    graph_break::reason,
    identity::is_named,
    kinds::Kind,
    reduce::Layout,
    state::{Capture, Outcome, Tracked, type_name},
};

/// Types of C whose instances change, and that no guard looks into.
const MUTABLE: &[&str] =
    &["array", "bytearray", "deque", "dict_items", "dict_keys", "dict_values", "mappingproxy", "memoryview", "ndarray"];

impl<'py> Capture<'py> {
    /// Guards what C code may find in an existing object. Whether there are tensors, which it would see instead of fakes.
    pub(crate) fn guard_contents(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        // Where only Python code looks at attributes it sees what was written: C code of these classes looks at what they hold.
        let apart = || -> Outcome<bool> {
            let base = Layout::of(&object.get_type())?.base;
            let py = self.py;
            let plain = [py.get_type::<PyAny>(), py.get_type::<PyTuple>(), py.get_type::<PyList>(), py.get_type::<PyDict>()];
            Ok(plain.iter().any(|plain| base.is(plain)))
        };
        if self.is_written(object) && !apart()? {
            return self.break_graph(reason::SIDE_EFFECT, format!("looks into a {} after writing to it", type_name(object)));
        }
        if let Some(known) = self.existing.looked_into.borrow().get(&(object.as_ptr() as usize)) {
            return Ok(*known);
        }
        let deeper = self.deeper(object)?;
        let tensors = self.contents(object, source)?;
        drop(deeper);
        // Existing objects are kept alive, so the address stays theirs.
        self.existing.looked_into.borrow_mut().insert(object.as_ptr() as usize, tensors);
        Ok(tensors)
    }

    /// Guards an existing object as an element of a container that C code sees: what it is where it does not change (a class, a
    /// function, a number of a class of the user's), else its class.
    pub(crate) fn guard_element(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let is_value = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>() || object.is_instance_of::<PyString>();
        if is_named(object) || is_value || matches!(self.effects.kinds.of(object), Kind::Partial) {
            return self.guard_contents(object, source).map(|_| ());
        }
        if lookup(&object.get_type(), "__next__")?.is_some() {
            // Who looks uses it up.
            return self.break_graph(reason::UNGUARDABLE, format!("what is left of a {}", type_name(object)));
        }
        self.pin_type(object, source)
    }

    fn contents(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        if object.is_exact_instance_of::<PyFunction>() {
            return self.pin_function(&Tracked { object: object.clone(), source: Some(source) }).map(|()| false);
        }
        if object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>() {
            return self.pin(object, source).map(|()| false);
        }
        if let Some(shown) = self.viewed(object)? {
            return Ok(!self.readable(&shown)?.is(&shown.object));
        }
        self.pin_type(object, source)?;
        let class = object.get_type();
        if class.is_subclass(&self.py.import("enum")?.getattr("Enum")?)? {
            // A class has one member of a name.
            let name = object.getattr("_name_")?;
            self.guarded(self.guards.equals(self.guards.attr(source, "_name_"), &name))?;
            return Ok(false);
        }
        if matches!(self.effects.kinds.of(object), Kind::Partial) {
            let parts = ["func", "args", "keywords"]
                .map(|name| Ok((object.getattr(name)?, self.guards.source(Source::GetAttr(source, name.into())))));
            return self.all_items(parts.into_iter().collect::<PyResult<Vec<_>>>()?.into_iter());
        }
        let base = Layout::of(&class)?.base;
        if base.is(self.py.get_type::<PyAny>()) {
            return Ok(false);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            self.pin_class_entry(object, source, intern!(self.py, "__missing__"))?;
            self.refuse_unseen_defaults(object, source)?;
            self.guarded(self.guards.dict_keys(source, dict))?;
            let items: Vec<_> = dict.iter().collect();
            return self.all_items(items.into_iter().enumerate().map(|(at, (key, value))| {
                let from = self.guards.item(source, &key);
                (value, from.unwrap_or_else(|_| self.guards.source(Source::DictValue(source, at as u32))))
            }));
        }
        if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            let items = self.sequence(object)?;
            self.guards.length(source, items.len());
            return self
                .all_items(items.into_iter().enumerate().map(|(at, item)| (item, self.guards.source(Source::Index(source, at as u32)))));
        }
        if object.is_instance_of::<pyo3::types::PySet>() {
            if self.guarded(self.guards.set_order(source, object))? {
                return Ok(false);
            }
            return self.break_graph(reason::UNGUARDABLE, format!("a {}", type_name(object)));
        }
        let name = base.name()?.to_string();
        if MUTABLE.contains(&name.as_str()) {
            return self.break_graph(reason::UNGUARDABLE, format!("what is in a {}", type_name(object)));
        }
        if lookup(&class, "__next__")?.is_some() {
            // Who looks uses it up.
            return self.break_graph(reason::UNGUARDABLE, format!("what is left of a {}", type_name(object)));
        }
        if let Some(target) = receiver(object) {
            self.pin_native(object, source)?;
            return self.readable(&Tracked { source: self.source_of(&target), object: target }).map(|_| false);
        }
        if object.is_instance_of::<PyString>() && self.guards.identity(source, object).is_err() {
            return self.pin_text(object, source).map(|()| false);
        }
        // Numbers, text and everything else that does not change: the same object holds the same. Builtin functions, too.
        self.pin(object, source)?;
        Ok(false)
    }

    /// Guards the text of an instance of a class of text whose instances are not told apart, such as `torch.__version__`.
    fn pin_text(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let (class, plain) = (object.get_type(), self.py.get_type::<PyString>());
        for name in ["encode", "__getattribute__"] {
            let own = lookup(&class, name)?;
            if !own.zip(lookup(&plain, name)?).is_some_and(|(own, plain)| own.is(&plain)) {
                return self.pin(object, source);
            }
            self.pin_class_entry(object, source, &PyString::new(self.py, name))?;
        }
        let (encode, none) = (self.guards.source(Source::GetAttr(source, "encode".into())), PyTuple::empty(self.py));
        let Some(none) = self.guarded(Constant::new(none.as_any()).map_err(Into::into))? else { return self.pin(object, source) };
        let answer = self.guards.source(Source::Answer(encode, none));
        self.guarded(self.guards.equals(answer, &plain.call_method1("encode", (object,))?)).map(drop)
    }

    fn all_items(&self, items: impl Iterator<Item = (Bound<'py, PyAny>, SourceId)>) -> Outcome<bool> {
        let mut tensors = false;
        for (item, from) in items {
            let wrapped = self.wrap(item, from)?;
            self.guard_value(&wrapped)?;
            tensors |= self.torch.any_fake(&wrapped.object);
            if let Some(from) = self.source_of(&wrapped.object) {
                tensors |= if self.torch.is_container(&wrapped.object) {
                    !self.snapshot(&wrapped.object, from)?.is(&wrapped.object)
                } else {
                    self.guard_contents(&wrapped.object, from)?
                };
            }
        }
        Ok(tensors)
    }

    /// The items of an instance of a subclass of tuple or list, as C stores them.
    pub(crate) fn sequence(&self, object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let kind = if object.is_instance_of::<PyTuple>() { self.py.get_type::<PyTuple>() } else { self.py.get_type::<PyList>() };
        kind.getattr("__iter__")?.call1((object,))?.try_iter()?.collect()
    }

    /// An existing named tuple, or another subclass of tuple or list that iterates as these do, as a tuple with fakes.
    pub(crate) fn plain_items(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<Option<Bound<'py, PyTuple>>> {
        let subclass = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
        let python = lookup(&object.get_type(), "__iter__")?.is_some_and(|found| found.is_exact_instance_of::<PyFunction>());
        if !subclass || python {
            return Ok(None);
        }
        self.guard_contents(object, source)?;
        let items = self.sequence(object)?.into_iter().enumerate();
        let fakes = items.map(|(at, item)| Ok(self.wrap(item, self.guards.source(Source::Index(source, at as u32)))?.object));
        Ok(Some(PyTuple::new(self.py, fakes.collect::<Outcome<Vec<_>>>()?)?))
    }

    /// An existing instance of a subclass of dict as the dict of Python's own that it is for C, with fakes: what its class says of looks
    /// into it is for those who ask it.
    pub(crate) fn plain_dict(&self, object: &Bound<'py, PyDict>, source: SourceId) -> Outcome<Bound<'py, PyDict>> {
        self.guard_contents(object, source)?;
        let ordered = self.py.import("collections")?.getattr("OrderedDict")?.cast_into::<PyType>().map_err(PyErr::from)?;
        let base = if object.is_instance(&ordered)? { ordered } else { self.py.get_type::<PyDict>() };
        let plain = base.call0()?.cast_into::<PyDict>().map_err(PyErr::from)?;
        // An `OrderedDict` has an order of its own.
        for (at, key) in base.getattr("__iter__")?.call1((object,))?.try_iter()?.enumerate() {
            let key = key?;
            let Some(value) = object.get_item(&key)? else { continue };
            let from = self.guards.item(source, &key);
            let value = self.wrap(value, from.unwrap_or_else(|_| self.guards.source(Source::DictValue(source, at as u32))))?;
            plain.as_any().set_item(key, value.object)?;
        }
        Ok(plain)
    }
}
