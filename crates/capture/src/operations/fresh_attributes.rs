//! Attributes of objects that the frame has created. Values stored in such an object belong to the frame. Entries of its class existed
//! before, unless the frame has created the class as well: they are guarded, and must not be changed.

use dynamlir_cpython_abi::{function::has_annotations_to_compute, kind, types};
use dynamlir_guards::SourceId;
use dynamlir_interpreter::FunctionParts;
use pyo3::{
    prelude::*,
    types::{PyDict, PyFunction, PyString, PyType},
};

use crate::{
    floors::{Heap, Operations, Reads},
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        contents::is_named,
        lookup::{ClassAttr, classify, is_changeable, lookup, text},
        special_names, type_name,
    },
};

impl<'py> Reads<'py> {
    /// Returns the source where a class finds an attribute, if that existed before the frame. Guards everything that could hide it.
    fn made_class_attr(&self, class: &Bound<'py, PyType>, key: &str) -> Outcome<Option<SourceId>> {
        if let Some(source) = self.made_class(class)? {
            return Ok(Some(self.guards.type_attr(source, key)));
        }
        for base in types::mro(class)? {
            let own = types::dict(&base)?.contains(key)?;
            let source = if is_changeable(&base) { self.made_class(&base)? } else { None };
            let Some(source) = source else {
                if own {
                    return Ok(None);
                }
                continue;
            };
            let at = self.guards.type_attr(source, key);
            if own {
                return Ok(Some(at));
            }
            match lookup(&base, key)? {
                Some(found) => self.pin_class_attr(at, &found)?,
                None => self.guards.absent(at),
            }
        }
        Ok(None)
    }

    /// Returns the guarded entry under a name in the class of an object that the frame has created, and its source if it existed before.
    fn class_entry(&self, class: &Bound<'py, PyType>, key: &str) -> Outcome<(ClassAttr<'py>, Option<SourceId>)> {
        let at = self.made_class_attr(class, key)?;
        let raw = classify(class, key)?;
        if let Some(at) = at {
            match &raw {
                ClassAttr::Plain(found) | ClassAttr::Descriptor(found) if self.pin_unseen(key, found, at)? => {}
                ClassAttr::Missing => self.guards.absent(at),
                ClassAttr::Data(found) | ClassAttr::Function(found) | ClassAttr::Descriptor(found) => {
                    self.pin_descriptor(class, found, at)?;
                }
                ClassAttr::Plain(found) => self.pin_binding(found, at)?,
            }
        } else if let ClassAttr::Plain(found) = &raw {
            // The value that the frame has put there may become a descriptor.
            self.pin_specials(found, special_names::BINDING)?;
        }
        Ok((raw, at))
    }

    /// Notes that the dict of annotations of a new function is new: CPython has created it from the names and values.
    pub(crate) fn note_annotations(&self, function: &Bound<'py, PyAny>, parts: &FunctionParts<'py>) -> PyResult<()> {
        if parts.annotations.as_ref().is_some_and(|given| !given.get().is_instance_of::<PyDict>()) {
            self.note_new(&function.getattr("__annotations__")?);
        }
        Ok(())
    }

    /// Returns the value of an attribute, which is the class's entry or another object.
    fn found_in_class(&self, value: Bound<'py, PyAny>, raw: Option<Bound<'py, PyAny>>, at: Option<SourceId>) -> Outcome<Tracked<'py>> {
        match (raw, at) {
            (Some(raw), Some(at)) if raw.is(&value) => self.wrap(value, at),
            (Some(raw), Some(at)) => {
                self.pin_class_attr(at, &raw)?;
                self.wrap_untracked(value)
            }
            _ => self.wrap_untracked(value),
        }
    }

    /// Guards the method that answers for the attributes of an object that the frame has created.
    fn pin_getattribute(&self, class: &Bound<'py, PyType>) -> Outcome<()> {
        if let Some(found) = lookup(class, "__getattribute__")?
            && let Some(at) = self.made_class_attr(class, "__getattribute__")?
        {
            self.pin_class_attr(at, &found)?;
        }
        Ok(())
    }

    /// Called before an attribute of an object is set or deleted: the object must be the frame's own, and the entry of its class under that
    /// name is guarded.
    pub(crate) fn before_store(&self, owner: &Bound<'py, PyAny>, name: &Bound<'py, PyString>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        self.own(owner)?;
        let is_foreign = |value: &Tracked<'py>| self.source(value).is_some() || !self.is_young(&value.object);
        if name.to_str().is_ok_and(|name| name == "__dict__") && value.is_some_and(is_foreign) {
            return self.break_graph(reason::SIDE_EFFECT, format!("a {} that stores in a dict that existed before", type_name(owner)));
        }
        let class = owner.get_type();
        if is_changeable(&class) {
            self.class_entry(&class, &text(name)?)?;
        }
        Ok(())
    }

    /// Guards that C code finds the same Python function in the class of an object that the frame has created, or in a class itself: an
    /// `__init__`, a `__new__`.
    pub(crate) fn pin_made_special(&self, function: &Bound<'py, PyAny>, owner: &Bound<'py, PyAny>) -> Outcome<()> {
        let class = owner.cast::<PyType>().map_or_else(|_| owner.get_type(), Clone::clone);
        if !self.existing.specials.borrow_mut().insert((class.as_ptr() as usize, function.as_ptr() as usize), ()) {
            return Ok(());
        }
        let is_it = |found: &Bound<'py, PyAny>| {
            found.is(function)
                || !found.is_exact_instance_of::<PyFunction>() && found.getattr("__func__").is_ok_and(|inner| inner.is(function))
        };
        // The class may have it under any name.
        for base in types::mro(&class)? {
            if !is_changeable(&base) {
                continue;
            }
            for entry in types::dict(&base)?.call_method0("items")?.try_iter()? {
                let (name, found): (Bound<'py, PyAny>, Bound<'py, PyAny>) = entry?.extract()?;
                if is_it(&found)
                    && let Ok(name) = name.cast::<PyString>()
                {
                    self.class_entry(&class, &text(name)?)?;
                }
            }
        }
        Ok(())
    }
}

