//! Calls: Python functions are interpreted, torch's functions become nodes, C functions go by the effect table.

use dynamlir_guards::Source;
use pyo3::{
    prelude::*,
    types::{PyDict, PyFunction, PyList, PyString, PyTuple, PyType},
};

use crate::{
    attributes::lookup,
    callbacks,
    effects::{Effect, Special},
    state::{Capture, Halt, Outcome, Tracked, type_name},
    stop::reason,
    tensors::rows,
};

/// Modules whose Python functions are operations of the graph, not code to look into.
const LEAF_MODULES: &[&str] = &["torch.nn.functional", "torch.functional", "torch._tensor", "torch.special", "torch.linalg", "torch.fft"];

/// Python functions that only read what they are given and are called as they are: looking into them would show nothing.
const OPAQUE: &[(&str, &str)] = &[("inspect", "signature"), ("inspect", "getfullargspec"), ("typing", "cast")];

/// Functions of `re` that only look at text, and keep patterns in a cache of their own.
const TEXT: &[&str] = &["compile", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"];

/// Python functions that must not be interpreted, with the reason.
const REFUSED: &[(&str, &str, &str)] = &[
    ("warnings", "warn", reason::PRINT),
    ("torch.autograd", "backward", reason::AUTOGRAD),
    ("torch.autograd", "grad", reason::AUTOGRAD),
    ("torch.random", "manual_seed", reason::SIDE_EFFECT),
];

/// Operators that compare.
const COMPARISONS: &[&str] = &["eq", "ge", "gt", "le", "lt", "ne"];

/// Keyword arguments of a call, in order.
pub type Keywords<'py> = Vec<(String, Tracked<'py>)>;

impl<'py> Capture<'py> {
    /// `callable(*args, **kwargs)`.
    pub fn call(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        if let Some(result) = self.switched(callable, args, kwargs)? {
            return Ok(result);
        }
        let object = &callable.object;
        let kind = object.get_type();
        match kind.name()?.to_str()? {
            "function" => return self.call_function(callable, args, kwargs),
            "method" => {
                let function = self.part(object, "__func__")?;
                let mut all = vec![self.part(object, "__self__")?];
                all.extend_from_slice(args);
                return self.call(&function, &all, kwargs);
            }
            "partial" => {
                let function = self.part(object, "func")?;
                let given = self.part(object, "args")?;
                let mut all = self.unpack(&given, given.object.len()?)?;
                all.extend_from_slice(args);
                let named = self.part(object, "keywords")?;
                let mut merged: Keywords<'py> = Vec::new();
                for (key, _) in named.object.cast::<PyDict>().map_err(PyErr::from)?.iter() {
                    let name: String = key.extract()?;
                    if !kwargs.iter().any(|(given, _)| *given == name) {
                        merged.push((name, self.get_item(&named, &Tracked::new(key))?));
                    }
                }
                merged.extend(kwargs.iter().cloned());
                return self.call(&function, &all, &merged);
            }
            "CompiledFunction" => {
                // Inside of a capture it is what it was made of.
                let inner = self.part(object, "__wrapped__")?;
                return self.call(&inner, args, kwargs);
            }
            "_lru_cache_wrapper" => {
                if let Some(known) = self.cached(callable, args, kwargs)? {
                    return Ok(known);
                }
                // Calling it would leave a fake in the user's cache.
                let inner = self.part(object, "__wrapped__")?;
                return self.call(&inner, args, kwargs);
            }
            _ => {}
        }
        if self.torch.is_weak_reference(object) && args.is_empty() {
            return self.referent(callable);
        }
        if let Some(effect) = self.effects.of(object) {
            return self.call_native(callable, effect, args, kwargs);
        }
        if object.is_instance_of::<PyType>() {
            return self.call_class(callable, args, kwargs);
        }
        if let Some(method) = lookup(&kind, "__call__")?
            && method.is_exact_instance_of::<PyFunction>()
        {
            let function = match self.source(callable) {
                Some(source) => self.wrap(method, self.guards.type_attr(self.class_source(object, source)?, "__call__"))?,
                None => Tracked::new(method),
            };
            let mut all = vec![callable.clone()];
            all.extend_from_slice(args);
            if self.torch.is_module(object) {
                return self.repeated(object, args, kwargs, || self.call(&function, &all, kwargs));
            }
            return self.call(&function, &all, kwargs);
        }
        self.stop(reason::C_FUNCTION, describe(object))
    }

