//! Special methods that are neither Python functions nor the object's own: `__len__ = table.__len__`, `__getitem__ = {…}.__getitem__`,
//! `__contains__ = partial(…)`. C code calls them, and nobody sees what they read.
//!
//! So all that they may read is guarded where it is guarded that the class has them, and what the frame has changed of it ends the capture.

use dynamlir_cpython_abi::{kind, types};
use dynamlir_guards::{Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyFunction, PyString, PyType},
};

use crate::{
    attributes::lookup,
    calls::{describe, receiver},
    consulted,
    graph_break::reason,
    kinds::Kind,
    made::is_changeable,
    state::{Capture, Outcome, Tracked, type_name},
    written_names::is_dunder,
};

impl<'py> Capture<'py> {
    /// Guards what a special method that a class has reads beside the object; false where it is one that is seen, or reads nothing else.
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
            Kind::Partial => {
                self.wrap(found.clone(), at)?;
                self.refuse_unknown(&found.getattr("func")?)?;
                if self.guard_contents(found, at)? {
                    return self.break_graph(reason::UNGUARDABLE, format!("tensors in a {}", type_name(found)));
                }
                Ok(true)
            }
            // Asked for an attribute it is called from here.
            Kind::Cached if name != "__getattr__" => {
                self.break_graph(reason::C_FUNCTION, format!("functools.lru_cache, which is a class's {name}"))
            }
            _ => Ok(false),
        }
    }

    /// Guards what all special methods of the class of a value read beside the object: C code that is given it may call any of them.
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
        Ok(is_bound || matches!(self.effects.kinds.of(found), Kind::Partial | Kind::Cached))
    }

    /// Ends the capture where C code would be called of which it is not known that it reads nothing but what it is given.
    fn refuse_unknown(&self, function: &Bound<'py, PyAny>) -> Outcome<()> {
        if function.is_exact_instance_of::<PyFunction>() || self.effects.is_pure(function) {
            return Ok(());
        }
        self.break_graph(reason::C_FUNCTION, describe(function))
    }

    /// Guards all that C code may read of an object.
    fn guard_read(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        let given = self.readable(&Tracked { object: object.clone(), source: self.source_of(object) })?;
        self.pin_specials(object, consulted::METHODS)?;
        if given.is(object) {
            return Ok(());
        }
        self.break_graph(reason::UNGUARDABLE, format!("a special method of a {} that holds tensors or was changed", type_name(object)))
    }

    /// Returns what a `__getattr__` that is C code gives for a name: as a call of it, where it is seen what that reads. None for one in Python.
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
