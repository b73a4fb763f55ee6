//! Existing objects that C methods are bound to: `pattern.match("a")`, `{"a": 1}.get`, `names.__len__()`.
//!
//! The method reads its object, and the capture cannot see which parts. So the whole object is guarded, as if it were an argument.

use dynamlir_guards::{Facet, Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{
    floors::{Heap, Numbers, Operations, Sources},
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, receiver},
        type_name,
    },
};

type Any<'py> = Bound<'py, PyAny>;

/// Dict methods that do not read values.
const OF_KEYS: &[&str] = &["__contains__", "__iter__", "__len__", "__reversed__", "keys"];

impl<'py> Sources<'py> {
    /// Ends the capture where `str.format` would look up attributes or items: `"{0.shape[1]}"`. The objects it finds there are not visible.
    pub(crate) fn refuse_lookups_in_fields(&self, object: &Bound<'py, PyAny>, name: &str, args: &[Tracked<'py>]) -> Outcome<()> {
        if !matches!(name, "format" | "format_map") {
            return Ok(());
        }
        let target = receiver(object).or_else(|| args.first().map(|first| first.object.clone()));
        let Some(text) = target.and_then(|target| target.cast_into::<PyString>().ok()) else { return Ok(()) };
        let parse = dynamlir_cpython_abi::import(self.py, "_string")?.getattr("formatter_parser")?;
        let mut waiting = vec![text.into_any()];
        while let Some(text) = waiting.pop() {
            // A malformed format raises when it is called.
            let Ok(parts) = parse.call1((text,)).and_then(|parts| parts.try_iter()) else { return Ok(()) };
            for part in parts {
                let Ok((_, field, format, _)) = part.and_then(|part| part.extract::<(Any<'py>, Any<'py>, Any<'py>, Any<'py>)>()) else {
                    return Ok(());
                };
                if field.extract::<&str>().is_ok_and(|field| field.contains(['.', '['])) {
                    return self.break_graph(reason::C_FUNCTION, format!("str.{name}, which looks into {{{field}}}"));
                }
                if !format.is_none() {
                    waiting.push(format);
                }
            }
        }
        Ok(())
    }
}

impl<'py> Numbers<'py> {
    /// Guards the identity of an existing C callable. A method is guarded by its name and by the object it is bound to, which is then
    /// treated like any other existing object.
    pub(crate) fn pin_native(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if receiver(object).is_none_or(|target| self.torch.is_primitive(&target)) {
            return if self.torch.is_primitive(object) { Ok(()) } else { self.pin(object, source) };
        }
        self.pin_type(object, source)?;
        let name = self.guards.source(Source::GetAttr(source, "__name__".into()));
        self.guarded(self.guards.equals(name, &object.getattr("__name__")?))?;
        self.part(object, "__self__").map(drop)
    }

    /// Rebinds a method of an existing tensor, bound before the capture, to the fake that represents the tensor: called directly it would
    /// change the real tensor. `None` for anything else.
    pub(crate) fn rebound(&self, callable: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let object = &callable.object;
        if !receiver(object).is_some_and(|target| self.torch.is_tensor(&target) && !self.torch.is_fake(&target)) {
            return Ok(None);
        }
        if let Some(source) = self.source(callable) {
            self.pin_native(object, source)?;
        }
        let this = self.part(object, "__self__")?;
        let name = object.getattr("__name__")?.cast_into::<PyString>().map_err(PyErr::from)?;
        Ok(Some(Tracked::new(dynamlir_interpreter::suspended(|| this.object.getattr(name))?)))
    }
}

impl<'py> Heap<'py> {
    /// Guards everything a method of this name may read of the existing object that it is bound to.
    pub(crate) fn guard_receiver(&self, name: &str, target: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if let Ok(dict) = target.cast::<PyDict>()
            && OF_KEYS.contains(&name)
        {
            self.guards.demand(source, Facet::Shape);
            self.pin_type(target, source)?;
            return self.guarded(self.guards.dict_keys(source, dict));
        }
        if self.all_contents(target, source)? {
            return self.break_graph(reason::UNGUARDABLE, format!("tensors in a {}", type_name(target)));
        }
        Ok(())
    }
}

impl<'py> Operations<'py> {
    /// Calls a method of an existing list, tuple, dict or set.
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
            let container = Tracked { object: target, source: Some(source) };
            if name == "get" && !self.contains(&container, key)? {
                // `get` does not store the default.
                return Ok(rest.first().cloned().unwrap_or_else(|| Tracked::new(self.py.None().into_bound(self.py))));
            }
            return self.get_item(&container, key);
        }
        let copy = self.snapshot(&target, source)?;
        self.guards.demand(source, Facet::Shape);
        // Its elements are known by now.
        self.note_compared(object, name, args)?;
        let (given, keywords) = self.native_arguments(args, kwargs)?;
        let method = copy.getattr(name)?;
        self.returned(self.natively(name, || method.call(given, Some(&keywords))))
    }
}