    /// `__func__`, `__self__` or `__wrapped__`, with its source where the whole has one.
    fn part(&self, object: &Bound<'py, PyAny>, name: &str) -> Outcome<Tracked<'py>> {
        let value = object.getattr(name)?;
        match self.source_of(object) {
            Some(source) => {
                self.pin_type(object, source)?;
                self.wrap(value, self.guards.source(Source::GetAttr(source, name.into())))
            }
            None => self.met(value),
        }
    }

    fn call_function(&self, function: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let object = &function.object;
        self.pin_function(function)?;
        if let Some(Effect::Special(special)) = self.effects.of(object) {
            return self.call_special(function, special, args, kwargs);
        }
        let module: String = object.getattr("__module__").and_then(|module| module.extract()).unwrap_or_default();
        let name: String = object.getattr("__name__")?.extract()?;
        if module == "torch._dynamo.mutation_guard" && name == "tag" {
            // Once torch.compile was used, each new module is noted for TorchDynamo, which is not to see it now.
            return Ok(Tracked::new(self.py.None().into_bound(self.py)));
        }
        for (from, refused, why) in REFUSED {
            if module == *from && name == *refused {
                return self.stop(why, format!("{module}.{name}"));
            }
        }
        let text = module == "re" && TEXT.contains(&name.as_str()) && self.all_primitive(args, kwargs);
        if text || OPAQUE.contains(&(module.as_str(), name.as_str())) {
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            let result = dynamlir_interpreter::suspended(|| object.call(given, Some(&keywords)))?;
            return self.met(result);
        }
        if LEAF_MODULES.contains(&module.as_str()) && self.touches_tensors(args, kwargs) {
            let method = module == "torch._tensor" && args.first().is_some_and(|first| self.torch.is_fake(&first.object));
            if method {
                let all: Vec<_> = args.to_vec();
                return self.torch_call(&all[0].object.getattr(name.as_str())?, &all[1..], kwargs);
            }
            return self.torch_call(object, args, kwargs);
        }
        self.settle_defaults(function, args.len(), kwargs)?;
        self.enter(object, args, kwargs)
    }

    /// Calls Python code through the frame hook, which interprets it.
    fn enter(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        for value in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
            self.settle(value)?;
        }
        let given = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
        self.entering.set(callable.as_ptr() as usize);
        let result = if kwargs.is_empty() {
            callable.call1(given)
        } else {
            let keywords = PyDict::new(self.py);
            for (name, value) in kwargs {
                keywords.set_item(name, &value.object)?;
            }
            callable.call(given, Some(&keywords))
        };
        self.returned(result)
    }