impl<'py> Heap<'py> {
    /// Returns the source of an object that has a name and existed before. If it came out of C code, the guards hold the object themselves.
    pub(crate) fn named_source(&self, object: &Bound<'py, PyAny>) -> Outcome<Option<SourceId>> {
        if let Some(source) = self.source_of(object) {
            return Ok(Some(source));
        }
        if !is_named(object) || self.is_young(object) {
            return Ok(None);
        }
        let label = object.getattr("__qualname__").or_else(|_| object.getattr("__name__")).and_then(|name| name.extract::<String>());
        let source = self.guarded(self.guards.hold(object, &label.unwrap_or_else(|_| "?".to_owned())))?;
        self.wrap(object.clone(), source)?;
        Ok(Some(source))
    }

    /// Returns the source of the class of an object that the frame has created; None if the frame has created the class, too.
    pub(crate) fn made_class(&self, class: &Bound<'py, PyType>) -> Outcome<Option<SourceId>> {
        if self.is_young(class) {
            return Ok(None);
        }
        let address = class.as_ptr() as usize;
        if let Some(known) = self.existing.classes.borrow().get(&address) {
            return Ok(Some(*known));
        }
        let source = match self.source_of(class) {
            Some(source) => {
                self.pin(class, source)?;
                Some(source)
            }
            None => self.named_source(class)?,
        };
        if let Some(source) = source {
            self.existing.classes.borrow_mut().insert(address, source);
        }
        Ok(source)
    }
}

impl<'py> Operations<'py> {
    /// `owner.name`, for an object without a source.
    pub(crate) fn made_attr(&self, owner: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        let class = owner.get_type();
        if kind::is_method(owner) && lookup(&class, &text(name)?)?.is_none() {
            // A method has the attributes of its function.
            return self.load_attr(&self.part(owner, "__func__")?, name);
        }
        if !is_changeable(&class) {
            let computed = has_annotations_to_compute(owner);
            let value = match owner.cast::<PyType>() {
                // A class that the frame has created, with bases that existed before.
                Ok(made) if self.is_young(made) => {
                    let at = self.made_class_attr(made, &text(name)?)?;
                    let value = owner.getattr(name)?;
                    return self.found_in_class(value, lookup(made, &text(name)?)?, at);
                }
                _ => owner.getattr(name)?,
            };
            // If a function has no annotations, or computes them, the dict is created at the first read.
            let made_now = name.to_str()? == "__annotations__"
                && owner.is_exact_instance_of::<PyFunction>()
                && self.source_of(&value).is_none()
                && value.cast_exact::<PyDict>().is_ok_and(|dict| computed || dict.is_empty());
            if name.to_str()? == "__dict__" || made_now {
                self.note_new(&value);
            }
            return self.wrap_untracked(value);
        }
        self.pin_getattribute(&class)?;
        let (raw, at) = self.class_entry(&class, &text(name)?)?;
        if matches!(raw, ClassAttr::Missing) {
            let (getattr, at) = self.class_entry(&class, "__getattr__")?;
            drop((getattr, at));
        }
        let value = owner.getattr(name)?;
        if name.to_str()? == "__dict__" && matches!(raw, ClassAttr::Data(_)) {
            self.note_new(&value);
        }
        match raw {
            ClassAttr::Plain(found) => self.found_in_class(value, Some(found), at),
            _ => self.wrap_untracked(value),
        }
    }

    /// `object.__getattribute__(owner, name)`, for an object without a source.
    pub(crate) fn stored_made_attr(&self, owner: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        let class = owner.get_type();
        let generic = self.py.get_type::<PyAny>().getattr("__getattribute__")?;
        if self.torch.is_fake(owner) || !lookup(&class, "__getattribute__")?.is_some_and(|found| found.is_exact_instance_of::<PyFunction>())
        {
            return self.load_attr(&Tracked::new(owner.clone()), name);
        }
        let (raw, at) = self.class_entry(&class, &text(name)?)?;
        let value = generic.call1((owner, name))?;
        if name.to_str()? == "__dict__" && matches!(raw, ClassAttr::Data(_)) {
            self.note_new(&value);
        }
        match raw {
            ClassAttr::Plain(found) => self.found_in_class(value, Some(found), at),
            _ => self.wrap_untracked(value),
        }
    }
}
