//! Reads and writes of attributes. Objects that existed before the frame are read from storage, with a source; other objects follow
//! Python's rules.
//!
//! For an existing object the steps of `object.__getattribute__` are taken one by one, so that each assumption becomes a guard: the type,
//! the entries of its classes under the name, the value that the instance stores. Steps that run Python code (a property, a `__getattr__`)
//! are left to C code, which calls it through the frame hook.

use dynamlir_cpython_abi::{kind, types};
use dynamlir_guards::{Facet, ModuleTable, Source, SourceId};
use dynamlir_symint::{is_asked, is_size};
use pyo3::{
    exceptions::PyAttributeError,
    intern,
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyFunction, PyInt, PyModule, PyString, PySuper, PyType},
};

use crate::{
    floors::{Heap, Operations},
    graph_break::{Halt, Outcome, reason},
    heap::{attribute_writes::Overlay, container_writes::Item},
    objects::{
        Tracked,
        lookup::{ClassAttr, classify, instance_dict, is_generic, is_immutable, lookup, text},
        type_name,
    },
    operations::ambient::is_context,
    values::ledger_uses::has_name,
};

const TABLES: [ModuleTable; 3] = [ModuleTable::Parameters, ModuleTable::Buffers, ModuleTable::Modules];

impl<'py> Operations<'py> {
    /// `owner.name`.
    pub fn load_attr(&self, owner: &Tracked<'py>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        if self.torch.is_fake(&owner.object) {
            return self.tensor_attr(&owner.object, name);
        }
        let owner = &self.settle_size(owner)?;
        self.guard_value(owner)?;
        if kind::is_frame(&owner.object) {
            // The interpreted frame is at another instruction than this object shows.
            return self.break_graph(reason::UNGUARDABLE, format!("{name} of a frame"));
        }
        self.refuse_token(&owner.object)?;
        if owner.object.is_exact_instance_of::<PySuper>() {
            self.refuse_filling(&owner.object, "looks behind")?;
            return self.super_attr(&owner.object, name);
        }
        if is_context(&owner.object, name.to_str()?) {
            self.nothing_handled()?;
        }
        let Some(source) = self.named_source(&owner.object)? else {
            return self.made_attr(&owner.object, name);
        };
        if owner.object.is_instance_of::<PyModule>() {
            return self.module_attr(&owner.object, source, name);
        }
        if owner.object.is_instance_of::<PyType>() {
            return self.class_attr(&owner.object, source, name);
        }
        if owner.object.is_exact_instance_of::<PyFunction>() {
            self.pin(&owner.object, source)?;
            return self.asked_attr(&owner.object, source, name);
        }
        if has_name(&owner.object) {
            self.pin(&owner.object, source)?;
        }
        self.pin_class_entry(&owner.object, source, intern!(self.py, "__getattribute__"))?;
        let slot = lookup(&owner.object.get_type(), "__getattribute__")?;
        if slot.as_ref().is_some_and(PyAnyMethods::is_exact_instance_of::<PyFunction>) {
            // A Python method decides. It is interpreted when C code calls it.
            return self.wrap_untracked(owner.object.getattr(name)?);
        }
        if !slot.is_some_and(|slot| is_generic(&slot)) {
            // For example a `threading.local`, whose attributes depend on the thread.
            return self.asked_attr(&owner.object, source, name);
        }
        self.stored_attr(&owner.object, source, name)
    }

    /// `object.__getattribute__(owner, name)`, then the type's `__getattr__`.
    pub fn stored_attr(&self, owner: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        let class = owner.get_type();
        let key = text(name)?;
        let class_source = self.class_source(owner, source)?;
        let raw = classify(&class, &key)?;
        let raw_source = self.guards.type_attr(class_source, &key);
        if let ClassAttr::Data(descriptor) = &raw {
            // The value is in a slot. An entry of the dict under this name is not read.
            if let Overlay::Set(value) = self.written_at(owner.as_ptr() as usize, &key) {
                return Ok(value);
            }
            self.pin_descriptor(&class, descriptor, raw_source)?;
            return self.data_attr(owner, source, name, descriptor);
        }
        match self.written_attr(owner, &key) {
            Overlay::Set(value) => return Ok(value),
            Overlay::Deleted => return self.refuse_deleted(source, &key),
            Overlay::Untouched => self.refuse_changed_attributes(owner)?,
        }
        let stored = self.guards.attr(source, &key);
        if self.torch.is_lazy(owner) {
            self.outside(|| owner.getattr(name))?;
        }
        if let Some(dict) = instance_dict(owner)
            && let Some(value) = dict.get_item(name)?
        {
            match &raw {
                // A property that is added later would take precedence.
                ClassAttr::Missing => self.pin_missing(&class, raw_source),
                ClassAttr::Data(found) | ClassAttr::Function(found) | ClassAttr::Descriptor(found) | ClassAttr::Plain(found) => {
                    self.pin_descriptor(&class, found, raw_source)?;
                }
            }
            return self.wrap(value, stored);
        }
        if types::has_instance_dict(&class) {
            self.guards.absent(stored);
        }
        match raw {
            ClassAttr::Data(_) => self.break_graph(reason::UNGUARDABLE, format!("{}.{key}", type_name(owner))),
            ClassAttr::Function(function) => {
                let function = self.wrap(function, raw_source)?;
                self.pin(&function.object, raw_source)?;
                let method = dynamlir_cpython_abi::import(self.py, "types")?.getattr("MethodType")?.call1((&function.object, owner))?;
                Ok(Tracked::new(method))
            }
            // From CPython 3.14 on, these bind as functions do.
            ClassAttr::Descriptor(found) if self.effects.kinds.is_partial_class(found.get_type().as_any()) => {
                self.pin_binding(&found, raw_source)?;
                let partial = self.wrap(found, raw_source)?;
                let method = dynamlir_cpython_abi::import(self.py, "types")?.getattr("MethodType")?.call1((&partial.object, owner))?;
                Ok(Tracked::new(method))
            }
            ClassAttr::Descriptor(found) => {
                self.pin_descriptor(&class, &found, raw_source)?;
                self.bound_attr(owner, source, name, &found)
            }
            ClassAttr::Plain(value) => {
                self.pin_binding(&value, raw_source)?;
                self.wrap(value, raw_source)
            }
            ClassAttr::Missing => {
                self.pin_missing(&class, raw_source);
                self.missing_attr(owner, source, name, &key)
            }
        }
    }

    /// `super().name`: guards the classes that follow the asking class in the MRO, up to the one that has the name.
    fn super_attr(&self, object: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        let key = text(name)?;
        let value = object.getattr(name);
        let (asking, class) = (object.getattr("__thisclass__")?, object.getattr("__self_class__")?);
        let Ok(class) = class.cast_into::<PyType>() else { return self.wrap_untracked(value?) };
        if let Some(source) = self.source_of(&class) {
            self.pin_mro(&class, source)?;
        }
        let behind = types::mro(&class)?.into_iter().skip_while(|base| !base.is(&asking)).skip(1).collect::<Vec<_>>();
        for base in behind {
            let base = base.cast_into::<PyType>().map_err(PyErr::from)?;
            let label: String = base.getattr("__qualname__")?.extract()?;
            let held = self.guarded(self.guards.hold(&base, &label))?;
            let at = self.guards.type_attr(held, &key);
            let own = types::dict(&base)?.contains(name)?;
            match lookup(&base, &key)? {
                None => self.guards.absent(at),
                Some(raw) => {
                    if own && value.as_ref().is_ok_and(|value| raw.is(value)) {
                        return self.wrap(value?, at);
                    }
                    self.pin_class_attr(at, &raw)?;
                }
            }
            if own {
                break;
            }
        }
        self.wrap_untracked(value?)
    }

    pub(crate) fn missing_attr(
        &self,
        owner: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        key: &str,
    ) -> Outcome<Tracked<'py>> {
        self.pin_class_entry(owner, source, intern!(self.py, "__getattr__"))?;
        let getattr = lookup(&owner.get_type(), "__getattr__")?;
        if getattr.is_some_and(|function| self.torch.is_module_getattr(&function)) {
            for table in TABLES {
                let values = instance_dict(owner).map(|dict| dict.get_item(table.attribute())).transpose()?.flatten();
                let values = values.as_ref().and_then(|values| values.cast::<PyDict>().ok());
                let changed = match values {
                    Some(values) if self.is_changed(values) => {
                        // This guards that the dict is the one that was changed.
                        self.wrap(values.clone().into_any(), self.guards.attr(source, table.attribute()))?;
                        self.changed_item(values, &Tracked::new(name.clone().into_any()))?
                    }
                    _ => None,
                };
                match changed {
                    None => {}
                    Some(Item::Set(value)) => return Ok(value),
                    Some(Item::In(copy)) if copy.contains(name)? => return self.wrap_untracked(copy.get_item(name)?),
                    Some(Item::Gone | Item::In(_)) => continue,
                }
                let value = match values {
                    Some(values) => values.get_item(name)?,
                    None => None,
                };
                let member = self.guards.source(Source::Member(source, table, key.into()));
                match value {
                    Some(value) => return self.wrap(value, member),
                    None => self.guards.absent(member),
                }
            }
        }
        if let Some(value) = self.by_getattr_of_c(owner, name)? {
            return Ok(value);
        }
        self.wrap_untracked(types::attribute_past_python(owner, name)?)
    }

    /// Guards that a class holds nothing under the name of this source.
    pub(crate) fn pin_missing(&self, class: &Bound<'py, PyType>, source: SourceId) {
        if !is_immutable(class) {
            self.guards.absent(source);
        }
    }

    /// Guards that C code finds the same Python function in the class of an existing object: a `__len__`, a `__getattr__`.
    pub(crate) fn pin_special(&self, function: &Bound<'py, PyAny>, owner: &Bound<'py, PyAny>) -> Outcome<()> {
        if is_size(owner) {
            return Ok(());
        }
        let Some(source) = self.source_of(owner).filter(|_| !owner.is_instance_of::<PyType>()) else {
            return self.pin_made_special(function, owner);
        };
        let source = self.class_source(owner, source)?;
        let class = owner.get_type();
        let own = function.getattr("__name__")?.cast_into::<PyString>().map_err(PyErr::from)?;
        if lookup(&class, own.to_str()?)?.is_some_and(|found| found.is(function)) {
            return self.pin_entry(&class, source, &own);
        }
        // The class may have it under another name.
        for base in types::mro(&class)? {
            for entry in types::dict(&base)?.call_method0("items")?.try_iter()? {
                let (name, found): (Bound<'py, PyAny>, Bound<'py, PyAny>) = entry?.extract()?;
                if found.is(function)
                    && let Ok(name) = name.cast::<PyString>()
                {
                    self.pin_entry(&class, source, name)?;
                }
            }
        }
        Ok(())
    }

    /// `owner.name = value`: performed on objects that the frame created; existing objects are not touched while capturing.
    pub fn store_attr(&self, owner: &Tracked<'py>, name: &Bound<'py, PyString>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        if self.torch.is_fake(&owner.object) {
            return self.write_tensor(&owner.object, name, value);
        }
        if let Some(source) = self.source(owner) {
            let slot = if value.is_some() { "__setattr__" } else { "__delattr__" };
            if let Some(own) = lookup(&owner.object.get_type(), slot)?.filter(pyo3::types::PyAnyMethods::is_exact_instance_of::<PyFunction>)
            {
                // The class's Python method decides. The writes that it finally makes are noted.
                let own = self.wrap(own, self.guards.type_attr(self.class_source(&owner.object, source)?, slot))?;
                let args: Vec<_> = [owner.clone(), Tracked::new(name.clone().into_any())].into_iter().chain(value.cloned()).collect();
                return self.call(&own, &args, &Vec::new()).map(|_| ());
            }
            return self.write_attr(&owner.object, source, name, value);
        }
        self.before_store(&owner.object, name, value)?;
        let result = if let Some(value) = value {
            self.guard_value(value)?;
            owner.object.setattr(name, &value.object)
        } else {
            owner.object.delattr(name)
        };
        self.returned(result.map(|()| self.py.None().into_bound(self.py)))?;
        Ok(())
    }

    /// `object.__setattr__` and `object.__delattr__`, bypassing those of the class.
    pub fn store_generic_attr(&self, owner: &Tracked<'py>, name: &Bound<'py, PyString>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        if self.torch.is_fake(&owner.object) {
            return self.write_tensor(&owner.object, name, value);
        }
        if let Some(source) = self.source(owner) {
            self.pin_type(&owner.object, source)?;
            return self.write_attr(&owner.object, source, name, value);
        }
        self.before_store(&owner.object, name, value)?;
        let object = self.py.get_type::<PyAny>();
        match value {
            Some(value) => {
                self.guard_value(value)?;
                object.call_method1("__setattr__", (&owner.object, name, &value.object))?;
            }
            None => {
                object.call_method1("__delattr__", (&owner.object, name))?;
            }
        }
        Ok(())
    }

    /// `hasattr(owner, name)`.
    pub fn has_attr(&self, owner: &Tracked<'py>, name: &Bound<'py, PyString>) -> Outcome<bool> {
        match self.load_attr(owner, name) {
            Ok(_) => Ok(true),
            Err(Halt::Raise(error)) if error.is_instance_of::<PyAttributeError>(self.py) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Returns the class that `type(value)` returns. For a fake it is the class of the tensor that the fake represents.
    pub fn class_of(&self, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.torch.is_number(&value.object) {
            return Ok(Tracked::new(self.py.get_type::<PyFloat>().into_any()));
        }
        if is_asked(&value.object) {
            return Ok(Tracked::new(self.py.get_type::<PyBool>().into_any()));
        }
        if is_size(&value.object) {
            return Ok(Tracked::new(self.py.get_type::<PyInt>().into_any()));
        }
        if self.torch.is_fake(&value.object) {
            let class = match self.real_of(&value.object) {
                Some((real, _)) => real.get_type().into_any(),
                None => dynamlir_cpython_abi::import(self.py, "torch")?.getattr("Tensor")?,
            };
            return Ok(Tracked::new(class));
        }
        let class = value.object.get_type().into_any();
        match value.source.or_else(|| self.source_of(&value.object)).filter(|source| !self.is_computed(*source)) {
            Some(source) => {
                let source = self.class_source(&value.object, source)?;
                self.wrap(class, source)
            }
            None => Ok(Tracked::new(class)),
        }
    }
}

impl<'py> Heap<'py> {
    /// Guards the entry of an existing object's class under a name, or its absence.
    pub(crate) fn pin_class_entry(&self, owner: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>) -> Outcome<()> {
        let at = self.class_source(owner, source)?;
        self.pin_entry(&owner.get_type(), at, name)
    }

    /// Guards the entry of a class under a name, or its absence. Builtin classes do not change.
    pub(crate) fn pin_entry(&self, class: &Bound<'py, PyType>, source: SourceId, name: &Bound<'py, PyString>) -> Outcome<()> {
        if is_immutable(class) {
            return Ok(());
        }
        let key = text(name)?;
        let at = self.guards.type_attr(source, &key);
        if let Some(found) = lookup(class, &key)? {
            return if self.pin_unseen(&key, &found, at)? { Ok(()) } else { self.pin_class_attr(at, &found) };
        }
        self.guards.absent(at);
        Ok(())
    }

    /// Guards a class attribute: by identity or, if that cannot be guarded, by everything that C code may find in it.
    pub(crate) fn pin_class_attr(&self, source: SourceId, found: &Bound<'py, PyAny>) -> Outcome<()> {
        self.uses(&Tracked { object: found.clone(), source: Some(source) }, Facet::Value);
        if self.guards.identity(source, found).is_ok() {
            return Ok(());
        }
        if self.torch.is_primitive(found) {
            return self.guard_value(&Tracked { object: found.clone(), source: Some(source) });
        }
        if self.torch.is_tensor(found) {
            return Ok(());
        }
        // An object of another type in its place may be a descriptor.
        self.guarded(self.guards.type_match(source, found))?;
        if is_method_of_extension(found)? {
            return Ok(());
        }
        self.guard_contents(found, source).map(drop)
    }
}

/// Returns true for class attributes that only C code creates, that take no weak references and hold nothing that changes: an
/// `instancemethod`, or a property that calls one.
fn is_method_of_extension(found: &Bound<'_, PyAny>) -> PyResult<bool> {
    let getter = if kind::is_property(found) { found.getattr("fget")? } else { found.clone() };
    Ok(getter.get_type().fully_qualified_name()? == "instancemethod")
}