    /// The result of C or Python code that may have interpreted frames beneath it.
    pub(crate) fn returned(&self, result: PyResult<Bound<'py, PyAny>>) -> Outcome<Tracked<'py>> {
        if let Some(stop) = self.stop.borrow().clone() {
            return Err(Halt::Stop(stop));
        }
        match result {
            Ok(object) => self.met(object),
            Err(error) => Err(self.session_error(error)),
        }
    }

    /// Guards that a function is this one, with this code.
    pub(crate) fn pin_function(&self, function: &Tracked<'py>) -> Outcome<()> {
        let source = match self.source(function) {
            Some(source) => source,
            None if self.is_made(&function.object) => return Ok(()),
            None => {
                let name: String = function.object.getattr("__qualname__")?.extract()?;
                self.guarded(self.guards.hold(&function.object, &name))?
            }
        };
        self.pin(&function.object, source)?;
        let code = function.object.getattr("__code__")?;
        self.guarded(self.guards.code(source, &code))?;
        // Its globals, cells and defaults are reached through it.
        self.wrap(function.object.clone(), source)?;
        Ok(())
    }

    /// Guards the defaults that a call uses.
    fn settle_defaults(&self, function: &Tracked<'py>, positional: usize, kwargs: &Keywords<'py>) -> Outcome<()> {
        let Some(source) = self.source(function) else { return Ok(()) };
        let object = &function.object;
        if let Ok(defaults) = object.getattr("__defaults__")?.cast_into::<PyTuple>() {
            let count: usize = object.getattr("__code__")?.getattr("co_argcount")?.extract()?;
            let names = object.getattr("__code__")?.getattr("co_varnames")?;
            let first = count - defaults.len().min(count);
            for at in first.max(positional)..count {
                let name: String = names.get_item(at)?.extract()?;
                if kwargs.iter().any(|(given, _)| *given == name) {
                    continue;
                }
                let place = (at - first) as u32;
                let value = self.wrap(defaults.get_item(at - first)?, self.guards.source(Source::Default(source, place)))?;
                self.settle(&value)?;
            }
        }
        if let Ok(defaults) = object.getattr("__kwdefaults__")?.cast_into::<PyDict>() {
            for (name, value) in defaults.iter() {
                let name: String = name.extract()?;
                if kwargs.iter().any(|(given, _)| *given == name) {
                    continue;
                }
                let value = self.wrap(value, self.guards.source(Source::KwDefault(source, name.into())))?;
                self.settle(&value)?;
            }
        }
        Ok(())
    }

    fn all_primitive(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> bool {
        args.iter().chain(kwargs.iter().map(|(_, value)| value)).all(|value| self.torch.is_primitive(&value.object))
    }

    fn touches_tensors(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> bool {
        args.iter().chain(kwargs.iter().map(|(_, value)| value)).any(|value| self.holds_tensor(value))
    }

    fn holds_tensor(&self, value: &Tracked<'py>) -> bool {
        if self.torch.any_fake(&value.object) {
            return true;
        }
        self.source_of(&value.object).is_some()
            && (value.object.is_exact_instance_of::<PyList>() || value.object.is_exact_instance_of::<PyTuple>())
            && value.object.try_iter().is_ok_and(|mut items| items.any(|item| item.is_ok_and(|item| self.torch.is_tensor(&item))))
    }

    fn call_class(&self, class: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let object = &class.object;
        if let Some(source) = self.source(class) {
            self.pin(object, source)?;
        }
        let kind = object.cast::<PyType>().map_err(PyErr::from)?;
        // How instances are made must be Python, or C that the table knows.
        for slot in ["__new__", "__init__"] {
            let Some(found) = lookup(kind, slot)? else { continue };
            let maker = if slot == "__new__" { object.getattr("__new__")? } else { found };
            let python = maker.is_exact_instance_of::<PyFunction>() || maker.get_type().name()? == "method";
            if !python && self.effects.of(&maker).is_none() {
                return self.stop(reason::C_FUNCTION, describe(object));
            }
        }
        let metaclass = object.get_type();
        let meta_call = lookup(&metaclass, "__call__")?;
        if let Some(call) = meta_call.filter(pyo3::types::PyAnyMethods::is_exact_instance_of::<PyFunction>) {
            let mut all = vec![class.clone()];
            all.extend_from_slice(args);
            return self.call(&Tracked::new(call), &all, kwargs);
        }
        if kind.is_subclass_of::<PyDict>()? || kind.is_subclass_of::<PyList>()? || kind.is_subclass_of::<PyTuple>()? {
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            return self.returned(object.call(given, Some(&keywords)));
        }
        self.enter(object, args, kwargs)
    }

    /// Arguments for C code: existing containers as guarded copies, primitives guarded.
    fn native_arguments(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let given: Vec<_> = args.iter().map(|arg| self.readable(arg)).collect::<Outcome<_>>()?;
        let keywords = PyDict::new(self.py);
        for (name, value) in kwargs {
            keywords.set_item(name, self.readable(value)?)?;
        }
        Ok((PyTuple::new(self.py, given)?, keywords))
    }

    fn call_native(&self, callable: &Tracked<'py>, effect: Effect, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let object = &callable.object;
        if let Some(source) = self.source(callable)
            && !self.torch.is_primitive(object)
            && self.guards.identity(source, object).is_err()
        {
            self.pin_type(object, source)?;
        }
        match effect {
            Effect::Special(special) => self.call_special(callable, special, args, kwargs),
            Effect::Torch => self.torch_call(object, args, kwargs),
            Effect::SetsState => self.state_call(object, args, kwargs),
            Effect::Outside => {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                let result = self.outside(|| object.call(given, Some(&keywords)))?;
                self.met(result)
            }
            Effect::ReadsState => {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                self.returned(object.call(given, Some(&keywords)))
            }
            Effect::MutatesFirst => {
                let target = match receiver(object) {
                    Some(target) => target,
                    None => match args.first() {
                        Some(first) => first.object.clone(),
                        None => return self.stop(reason::C_FUNCTION, describe(object)),
                    },
                };
                if let Some(source) = self.source_of(&target) {
                    return self.stop(reason::SIDE_EFFECT, format!("changes {}", self.guards.expression(source)));
                }
                let name: String = object.getattr("__name__").and_then(|name| name.extract()).unwrap_or_default();
                self.note_compared(object, &name, args)?;
                self.enter(object, args, kwargs)
            }
            Effect::Pure => self.call_pure(object, args, kwargs),
            Effect::Numbers => {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                if !given.iter().chain(keywords.values().iter()).all(|value| self.torch.is_plain(&value)) {
                    return self.stop(reason::C_FUNCTION, describe(object));
                }
                let result = dynamlir_interpreter::suspended(|| object.call(given, Some(&keywords)))?;
                self.met(result)
            }
        }
    }

    fn note_compared(&self, object: &Bound<'py, PyAny>, name: &str, args: &[Tracked<'py>]) -> Outcome<()> {
        let given: Vec<_> = args.iter().map(|arg| arg.object.clone()).collect();
        self.compared_by(name, receiver(object).as_ref(), &given)
    }

    fn call_pure(&self, object: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let name: String = object.getattr("__name__").and_then(|name| name.extract()).unwrap_or_default();
        if callbacks::calls_back(&name) {
            let (args, kwargs) = self.called_back(args, kwargs)?;
            let (given, keywords) = self.native_arguments(&args, &kwargs)?;
            return self.returned(object.call(given, Some(&keywords)));
        }
        if object.is_instance_of::<PyType>()
            && matches!(name.as_str(), "int" | "float" | "bool" | "complex")
            && args.iter().any(|arg| self.torch.is_fake(&arg.object))
        {
            return self.stop(reason::DATA_DEPENDENT, format!("{name}() of a tensor"));
        }
        self.note_compared(object, &name, args)?;
        if let Some(target) = receiver(object)
            && let Some(source) = self.source_of(&target)
            && self.torch.is_container(&target)
        {
            if let ("get" | "__getitem__", [key, rest @ ..]) = (name.as_str(), args)
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
            self.note_compared(object, &name, args)?;
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            return self.returned(copy.getattr(name.as_str())?.call(given, Some(&keywords)));
        }
        let (given, keywords) = self.native_arguments(args, kwargs)?;
        self.returned(object.call(given, Some(&keywords)))
    }

    fn call_special(
        &self,
        callable: &Tracked<'py>,
        special: Special,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let py = self.py;
        let boolean = |value: bool| Tracked::new(pyo3::types::PyBool::new(py, value).to_owned().into_any());
        let name_of = |value: &Tracked<'py>| -> Outcome<Bound<'py, PyString>> {
            self.settle(value)?;
            Ok(value.object.cast::<PyString>().map_err(PyErr::from)?.clone())
        };
        match (special, args) {
            (Special::True, _) => Ok(boolean(true)),
            (Special::False, _) => Ok(boolean(false)),
            (Special::None, _) => Ok(Tracked::new(py.None().into_bound(py))),
            (Special::Zero, _) => Ok(Tracked::new(0i64.into_pyobject(py).map_err(PyErr::from)?.into_any())),
            (Special::GetAttr, [owner, name]) => self.load_attr(owner, &name_of(name)?),
            (Special::GetAttr, [owner, name, default]) => match self.load_attr(owner, &name_of(name)?) {
                Err(Halt::Raise(error)) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py) => Ok(default.clone()),
                other => other,
            },
            (Special::HasAttr, [owner, name]) => Ok(boolean(self.has_attr(owner, &name_of(name)?)?)),
            (Special::GenericGetAttr, [owner, name]) => match self.source(owner) {
                Some(source) if !self.torch.is_fake(&owner.object) => self.stored_attr(&owner.object, source, &name_of(name)?),
                _ => self.load_attr(owner, &name_of(name)?),
            },
            (Special::SetAttr, [owner, name, value]) => {
                self.store_attr(owner, &name_of(name)?, Some(value))?;
                Ok(Tracked::new(py.None().into_bound(py)))
            }
            (Special::DelAttr, [owner, name]) => {
                self.store_attr(owner, &name_of(name)?, None)?;
                Ok(Tracked::new(py.None().into_bound(py)))
            }
            (Special::GenericSetAttr | Special::GenericDelAttr, args) => {
                // Bound by `super()`, or called on the class.
                let bound = receiver(&callable.object).map(Tracked::new);
                let args: Vec<_> = bound.into_iter().chain(args.iter().cloned()).collect();
                match (special, &args[..]) {
                    (Special::GenericSetAttr, [owner, name, value]) => {
                        self.store_generic_attr(owner, &name_of(name)?, Some(value))?;
                    }
                    (Special::GenericDelAttr, [owner, name]) => self.store_generic_attr(owner, &name_of(name)?, None)?,
                    _ => return self.stop(reason::C_FUNCTION, describe(&callable.object)),
                }
                Ok(Tracked::new(py.None().into_bound(py)))
            }
            (Special::IsInstance, [value, class]) => {
                let class = self.classes(class)?;
                if self.torch.is_fake(&value.object) {
                    let builtins = py.import("builtins")?;
                    let answer = match self.real_of(&value.object) {
                        Some((real, _)) => dynamlir_interpreter::suspended(|| builtins.call_method1("isinstance", (real, &class)))?,
                        None => builtins.call_method1("issubclass", (self.tensor_class()?, &class))?,
                    };
                    self.registered_tensor(&value.object, &class)?;
                    return Ok(Tracked::new(answer));
                }
                if let Some(source) = self.source(value) {
                    self.pin_type(&value.object, source)?;
                }
                self.returned(callable.object.call1((&value.object, class)))
            }
            (Special::IsSubclass, [value, class]) => {
                let (value, class) = (self.readable(value)?, self.classes(class)?);
                self.returned(callable.object.call1((value, class)))
            }
            (Special::Registered, [base, value]) => self.registered(&callable.object, base, value),
            (Special::Type, [value]) => self.class_of(value),
            (Special::Iter, [value]) => self.iter(value),
            (Special::Len, [value]) if self.torch.is_fake(&value.object) => rows(&value.object),
            (Special::Len, [value]) => {
                if let Some(source) = self.source_of(&value.object)
                    && self.torch.is_container(&value.object)
                {
                    self.pin_type(&value.object, source)?;
                    self.guards.length(source, value.object.len()?);
                    return Ok(Tracked::new(value.object.len()?.into_pyobject(py).map_err(PyErr::from)?.into_any()));
                }
                self.call_pure(&callable.object, args, kwargs)
            }
            (Special::Sum, [values, start @ ..]) => {
                let mut total = match start.first() {
                    Some(start) => start.clone(),
                    None => Tracked::new(0i64.into_pyobject(py).map_err(PyErr::from)?.into_any()),
                };
                for value in self.unpack_any(values, None)? {
                    total = self.binary("add", &total, &value)?;
                }
                Ok(total)
            }
            (Special::Vars, [value]) => self.load_attr(value, &PyString::new(py, "__dict__")),
            (Special::Operator(name), _) => self.call_operator(&callable.object, name, args, kwargs),
            (Special::Reduce, _) => self.reduce(&callable.object, args),
            (Special::FunctionApply, _) => self.apply_function(&callable.object, args, kwargs),
            (Special::IsInference, _) => Ok(boolean(self.in_inference_mode()?)),
            (Special::InferenceMode, [enabled]) => self.inference_mode(enabled),
            (Special::ContextVarGet, _) => self.context_value(&callable.object, args),
            _ => {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                self.returned(callable.object.call(given, Some(&keywords)))
            }
        }
    }

    fn call_operator(
        &self,
        function: &Bound<'py, PyAny>,
        name: &'static str,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        match (name, args) {
            ("getitem", [container, key]) => self.get_item(container, key),
            ("setitem", [container, key, value]) => {
                self.set_item(container, key, Some(value))?;
                Ok(Tracked::new(self.py.None().into_bound(self.py)))
            }
            ("is_" | "is_not", [lhs, rhs]) => {
                let same = self.is_same(lhs, rhs)? == (name == "is_");
                Ok(Tracked::new(pyo3::types::PyBool::new(self.py, same).to_owned().into_any()))
            }
            _ if args.iter().any(|arg| self.torch.is_fake(&arg.object)) => self.operator(name, args),
            _ if COMPARISONS.contains(&name) && args.len() == 2 => self.binary(name, &args[0], &args[1]),
            ("contains", [container, item]) => {
                let found = self.contains(container, item)?;
                Ok(Tracked::new(pyo3::types::PyBool::new(self.py, found).to_owned().into_any()))
            }
            _ => {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                self.returned(function.call(given, Some(&keywords)))
            }
        }
    }

