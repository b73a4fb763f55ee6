//! Attributes that are not stored on an instance: those of modules, of classes and their metaclasses, of descriptors, and of objects that
//! the frame has created from existing classes.
//!
//! The value of an attribute depends on much that may change between two calls: the class may get a `__getattr__`, its metaclass may answer
//! for it, its entry may become a descriptor. Each of these is guarded where it decides.

use dynamlir_cpython_abi::{kind, lazy, types};
use dynamlir_guards::{Source, SourceId};
use pyo3::{
    exceptions::PyAttributeError,
    intern,
    prelude::*,
    types::{PyAny, PyFunction, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Heap, Operations},
    graph_break::{Halt, Outcome, reason},
    heap::attribute_writes::Overlay,
    objects::{
        Tracked,
        lookup::{ClassAttr, classify, instance_dict, is_immutable, lookup, text},
    },
};

/// Returns true if calling an object runs Python code, which is interpreted.
fn is_python(callable: &Bound<'_, PyAny>) -> PyResult<bool> {
    let python = |found: Bound<'_, PyAny>| found.is_exact_instance_of::<PyFunction>();
    Ok(callable.is_exact_instance_of::<PyFunction>() || lookup(&callable.get_type(), "__call__")?.is_some_and(python))
}

impl<'py> Heap<'py> {
    /// Returns the source of the class of an object, if the class may be replaced or have other attributes: that of an existing object, or
    /// an existing class that the frame has instantiated.
    pub(crate) fn class_at(&self, object: &Bound<'py, PyAny>) -> Outcome<Option<SourceId>> {
        if let Some(source) = self.source_of(object) {
            return self.class_source(object, source).map(Some);
        }
        let class = object.get_type();
        if is_immutable(&class) { Ok(None) } else { self.made_class(&class) }
    }

    /// Guards a descriptor that a class holds, and that the object is a descriptor.
    pub(crate) fn pin_descriptor(&self, class: &Bound<'py, PyType>, found: &Bound<'py, PyAny>, at: SourceId) -> Outcome<()> {
        if is_immutable(class) {
            // C's own. A path to it would begin at the first object of the class that was seen, which may be a new one for each call.
            return Ok(());
        }
        self.pin_class_attr(at, found)?;
        self.pin_protocol(found, at)
    }

    /// Guards how an entry of a class binds, if it does: the code that decides it.
    pub(crate) fn pin_binding(&self, found: &Bound<'py, PyAny>, at: SourceId) -> Outcome<()> {
        // It may not bind, but a property that takes its place does.
        self.pin_type(found, at)?;
        self.pin_protocol(found, at)
    }

    /// Guards the methods by which an entry of a class binds, given that its type is known.
    fn pin_protocol(&self, found: &Bound<'py, PyAny>, at: SourceId) -> Outcome<()> {
        if self.torch.is_tensor(found) || self.torch.is_primitive(found) {
            return self.pin_type(found, at);
        }
        // C code passes it to its own `__get__` or `__set__`.
        self.wrap(found.clone(), at)?;
        if is_immutable(&found.get_type()) {
            return Ok(());
        }
        for name in [intern!(self.py, "__get__"), intern!(self.py, "__set__"), intern!(self.py, "__delete__")] {
            self.pin_class_entry(found, at, name)?;
        }
        Ok(())
    }

