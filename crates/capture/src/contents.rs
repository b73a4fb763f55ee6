//! Existing objects that C code looks into, and that are not Python's own containers.
//!
//! What Python code reads of an object is interpreted, and guarded there. What C code reads is not seen: the number in an
//! instance of a subclass of `float`, the items of a named tuple. So all it may find is guarded beforehand.

use dynamlir_guards::{Constant, Facet, Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyDict, PyFloat, PyFunction, PyInt, PyList, PyModule, PyString, PyTuple, PyType},
};

use crate::{
    attributes::lookup,
    calls::receiver,
    graph_break::reason,
    identity::is_named,
    kinds::Kind,
    places::Want,
    reduce::Layout,
    state::{Capture, Outcome, Tracked, type_name},
};

/// Types of C whose instances change, and that no guard looks into.
const MUTABLE: &[&str] =
    &["array", "bytearray", "deque", "dict_items", "dict_keys", "dict_values", "mappingproxy", "memoryview", "ndarray"];

impl<'py> Capture<'py> {
    /// Guards what C code may find in an existing object. Whether there are tensors, which it would see instead of fakes.
    pub(crate) fn guard_contents(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        self.refuse_looks_after_writes(object)?;
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

    /// As [`Self::guard_contents`], where C code is given the object.
    pub(crate) fn all_contents(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        self.guards.demand(source, Facet::Contents);
        self.guard_contents(object, source)
    }

    /// Ends the capture where C code would look into an object that the frame has written to.
    pub(crate) fn refuse_looks_after_writes(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
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
        self.note_looks_within([object]);
        Ok(())
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
        if self.effects.kinds.is_placeholder(object) {
            // The only object of its class.
            return Ok(false);
        }
        let class = object.get_type();
        if class.is_subclass(&dynamlir_cpython_abi::import(self.py, "enum")?.getattr("Enum")?)? {
            // A class has one member of a name.
            let name = object.getattr("_name_")?;
            self.guarded(self.guards.equals(self.guards.attr(source, "_name_"), &name))?;
            return Ok(false);
        }
        if matches!(self.effects.kinds.of(object), Kind::Partial) {
            let parts = ["func", "args", "keywords"]
                .map(|name| Ok((object.getattr(name)?, self.guards.source(Source::GetAttr(source, name.into())))));
            return self.all_items(&parts.into_iter().collect::<PyResult<Vec<_>>>()?);
        }
        let base = Layout::of(&class)?.base;
        if base.is(self.py.get_type::<PyAny>()) {
            return Ok(false);
        }
        if object.is_instance_of::<PyDict>() || object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            self.guard_shape(object, source)?;
            return self.all_items(&self.items_at(object, source)?);
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
            return self.pin_by_answer(object, source, &self.py.get_type::<PyString>(), "encode").map(|()| false);
        }
        let numbers = [(self.py.get_type::<PyInt>(), "__index__"), (self.py.get_type::<PyFloat>(), "__float__")];
        if let Some((plain, method)) = numbers.iter().find(|(plain, _)| base.is(plain)) {
            return self.pin_by_answer(object, source, plain, method).map(|()| false);
        }
        // Numbers, text and everything else that does not change: the same object holds the same. Builtin functions, too.
        self.pin(object, source)?;
        Ok(false)
    }

    /// Guards the value of an instance of a class of text or numbers, such as `torch.__version__`, by what a method of the plain class says of it.
    fn pin_by_answer(&self, object: &Bound<'py, PyAny>, source: SourceId, plain: &Bound<'py, PyType>, method: &str) -> Outcome<()> {
        let class = object.get_type();
        for name in [method, "__getattribute__"] {
            let own = lookup(&class, name)?;
            if !own.zip(lookup(plain, name)?).is_some_and(|(own, plain)| own.is(&plain)) {
                return self.pin(object, source);
            }
            self.pin_class_entry(object, source, &PyString::new(self.py, name))?;
        }
        let (asked, none) = (self.guards.source(Source::GetAttr(source, method.into())), PyTuple::empty(self.py));
        let Some(none) = self.guarded(Constant::new(none.as_any()).map_err(Into::into))? else { return self.pin(object, source) };
        let answer = self.guards.source(Source::Answer(asked, none));
        self.guarded(self.guards.equals(answer, &plain.call_method1(method, (object,))?)).map(drop)
    }

    /// Guards that items which C code looks at are what they are. Whether there are tensors among them or in them.
    fn all_items(&self, items: &[(Bound<'py, PyAny>, SourceId)]) -> Outcome<bool> {
        self.insist_all(items)?;
        let mut tensors = false;
        for (item, from) in items {
            let taken = self.take(item.clone(), *from, Want::Exact)?;
            tensors |= self.torch.any_fake(&taken.object);
            if let Some(from) = self.source_of(&taken.object) {
                tensors |= if self.torch.is_container(&taken.object) {
                    self.take_contents(&taken.object, from)?;
                    !self.snapshot(&taken.object, from)?.is(&taken.object)
                } else {
                    self.guard_contents(&taken.object, from)?
                };
            }
        }
        Ok(tensors)
    }
}