    /// A binary operator by its name in `operator`.
    pub fn binary(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let in_place = match name {
            "iand" => Some("and_"),
            "ior" => Some("or_"),
            "invert" => None,
            _ => name.strip_prefix('i'),
        };
        if self.torch.is_fake(&lhs.object) {
            return self.operator(name, &[lhs.clone(), rhs.clone()]);
        }
        // A number has no operator in place: 0 += t is 0 + t. A list has: it is extended by the rows.
        if self.torch.is_fake(&rhs.object) && (in_place.is_none() || self.torch.is_primitive(&lhs.object)) {
            return self.operator(in_place.unwrap_or(name), &[lhs.clone(), rhs.clone()]);
        }
        if in_place.is_some()
            && let Some(source) = self.source_of(&lhs.object)
            && self.torch.is_container(&lhs.object)
            // These make new ones.
            && !lhs.object.is_instance_of::<PyTuple>()
            && !lhs.object.is_instance_of::<pyo3::types::PyFrozenSet>()
        {
            return self.stop(reason::SIDE_EFFECT, format!("changes {}", self.guards.expression(source)));
        }
        let (left, right) = (self.readable(lhs)?, self.readable(rhs)?);
        for value in [lhs, rhs] {
            if let Some(source) = self.source_of(&value.object) {
                self.pin_type(&value.object, source)?;
            }
        }
        if COMPARISONS.contains(&name) {
            self.compared([&left, &right])?;
        }
        let function = self.py.import("operator")?.getattr(name)?;
        self.returned(function.call1((left, right)))
    }

