//! Callables around a Python function: those cached by `functools.lru_cache`, `functools.partial`, `torch.inference_mode`.

use dynamlir_cpython_abi::remembered::remembered;
use dynamlir_guards::{Constant, Facet, Source, SourceId};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyDict, PyFunction, PyTuple},
};

use crate::{
    floors::Operations,
    graph_break::{Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, describe},
        type_name,
    },
    state::number_places::Want,
};

impl<'py> Operations<'py> {
    /// Calls an existing function under `functools.lru_cache`, with the result from the cache. If the cache does not have it yet, the call
    /// runs as plain Python: the function may do anything, at that time and once, and the next call finds the result. Tracing into it would
    /// be wrong, because what it reads may change while the cache keeps its result.
    pub(crate) fn cached(
        &self,
        callable: &Tracked<'py>,
        source: SourceId,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        self.guarded(self.guards.identity(source, &callable.object))?;
        let keywords = PyDict::new(self.py);
        for value in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
            self.guard_value(value)?;
        }
        for (name, value) in kwargs {
            keywords.set_item(name, &value.object)?;
        }
        let positional = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
        let named = PyTuple::new(self.py, keywords.iter())?;
        let given = PyTuple::new(self.py, [positional.as_any(), named.as_any()])?;
        let Some(given) = Constant::new(given.as_any())? else {
            return self.cached_by_objects(callable, args, kwargs);
        };
        // The guard queries the cache with these exact values.
        self.guard_inside([positional.as_any(), named.as_any()], &[])?;
        if let Some(answer) = dynamlir_interpreter::suspended(|| remembered(&callable.object, &positional, &keywords))? {
            let asked = self.guards.source(Source::Remembered(source, given));
            self.guards.present(asked);
            return self.wrap(answer, asked);
        }
        let asked = self.guards.source(Source::Remembers(source, given));
        self.guarded(self.guards.equals(asked, PyBool::new(self.py, false).as_any()))?;
        self.break_graph(reason::FIRST_CALL, describe(&callable.object))
    }

    /// Calls a cached function with tensors, or with other objects that are compared by identity. Only at run time is it known if the cache
    /// has the result, and the cache must have it afterwards, so Python makes the call, between two graphs. If the function can be
    /// captured, it is compiled separately when the cache calls it, and nothing else runs as plain Python.
    fn cached_by_objects(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let inner = self.part(&callable.object, "__wrapped__")?;
        if self.progress.tries.get() {
            return self.call(&inner, args, kwargs);
        }
        if self.is_compiled_alone(&inner, args, kwargs)? {
            return self.break_graph(reason::REGION, describe(&callable.object));
        }
        self.break_graph(reason::C_FUNCTION, "functools.lru_cache, of more than numbers and text")
    }

    /// Calls a `functools.partial`: its function, with its arguments before those of the call.
    pub(crate) fn call_partial(&self, object: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let function = self.part(object, "func")?;
        let given = self.part(object, "args")?;
        let mut all = self.unpack(&given, given.object.len()?)?;
        self.uses(&given, Facet::Shape);
        let rest = self.fill_places(&given.object, &mut all, args)?;
        all.extend_from_slice(rest);
        let named = self.part(object, "keywords")?;
        let keywords = named.object.cast::<PyDict>().map_err(PyErr::from)?;
        self.uses(&named, Facet::Shape);
        if let Some(source) = self.source_of(&named.object) {
            self.guarded(self.guards.dict_keys(source, keywords))?;
        }
        let mut merged: Keywords<'py> = Vec::new();
        for (key, _) in keywords.iter() {
            let name: String = key.extract()?;
            if !kwargs.iter().any(|(given, _)| *given == name) {
                merged.push((name, self.get_item(&named, &Tracked::new(key))?));
            }
        }
        merged.extend(kwargs.iter().cloned());
        self.call(&function, &all, &merged)
    }

    /// Replaces each `functools.Placeholder` of a partial (from CPython 3.14 on) with an argument of a call; returns the other arguments.
    fn fill_places<'a>(
        &self,
        given: &Bound<'py, PyAny>,
        items: &mut [Tracked<'py>],
        args: &'a [Tracked<'py>],
    ) -> Outcome<&'a [Tracked<'py>]> {
        if !self.effects.kinds.has_placeholder() {
            return Ok(args);
        }
        if let Some(source) = self.source_of(given) {
            // Another partial with as many arguments may have it elsewhere. It is the only object of its class.
            for (at, item) in given.try_iter()?.enumerate() {
                self.pin_type(&item?, self.guards.source(Source::Index(source, at as u32)))?;
            }
        }
        let mut rest = args.iter();
        let places: Vec<_> = items.iter_mut().filter(|item| self.effects.kinds.is_placeholder(&item.object)).collect();
        let (expected, got) = (places.len(), args.len());
        if got < expected {
            let message = format!("missing positional arguments in 'partial' call; expected at least {expected}, got {got}");
            return Err(Halt::Raise(PyTypeError::new_err(message)));
        }
        places.into_iter().zip(rest.by_ref()).for_each(|(place, arg)| *place = arg.clone());
        Ok(rest.as_slice())
    }

    /// Calls a function that only reads its arguments: `inspect.signature`. It reads more of a function than its code.
    pub(crate) fn call_opaque(&self, object: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        for arg in args {
            if let Some(source) = self.source_of(&arg.object).filter(|_| arg.object.is_instance_of::<PyFunction>()) {
                self.pin_parts(&arg.object, source)?;
            }
        }
        let (given, keywords) = self.looked_into(args, kwargs)?;
        let result = dynamlir_interpreter::suspended(|| object.call(given, Some(&keywords)))?;
        self.wrap_untracked(result)
    }

    /// Guards everything that a function's signature is built from.
    fn pin_parts(&self, function: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.pin_function(&Tracked { object: function.clone(), source: Some(source) })?;
        self.pin_whole(self.guards.source(Source::Defaults(source)), &function.getattr("__defaults__")?)?;
        let named = self.guards.source(Source::KwDefaults(source));
        match function.getattr("__kwdefaults__")?.cast_into::<PyDict>() {
            Err(_) => drop(self.guarded(self.guards.equals(named, self.py.None().bind(self.py)))?),
            Ok(defaults) => {
                self.guarded(self.guards.dict_keys(named, &defaults))?;
                for (name, value) in defaults.iter() {
                    let name: String = name.extract()?;
                    self.pin_whole(self.guards.source(Source::KwDefault(source, name.into())), &value)?;
                }
            }
        }
        let annotations = function.getattr("__annotations__")?.cast_into::<PyDict>().map_err(PyErr::from)?;
        let at = self.guards.source(Source::GetAttr(source, "__annotations__".into()));
        self.guarded(self.guards.dict_keys(at, &annotations))?;
        for (name, value) in annotations.iter() {
            let item = self.guarded(self.guards.item(at, &name))?;
            if !self.guarded(self.guards.equals(item, &value))? {
                self.pin_whole(item, &value)?;
            }
        }
        for name in ["__wrapped__", "__signature__"] {
            let at = self.guards.attr(source, name);
            match function.getattr_opt(name)? {
                None => self.guards.absent(at),
                Some(value) => self.pin(&value, at)?,
            }
        }
        Ok(())
    }

    /// Guards a value that is read by code the capture cannot see: its identity, or that of its parts.
    pub(crate) fn pin_whole(&self, source: SourceId, value: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.guards.identity(source, value).is_ok() {
            return Ok(());
        }
        let Ok(items) = value.cast_exact::<PyTuple>() else {
            return self.break_graph(reason::UNGUARDABLE, format!("{} at {}", type_name(value), self.guards.expression(source)));
        };
        self.pin_type(value, source)?;
        self.guards.length(source, items.len());
        for (at, item) in items.iter().enumerate() {
            self.pin_whole(self.guards.source(Source::Index(source, at as u32)), &item)?;
        }
        Ok(())
    }

    /// Guards the code and the defaults of a function that C code calls. The place where C code found it is guarded elsewhere.
    pub(crate) fn pin_called(&self, function: &Bound<'py, PyAny>) -> Outcome<()> {
        if self.is_made(function) || self.is_young(function) {
            return Ok(());
        }
        let label: String = function.getattr("__qualname__")?.extract()?;
        let source = match self.source_of(function) {
            Some(source) => source,
            None => self.guarded(self.guards.hold(function, &label))?,
        };
        let function = Tracked { object: function.clone(), source: Some(source) };
        self.pin_function(&function)?;
        self.settle_defaults(&function, 0, &Vec::new())
    }

    /// Takes in a default that Python's own argument binding substitutes for a missing argument, as it is.
    fn settle_default(&self, value: Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        self.take(value, source, Want::Exact).map(drop)
    }

    /// Guards the defaults that a call uses and, if it passes too few arguments, the number of defaults.
    pub(crate) fn settle_defaults(&self, function: &Tracked<'py>, positional: usize, kwargs: &Keywords<'py>) -> Outcome<()> {
        let Some(source) = self.source(function) else { return Ok(()) };
        let object = &function.object;
        let given = |name: &str| kwargs.iter().any(|(known, _)| known == name);
        let code = object.getattr("__code__")?;
        let count: usize = code.getattr("co_argcount")?.extract()?;
        let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
        let missing: Vec<_> = (positional..count).filter(|&at| !given(&names[at])).collect();
        if !missing.is_empty() {
            let at = self.guards.source(Source::Defaults(source));
            match object.getattr("__defaults__")?.cast_into::<PyTuple>() {
                Err(_) => drop(self.guarded(self.guards.equals(at, self.py.None().bind(self.py)))?),
                Ok(defaults) => {
                    self.pin_type(defaults.as_any(), at)?;
                    self.guards.length(at, defaults.len());
                    let first = count.saturating_sub(defaults.len());
                    for place in missing.into_iter().filter_map(|place| place.checked_sub(first)) {
                        self.settle_default(defaults.get_item(place)?, self.guards.source(Source::Default(source, place as u32)))?;
                    }
                }
            }
        }
        let keyword_only: usize = code.getattr("co_kwonlyargcount")?.extract()?;
        let missing: Vec<_> = names.iter().skip(count).take(keyword_only).filter(|name| !given(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let Ok(defaults) = object.getattr("__kwdefaults__")?.cast_into::<PyDict>() else {
            let at = self.guards.source(Source::KwDefaults(source));
            return self.guarded(self.guards.equals(at, self.py.None().bind(self.py))).map(drop);
        };
        for name in missing {
            let at = self.guards.source(Source::KwDefault(source, name.as_str().into()));
            match defaults.get_item(name)? {
                Some(value) => self.settle_default(value, at)?,
                None => self.guards.absent(at),
            }
        }
        Ok(())
    }

    /// Returns true if the captured call runs in inference mode.
    pub(crate) fn in_inference_mode(&self) -> PyResult<bool> {
        self.recorder().inference()
    }

    /// Handles `torch.inference_mode(enabled)` within the frame. It creates tensors of another kind, unless the caller has the same mode.
    pub(crate) fn inference_mode(&self, enabled: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        self.guard_value(enabled)?;
        let enabled = enabled.object.is_truthy()?;
        if enabled != self.in_inference_mode()? {
            let called = if enabled { "True" } else { "False" };
            return self.break_graph(reason::THREAD_STATE, format!("torch.inference_mode({called}) within the function"));
        }
        Ok(Tracked::new(self.recorder().inference_mode(enabled)?))
    }
}
