//! Existing objects that C code inspects and that are not Python's own containers.
//!
//! Reads of an object by Python code are interpreted, and guarded where they happen. Reads by C code are not visible: the number in an
//! instance of a subclass of `float`, the items of a named tuple. So everything that C code may find there is guarded beforehand.

use dynamlir_guards::{Constant, Facet, Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyDict, PyFloat, PyFunction, PyInt, PyList, PyModule, PyString, PyTuple, PyType},
};

use crate::{
    floors::Heap,
    graph_break::{Outcome, reason},
    objects::{Tracked, callable_kinds::CallableKind, callables::receiver, contents::is_named, layout::Layout, lookup::lookup, type_name},
    state::number_places::Want,
};

/// C types with mutable instances that no guard inspects.
const MUTABLE: &[&str] =
    &["array", "bytearray", "deque", "dict_items", "dict_keys", "dict_values", "mappingproxy", "memoryview", "ndarray"];

impl<'py> Heap<'py> {
    /// Guards everything C code may find in an existing object. Returns true if the object contains tensors, which C code would see instead
    /// of fakes.
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

    /// Like [`Self::guard_contents`], for an object that is passed to C code.
    pub(crate) fn all_contents(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<bool> {
        self.guards.demand(source, Facet::Contents);
        self.guard_contents(object, source)
    }

    /// Ends the capture where C code would inspect an object that the frame has written to.
    pub(super) fn refuse_looks_after_writes(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        // True if only Python code reads the attributes, and thus sees the writes; C code of these classes reads only their contents.
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

    /// Guards an existing object as an element of a container that C code sees: its value if it is immutable (a class, a function, a number
    /// of a user-defined class), otherwise its class.
    pub(crate) fn guard_element(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let is_value = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>() || object.is_instance_of::<PyString>();
        if is_named(object) || is_value || matches!(self.effects.kinds.of(object), CallableKind::Partial) {
            return self.guard_contents(object, source).map(|_| ());
        }
        if lookup(&object.get_type(), "__next__")?.is_some() {
            // Reading it exhausts it.
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
            // The only instance of its class.
            return Ok(false);
        }
        let class = object.get_type();
        if class.is_subclass(&dynamlir_cpython_abi::import(self.py, "enum")?.getattr("Enum")?)? {
            // A class has one member per name.
            let name = object.getattr("_name_")?;
            self.guarded(self.guards.equals(self.guards.attr(source, "_name_"), &name))?;
            return Ok(false);
        }
        if matches!(self.effects.kinds.of(object), CallableKind::Partial) {
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
            // Reading it exhausts it.
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
        // Numbers, text, builtin functions and everything else that is immutable: the same object has the same contents.
        self.pin(object, source)?;
        Ok(false)
    }

    /// Guards the value of an instance of a text or number class, such as `torch.__version__`, by the result of a method of the plain base
    /// class.
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

    /// Guards the values of items that C code reads. Returns true if the items are or contain tensors.
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