    /// A unary operator by its name in `operator`.
    pub fn unary(&self, name: &str, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.torch.is_fake(&value.object) {
            return self.operator(name, std::slice::from_ref(value));
        }
        let object = self.readable(value)?;
        self.returned(self.py.import("operator")?.getattr(name)?.call1((object,)))
    }
}

/// The object a builtin method is bound to; None for plain functions and unbound methods.
pub(crate) fn receiver<'py>(callable: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let kind = callable.get_type();
    let kind = kind.name().ok()?;
    if !["builtin_function_or_method", "builtin_method", "method-wrapper"].iter().any(|known| kind == *known) {
        return None;
    }
    let owner = callable.getattr("__self__").ok()?;
    if kind == "method-wrapper" {
        return Some(owner);
    }
    (!owner.is_none() && !owner.is_instance_of::<PyType>() && !owner.is_instance_of::<pyo3::types::PyModule>()).then_some(owner)
}

/// `math.foo`, `numpy.ndarray.sum`, for messages.
fn describe(callable: &Bound<'_, PyAny>) -> String {
    let text = |name: &str| callable.getattr(name).and_then(|value| value.extract::<String>()).ok();
    match (text("__module__"), text("__qualname__")) {
        (Some(module), Some(name)) => format!("{module}.{name}"),
        (None, Some(name)) => name,
        _ => format!("an object of type {}", type_name(callable)),
    }
}
