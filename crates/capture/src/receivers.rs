//! What a C method is bound to, where that is an existing object: `pattern.match("a")`, `{"a": 1}.get`, `names.__len__()`.
//!
//! The method reads its object, and nobody sees what of it. So all of it is guarded, as if it were an argument.

use dynamlir_guards::{Source, SourceId};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    calls::{Keywords, receiver},
    state::{Capture, Halt, Outcome, Tracked, type_name},
    stop::reason,
};

/// Methods of dicts that look at no value.
const OF_KEYS: &[&str] = &["__contains__", "__iter__", "__len__", "__reversed__", "keys"];

impl<'py> Capture<'py> {
    /// Guards that an existing C callable is this one. A method is its name and what it is bound to, which is an existing object like
    /// any other from then on.
    pub(crate) fn pin_native(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if receiver(object).is_none_or(|target| self.torch.is_primitive(&target)) {
            return if self.torch.is_primitive(object) { Ok(()) } else { self.pin(object, source) };
        }
        self.pin_type(object, source)?;
        let name = self.guards.source(Source::GetAttr(source, "__name__".into()));
        self.guarded(self.guards.equals(name, &object.getattr("__name__")?))?;
        self.part(object, "__self__").map(drop)
    }

    /// A call of a method of an existing list, tuple, dict or set.
    pub(crate) fn call_on_container(
        &self,
        object: &Bound<'py, PyAny>,
        name: &str,
        (target, source): (Bound<'py, PyAny>, SourceId),
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        if let ("get" | "__getitem__", [key, rest @ ..]) = (name, args)
            && target.is_instance_of::<PyDict>()
        {
            let found = self.get_item(&Tracked { object: target, source: Some(source) }, key);
            return match found {
                Err(Halt::Raise(error)) if name == "get" && error.is_instance_of::<pyo3::exceptions::PyKeyError>(self.py) => {
                    Ok(rest.first().cloned().unwrap_or_else(|| Tracked::new(self.py.None().into_bound(self.py))))
                }
                other => other,
            };
        }
        let copy = self.snapshot(&target, source)?;
        // Its elements are known now.
        self.note_compared(object, name, args)?;
        let (given, keywords) = self.native_arguments(args, kwargs)?;
        let method = copy.getattr(name)?;
        self.returned(self.natively(name, || method.call(given, Some(&keywords))))
    }

    /// Guards what a method of this name may read of the existing object that it is bound to.
    pub(crate) fn guard_receiver(&self, name: &str, target: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if let Ok(dict) = target.cast::<PyDict>()
            && OF_KEYS.contains(&name)
        {
            self.pin_type(target, source)?;
            return self.guarded(self.guards.dict_keys(source, dict));
        }
        if self.guard_contents(target, source)? {
            return self.stop(reason::UNGUARDABLE, format!("tensors in a {}", type_name(target)));
        }
        Ok(())
    }
}