    /// Returns the result of binding a descriptor to an existing object. C code may read state that no guard sees: then each guard check
    /// binds it again.
    pub(crate) fn bound_attr(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        descriptor: &Bound<'py, PyAny>,
    ) -> Outcome<Tracked<'py>> {
        let binds = [
            kind::is_function,
            kind::is_method_descriptor,
            kind::is_slot_wrapper,
            kind::is_class_method_descriptor,
            kind::is_static_method,
            kind::is_class_method,
        ];
        let python = || -> PyResult<bool> {
            Ok(lookup(&descriptor.get_type(), "__get__")?.is_some_and(|get| get.is_exact_instance_of::<PyFunction>()))
        };
        if binds.iter().any(|is| is(descriptor)) || python()? {
            return self.wrap_untracked(types::attribute_past_python(owner, name)?);
        }
        if let Some(position) = self.field_of(owner, descriptor)? {
            let item = owner.cast::<PyTuple>().map_err(PyErr::from)?.get_item(position)?;
            return self.wrap(item, self.guards.source(Source::Index(source, position as u32)));
        }
        if owner.is_instance_of::<PyTuple>() {
            self.guard_contents(owner, source)?;
        }
        let value = types::attribute_past_python(owner, name)?;
        self.wrap(value, self.guards.source(Source::GetAttr(source, text(name)?.into())))
    }

    /// Looks for an attribute that a module may lack. Reads by C code for the text of an error are not part of the program.
    pub(crate) fn asking_a_module<T>(&self, look: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.calling.asks_a_module.set(true);
        let found = look();
        self.calling.asks_a_module.set(false);
        found
    }

    /// Returns an attribute that C code may find anywhere: each guard check reads it again.
    pub(crate) fn asked_attr(&self, owner: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        let at = self.guards.source(Source::GetAttr(source, text(name)?.into()));
        match owner.getattr(name) {
            Ok(value) => self.wrap(value, at),
            Err(error) if error.is_instance_of::<PyAttributeError>(self.py) => {
                self.guards.absent(at);
                Err(Halt::Raise(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Guards the classes that an object is an instance of.
    pub(crate) fn pin_bases(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        match self.class_at(object)? {
            Some(source) => self.pin_mro(object.get_type().as_any(), source),
            None => Ok(()),
        }
    }

    /// Guards the MRO of a class: the classes in which it looks names up, and the classes that it is a subclass of.
    pub(crate) fn pin_mro(&self, class: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let class = class.cast::<PyType>().map_err(PyErr::from)?;
        if is_immutable(class) {
            return Ok(());
        }
        let at = self.guards.source(Source::Mro(source));
        let mro = types::mro(class)?;
        self.guards.length(at, mro.len());
        for (index, base) in mro.iter().enumerate().skip(1) {
            self.guarded(self.guards.identity(self.guards.source(Source::Index(at, index as u32)), base))?;
        }
        Ok(())
    }
}

impl<'py> Operations<'py> {
    /// Returns an attribute of an existing object that a data descriptor of its class provides.
    pub(crate) fn data_attr(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        descriptor: &Bound<'py, PyAny>,
    ) -> Outcome<Tracked<'py>> {
        let key = text(name)?;
        if kind::is_member_descriptor(descriptor) {
            let at = self.guards.source(Source::Slot(source, key.as_str().into()));
            if let Ok(value) = descriptor.call_method1(intern!(self.py, "__get__"), (owner,)) {
                return self.wrap(value, at);
            }
            self.guards.absent(at);
            return self.missing_attr(owner, source, name, &key);
        }
        // If Python code raises an AttributeError, the `__getattr__` of the class is called.
        self.pin_class_entry(owner, source, intern!(self.py, "__getattr__"))?;
        if kind::is_property(descriptor) && is_python(&descriptor.getattr(intern!(self.py, "fget"))?)? {
            let getter = descriptor.getattr(intern!(self.py, "fget"))?;
            if !getter.is_exact_instance_of::<PyFunction>() {
                // The getter is an object with a Python `__call__`, which may read the object itself. A property does not change.
                let at = self.guards.type_attr(self.class_source(owner, source)?, &key);
                self.wrap(getter, self.guards.source(Source::GetAttr(at, "fget".into())))?;
            }
            return self.wrap_untracked(types::attribute_past_python(owner, name)?);
        }
        if kind::is_property(descriptor) && !self.writes.is_empty() {
            let place = self.guards.expression(self.guards.attr(source, &key));
            return self.break_graph(reason::SIDE_EFFECT, format!("C code is asked for {place} after something was written"));
        }
        self.bound_attr(owner, source, name, descriptor)
    }

    /// Returns an attribute of an existing module: its stored value, or else what its class or its `__getattr__` returns for the name.
    pub(crate) fn module_attr(&self, module: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        self.pin(module, source)?;
        let key = text(name)?;
        // The module may get another class.
        for entry in [intern!(self.py, "__getattribute__"), name] {
            self.pin_class_entry(module, source, entry)?;
        }
        let own = classify(&module.get_type(), &key)?;
        if let ClassAttr::Data(descriptor) = &own
            && !["__dict__", "__class__"].contains(&key.as_str())
        {
            return self.data_attr(module, source, name, descriptor);
        }
        match self.written_attr(module, &key) {
            Overlay::Set(value) => return Ok(value),
            Overlay::Deleted => return self.refuse_deleted(source, &key),
            Overlay::Untouched => self.refuse_changed_attributes(module)?,
        }
        if lazy::is_possible(self.py)
            && let Some(namespace) = instance_dict(module)
        {
            self.import_now(namespace.as_any(), name)?;
        }
        let stored = || -> PyResult<Option<Bound<'py, PyAny>>> {
            instance_dict(module).map(|dict| dict.get_item(name)).transpose().map(Option::flatten)
        };
        let mut value = stored()?;
        if value.is_none() && self.torch.is_lazy(module) {
            self.outside(|| module.getattr(name))?;
            value = stored()?;
        }
        let at = self.guards.attr(source, &key);
        if let Some(value) = value {
            return self.wrap(value, at);
        }
        self.guards.absent(at);
        if matches!(own, ClassAttr::Missing) {
            self.pin_class_entry(module, source, intern!(self.py, "__getattr__"))?;
            let at = self.guards.attr(source, "__getattr__");
            match instance_dict(module).map(|dict| dict.get_item("__getattr__")).transpose()?.flatten() {
                None => self.guards.absent(at),
                Some(function) => {
                    let function = self.wrap(function, at)?;
                    if function.object.is_exact_instance_of::<PyFunction>() {
                        self.pin_function(&function)?;
                    } else {
                        self.pin(&function.object, at)?;
                    }
                }
            }
        }
        self.wrap_untracked(self.asking_a_module(|| module.getattr(name))?)
    }

    /// Returns an attribute of an existing class: from its metaclass, if that has a data descriptor for it; otherwise from the class or a
    /// base; otherwise from what the metaclass returns for the name.
    pub(crate) fn class_attr(&self, class: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        self.pin(class, source)?;
        let key = text(name)?;
        let kind = class.cast::<PyType>().map_err(PyErr::from)?;
        for entry in [intern!(self.py, "__getattribute__"), name] {
            self.pin_class_entry(class, source, entry)?;
        }
        let metaclass = class.get_type();
        let own = classify(&metaclass, &key)?;
        if let ClassAttr::Data(descriptor) = &own {
            return self.data_attr(class, source, name, descriptor);
        }
        let at = self.guards.type_attr(source, &key);
        if let Some(raw) = lookup(kind, &key)? {
            self.pin_binding(&raw, at)?;
            let value = class.getattr(name)?;
            if !raw.is(&value) {
                self.pin_class_attr(at, &raw)?;
                return self.wrap_untracked(value);
            }
            if !raw.is_exact_instance_of::<PyFunction>() && lookup(&raw.get_type(), "__get__")?.is_some() {
                // It returned itself when it was bound; another object of its class may not.
                self.pin_class_attr(at, &raw)?;
            }
            return self.wrap(value, at);
        }
        self.pin_missing(kind, at);
        if matches!(own, ClassAttr::Missing) {
            self.pin_class_entry(class, source, intern!(self.py, "__getattr__"))?;
        }
        self.wrap_untracked(class.getattr(name)?)
    }
}
