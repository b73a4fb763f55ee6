//! `__reduce_ex__`, which `copy` and `pickle` use to take objects apart.
//!
//! It is implemented in C and reads everything that an object holds. It may read objects that the frame created; for an object that existed
//! before, everything it inspects is guarded first: the class, the methods of the protocol, and the dictionary it returns.

use dynamlir_guards::{Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyFunction, PyTuple},
};

use crate::{
    floors::Reads,
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        callables::receiver,
        layout::Layout,
        lookup::{instance_dict, lookup},
        type_name,
    },
};

/// The methods that `object.__reduce_ex__` looks up on an object.
const PROTOCOL: [&str; 4] = ["__reduce__", "__getnewargs_ex__", "__getnewargs__", "__getstate__"];

impl<'py> Reads<'py> {
    /// Calls a C implementation of `__reduce_ex__`, `__reduce__` or `__getstate__`.
    pub(crate) fn reduce(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        for arg in args {
            self.guard_value(arg)?;
        }
        let bound = receiver(callable).map(Tracked::new);
        let Some(target) = bound.clone().or_else(|| args.first().cloned()) else {
            return self.break_graph(reason::C_FUNCTION, "__reduce_ex__ of nothing");
        };
        let rest = if bound.is_some() { args } else { &args[1..] };
        let name: String = callable.getattr("__name__")?.extract()?;
        let object = &target.object;
        // Fills Python's own cache of a class's slots, which the call would otherwise fill.
        dynamlir_interpreter::suspended(|| {
            dynamlir_cpython_abi::import(self.py, "copyreg")?.call_method1("_slotnames", (object.get_type(),))
        })?;
        let given = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
        let Some(source) = self.source(&target).filter(|_| !self.torch.is_primitive(object)) else {
            return self.returned(callable.call1(given));
        };
        if self.torch.is_container(object) {
            let rest = PyTuple::new(self.py, rest.iter().map(|arg| &arg.object))?;
            return self.returned(self.snapshot(object, source)?.getattr(name.as_str())?.call1(rest));
        }
        self.guard_protocol(object, source)?;
        let answer = self.returned(callable.call1(given))?.object;
        let held = self.guards.source(Source::GetAttr(source, "__dict__".into()));
        if let Some(dict) = instance_dict(object) {
            if dict.is_empty() {
                self.guarded(self.guards.dict_keys(held, &dict))?;
            } else {
                self.wrap(dict.into_any(), held)?;
            }
        }
        Ok(Tracked::new(answer))
    }

    /// Guards everything that decides how an existing object is taken apart. These guards are known to be complete only in the plain case:
    /// a class written in Python, whose instances hold a dictionary and nothing else.
    fn guard_protocol(&self, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let class_source = self.class_source(object, source)?;
        let class = object.get_type();
        let layout = Layout::of(&class)?;
        if layout.slots || !layout.base.is(self.py.get_type::<PyAny>()) || self.is_written(object) {
            return self.break_graph(reason::UNGUARDABLE, format!("a copy of {}", type_name(object)));
        }
        for name in PROTOCOL {
            self.guards.absent(self.guards.attr(source, name));
            let at = self.guards.type_attr(class_source, name);
            match lookup(&class, name)? {
                None => self.guards.absent(at),
                Some(found) => {
                    let plain = lookup(&self.py.get_type::<PyAny>(), name)?.is_some_and(|own| own.is(&found));
                    if !plain && !found.is_exact_instance_of::<PyFunction>() {
                        return self.break_graph(reason::UNGUARDABLE, format!("a copy of {}", type_name(object)));
                    }
                    self.pin_class_attr(at, &found)?;
                }
            }
        }
        if instance_dict(object).is_some_and(|dict| PROTOCOL.iter().any(|name| dict.contains(name).unwrap_or(true))) {
            return self.break_graph(reason::UNGUARDABLE, format!("a copy of {}", type_name(object)));
        }
        Ok(())
    }
}
