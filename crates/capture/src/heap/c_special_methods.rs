//! Special methods that are neither Python functions nor the object's own: `__len__ = table.__len__`, `__getitem__ = {…}.__getitem__`,
//! `__contains__ = partial(…)`. C code calls them, and their reads are not visible to the capture.
//!
//! So everything they may read is guarded at the place where the class is guarded to have them. If the frame has changed any of it, the
//! capture ends.

use dynamlir_cpython_abi::{kind, types};
use dynamlir_guards::{Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyFunction, PyString, PyType},
};

use crate::{
    floors::{Heap, Operations},
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        callable_kinds::CallableKind,
        callables::{describe, receiver},
        lookup::{is_changeable, lookup},
        special_names::{self, is_dunder},
        type_name,
    },
};

impl<'py> Heap<'py> {
    /// Guards what a special method of a class reads besides the object. Returns false if its reads are visible or limited to the object.
    pub(crate) fn pin_unseen(&self, name: &str, found: &Bound<'py, PyAny>, at: SourceId) -> Outcome<bool> {
        if !is_dunder(name) || found.is_none() || found.is_exact_instance_of::<PyFunction>() {
            return Ok(false);
        }
        if kind::is_static_method(found) {
            let function = found.getattr(intern!(self.py, "__func__"))?;
            if function.is_exact_instance_of::<PyFunction>() {
                return Ok(false);
            }
            self.pin(found, at)?;
            return self.pin_unseen(name, &function, self.guards.source(Source::GetAttr(at, "__func__".into())));
        }
        if let Some(target) = receiver(found).filter(|target| !self.torch.is_primitive(target)) {
            self.wrap(found.clone(), at)?;
            self.pin_native(found, at)?;
            self.guard_read(&target)?;
            return Ok(true);
        }
        if kind::is_method(found) {
            let function = found.getattr("__func__")?;
            if function.is_exact_instance_of::<PyFunction>() {
                return Ok(false);
            }
            self.wrap(found.clone(), at)?;
            let this = self.part(found, "__self__")?;
            let function = self.part(found, "__func__")?;
            self.refuse_unknown(&function.object)?;
            self.guard_read(&this.object)?;
            return Ok(true);
        }
        match self.effects.kinds.of(found) {
            CallableKind::Partial => {
                self.wrap(found.clone(), at)?;
                self.refuse_unknown(&found.getattr("func")?)?;
                if self.guard_contents(found, at)? {
                    return self.break_graph(reason::UNGUARDABLE, format!("tensors in a {}", type_name(found)));
                }
                Ok(true)
            }
            // For an attribute lookup it is called from here.
            CallableKind::Cached if name != "__getattr__" => {
                self.break_graph(reason::C_FUNCTION, format!("functools.lru_cache, which is a class's {name}"))
            }
            _ => Ok(false),
        }
    }

    /// Guards what all special methods of a value's class read besides the object: C code that receives the value may call any of them.
    pub(crate) fn pin_all_unseen(&self, value: &Bound<'py, PyAny>) -> Outcome<()> {
        let class = value.get_type();
        if !is_changeable(&class) || self.existing.seen_classes.borrow().contains_key(&(class.as_ptr() as usize)) {
            return Ok(());
        }
        let mut found = Vec::new();
        for base in types::mro(&class)? {
            if !is_changeable(base.cast::<PyType>().map_err(PyErr::from)?) {
                continue;
            }
            for entry in types::dict(&base)?.call_method0(intern!(self.py, "items"))?.try_iter()? {
                let (name, held): (Bound<'py, PyAny>, Bound<'py, PyAny>) = entry?.extract()?;
                if let Ok(name) = name.cast_into::<PyString>()
                    && is_dunder(&name.to_string_lossy())
                    && self.may_be_unseen(&held)?
                {
                    found.push(name);
                }
            }
        }
        if found.is_empty() {
            self.existing.seen_classes.borrow_mut().insert(class.as_ptr() as usize, class.unbind());
            return Ok(());
        }
        if let Some(at) = self.class_at(value)? {
            for name in found {
                self.pin_entry(&class, at, &name)?;
            }
        }
        Ok(())
    }

    fn may_be_unseen(&self, found: &Bound<'py, PyAny>) -> PyResult<bool> {
        if kind::is_static_method(found) {
            return self.may_be_unseen(&found.getattr(intern!(self.py, "__func__"))?);
        }
        let is_bound = kind::is_method(found) || receiver(found).is_some_and(|target| !self.torch.is_primitive(&target));
        Ok(is_bound || matches!(self.effects.kinds.of(found), CallableKind::Partial | CallableKind::Cached))
    }

    /// Ends the capture where C code would be called that is not known to read only its arguments.
    fn refuse_unknown(&self, function: &Bound<'py, PyAny>) -> Outcome<()> {
        if function.is_exact_instance_of::<PyFunction>() || self.effects.is_pure(function) {
            return Ok(());
        }
        self.break_graph(reason::C_FUNCTION, describe(function))
    }

    /// Guards all that C code may read of an object.
    fn guard_read(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        let given = self.readable(&Tracked { object: object.clone(), source: self.source_of(object) })?;
        self.pin_specials(object, special_names::METHODS)?;
        if given.is(object) {
            return Ok(());
        }
        self.break_graph(reason::UNGUARDABLE, format!("a special method of a {} that holds tensors or was changed", type_name(object)))
    }
}

impl<'py> Operations<'py> {
    /// Returns the result of a `__getattr__` implemented in C for a name, as a call in which its reads are visible. `None` if it is
    /// implemented in Python.
    pub(crate) fn by_getattr_of_c(&self, owner: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<Option<Tracked<'py>>> {
        let Some(found) = lookup(&owner.get_type(), "__getattr__")?.filter(|found| !found.is_exact_instance_of::<PyFunction>()) else {
            return Ok(None);
        };
        let found = match self.class_at(owner)? {
            Some(at) => self.wrap(found, self.guards.type_attr(at, "__getattr__"))?,
            None => Tracked::new(found),
        };
        let bound = match lookup(&found.object.get_type(), "__get__")? {
            Some(_) => Tracked::new(dynamlir_interpreter::suspended(|| found.object.call_method1("__get__", (owner, owner.get_type())))?),
            None => found,
        };
        self.call(&bound, &[Tracked::new(name.clone().into_any())], &Vec::new()).map(Some)
    }
}
