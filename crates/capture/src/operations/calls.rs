//! Calls: Python functions are interpreted, torch's functions become nodes, C functions follow the effect table.

use dynamlir_cpython_abi::{function, kind};
use dynamlir_guards::{Facet, Source};
use dynamlir_interpreter::{Value, semantics};
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    types::{PyDict, PyFloat, PyFrozenSet, PyFunction, PyInt, PyList, PySet, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Heap, Numbers, Operations},
    graph_break::{Halt, Outcome, reason},
    objects::{
        Tracked,
        callable_kinds::{self, CallableKind, KnownFunction},
        callables::{COMPARISONS, Keywords, describe, in_place, methods_of, receiver},
        effects::{Effect, NODES},
        layout::Layout,
        lookup::{is_immutable, lookup},
        special_names,
    },
    state::number_places::Want,
};

impl<'py> Operations<'py> {
    /// `callable(*args, **kwargs)`.
    pub fn call(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        if let Some(result) = self.switched(callable, args, kwargs)? {
            return Ok(result);
        }
        let object = &callable.object;
        match self.effects.kinds.of(object) {
            CallableKind::Function => return self.call_function(callable, args, kwargs),
            CallableKind::Method => {
                let function = self.part(object, "__func__")?;
                let mut all = vec![self.part(object, "__self__")?];
                if self.torch.is_fake(&all[0].object) && function.object.getattr("__name__")?.eq("tolist")? {
                    if let Some(known) = self.known_contents(&all[0].object, "tolist")?.filter(|_| args.is_empty() && kwargs.is_empty()) {
                        if known.object.is_instance_of::<PyList>() {
                            self.note_new(&known.object);
                        }
                        return Ok(known);
                    }
                    if args.is_empty()
                        && kwargs.is_empty()
                        && let Some(listed) = self.listed(&all[0])?
                    {
                        return Ok(listed);
                    }
                    // The fake's own method is Python code that would read each element.
                    return self.break_graph(reason::DATA_DEPENDENT, "Tensor.tolist");
                }
                all.extend_from_slice(args);
                return self.call(&function, &all, kwargs);
            }
            CallableKind::Partial => return self.call_partial(object, args, kwargs),
            CallableKind::BoundSlot if self.effects.kinds.calls_partial(object)? => {
                let partial = self.part(object, "__self__")?;
                return self.call_partial(&partial.object, args, kwargs);
            }
            CallableKind::Compiled => {
                // Within a capture, a compiled function is the function that it was compiled from.
                let inner = self.part(object, "__wrapped__")?;
                return self.call(&inner, args, kwargs);
            }
            CallableKind::Cached => {
                if let Some(source) = self.source(callable) {
                    return self.cached(callable, source, args, kwargs);
                }
                // A cache created in the frame is empty.
                let inner = self.part(object, "__wrapped__")?;
                return self.call(&inner, args, kwargs);
            }
            CallableKind::ItemGetter | CallableKind::AttrGetter | CallableKind::MethodCaller if args.len() == 1 && kwargs.is_empty() => {
                return self.call_getter(callable, &args[0]);
            }
            _ => {}
        }
        if self.torch.is_weak_reference(object) && args.is_empty() {
            return self.referent(callable);
        }
        if let Some(bound) = self.rebound(callable)? {
            return self.call(&bound, args, kwargs);
        }
        if let Some(effect) = self.effects.of(object) {
            return self.call_native(callable, effect, args, kwargs);
        }
        if object.is_instance_of::<PyType>() {
            return self.call_class(callable, args, kwargs);
        }
        if let Some(method) = lookup(&object.get_type(), "__call__")?
            && method.is_exact_instance_of::<PyFunction>()
        {
            let function = match self.class_at(object)? {
                Some(class) => self.wrap(method, self.guards.type_attr(class, "__call__"))?,
                None => Tracked::new(method),
            };
            let mut all = vec![callable.clone()];
            all.extend_from_slice(args);
            if self.torch.is_module(object) {
                return self.repeated(object, args, kwargs, || self.call(&function, &all, kwargs));
            }
            return self.call(&function, &all, kwargs);
        }
        self.stop_at_unknown(object)
    }

    /// Ends the capture at an unknown C function. Writing to a stream, and everything that `logging` does, is output.
    pub(crate) fn stop_at_unknown<T>(&self, function: &Bound<'py, PyAny>) -> Outcome<T> {
        let writes = receiver(function).is_some_and(|file| self.torch.is_file(&file));
        let logs = self.logs();
        let reason = if writes || logs.is_some() { reason::PRINT } else { reason::C_FUNCTION };
        self.break_graph(reason, logs.unwrap_or_else(|| describe(function)))
    }

    /// Returns the function of `logging` that the program has called, if the frame is inside it.
    fn logs(&self) -> Option<String> {
        let called = self.location().into_iter().take_while(|(file, ..)| self.torch.is_logging(file)).last();
        called.map(|(_, _, name, _)| format!("{name}() of logging"))
    }

    fn call_function(&self, function: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let object = &function.object;
        self.uses(function, Facet::Code);
        self.pin_function(function)?;
        match self.effects.of(object) {
            Some(Effect::Special(special)) => return self.call_special(function, special, args, kwargs),
            Some(Effect::Refused(why)) => return self.break_graph(why, self.logs().unwrap_or_else(|| describe(object))),
            Some(Effect::Torch) if is_node(object)? => {
                // A Python function of torch that is one node.
                self.pin_leaf(object)?;
                self.settle_defaults(function, args.len(), kwargs)?;
                self.layers.note_unrepeatable();
                return self.torch_call(object, args, kwargs);
            }
            Some(Effect::SetsState) => {
                self.pin_leaf(object)?;
                self.settle_defaults(function, args.len(), kwargs)?;
                return self.state_call(object, args, kwargs);
            }
            _ => {}
        }
        if let Some(inner) = self.torch.wrapped_by_disable(object)
            && let Some(Effect::Refused(why)) = self.effects.of(&inner)
        {
            return self.break_graph(why, describe(&inner));
        }
        if callable_kinds::is_of(object, "torch._dynamo.mutation_guard", &["GenerationTracker", "tag", "__func__"])? {
            // After any use of torch.compile, each new module is recorded for TorchDynamo, which must not see it now.
            return Ok(Tracked::new(self.py.None().into_bound(self.py)));
        }
        if let Some(made) = self.call_of_sizes(object, args, kwargs)? {
            self.pin_leaf(object)?;
            return Ok(made);
        }
        match self.effects.kinds.function(object) {
            Some(KnownFunction::Opaque) => return self.call_opaque(object, args, kwargs),
            Some(KnownFunction::Data) if self.all_data(args, kwargs) => return self.call_on_data(object, args, kwargs),
            Some(KnownFunction::Leaf { method }) if self.touches_tensors(args, kwargs) => {
                let given = args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object);
                self.refuse_numbers("Python code of torch's is given", given)?;
                self.pin_leaf(object)?;
                self.settle_defaults(function, args.len(), kwargs)?;
                if method && args.first().is_some_and(|first| self.torch.is_fake(&first.object)) {
                    return self.call_method(object, args, kwargs);
                }
                return self.torch_call(object, args, kwargs);
            }
            _ => {}
        }
        self.settle_defaults(function, args.len(), kwargs)?;
        self.enter(object, args, kwargs)
    }

    /// Calls Python code through the frame hook, which interprets it.
    pub(crate) fn enter(&self, callable: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let carried = Self::carried(callable, args, kwargs)?;
        for (at, value) in args.iter().chain(kwargs.iter().map(|(_, value)| value)).enumerate() {
            if !carried.iter().any(|(place, ..)| *place == at) {
                self.guard_value(value)?;
            }
        }
        let values: Vec<Value<'py>> =
            args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|arg| arg.object.clone().into()).collect();
        let names = if kwargs.is_empty() { None } else { Some(PyTuple::new(self.py, kwargs.iter().map(|(name, _)| name))?) };
        self.calling.entering.set(callable.as_ptr() as usize);
        let sources = carried.iter().filter_map(|(_, slot, value)| Some((*slot, value.source?))).collect();
        let outer = self.calling.carried.replace(Some((callable.as_ptr() as usize, sources)));
        let result = semantics::call(callable, &values, names.as_ref());
        if self.calling.carried.replace(outer).is_some() {
            // The function has not begun a frame that took them.
            carried.iter().try_for_each(|(.., value)| self.guard_value(value))?;
        }
        self.returned(result)
    }

    /// Returns the numbers among the arguments of a Python function that become parameters of its frame and keep their sources there, with
    /// their positions among the arguments and their slots. Other numbers, in `*args` say, lose their sources.
    fn carried(callable: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Vec<(usize, usize, Tracked<'py>)>> {
        let is_number = |value: &Tracked<'py>| {
            let object = &value.object;
            value.source.is_some() && (object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>())
        };
        if !args.iter().chain(kwargs.iter().map(|(_, value)| value)).any(is_number) {
            return Ok(Vec::new());
        }
        let Some(code) = function::code(callable) else { return Ok(Vec::new()) };
        let number = |name: &str| code.getattr(name)?.extract::<usize>();
        let (positional, only, keyword) = (number("co_argcount")?, number("co_posonlyargcount")?, number("co_kwonlyargcount")?);
        let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
        let slots = args.iter().enumerate().filter(|(slot, _)| *slot < positional).map(|(slot, value)| (slot, slot, value));
        let named = kwargs.iter().enumerate().filter_map(|(at, (name, value))| {
            let slot = names.iter().position(|known| known == name)?;
            (only..positional + keyword).contains(&slot).then_some((args.len() + at, slot, value))
        });
        Ok(slots.chain(named).filter(|(.., value)| is_number(value)).map(|(at, slot, value)| (at, slot, value.clone())).collect())
    }

    pub(crate) fn all_data(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> bool {
        args.iter().chain(kwargs.iter().map(|(_, value)| value)).all(|value| self.torch.is_data(&value.object))
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
        let kind = object.cast::<PyType>().map_err(PyErr::from)?;
        if let Some(source) = self.source(class) {
            self.pin(object, source)?;
            // The attributes that decide how instances are created and how the class is called.
            for name in ["__new__", "__init__", "__abstractmethods__"] {
                self.pin_entry(kind, source, &PyString::new(self.py, name))?;
            }
            self.pin_class_entry(object, source, &PyString::new(self.py, "__call__"))?;
        }
        if is_immutable(kind) && object.hasattr("n_sequence_fields")? {
            // A struct sequence: `torch.return_types.max`.
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            return self.returned(object.call(given, Some(&keywords)));
        }
        // Instances must be created by Python code, or by C code that the table knows.
        for slot in ["__new__", "__init__"] {
            let Some(found) = lookup(kind, slot)? else { continue };
            let maker = if slot == "__new__" { object.getattr("__new__")? } else { found };
            let python = kind::is_function(&maker) || kind::is_method(&maker);
            if !python && self.effects.of(&maker).is_none() {
                return self.break_graph(reason::C_FUNCTION, describe(object));
            }
        }
        let metaclass = object.get_type();
        let meta_call = lookup(&metaclass, "__call__")?;
        if let Some(call) = meta_call.filter(pyo3::types::PyAnyMethods::is_exact_instance_of::<PyFunction>) {
            let mut all = vec![class.clone()];
            all.extend_from_slice(args);
            return self.call(&Tracked::new(call), &all, kwargs);
        }
        let builtin = [
            self.py.get_type::<PyDict>(),
            self.py.get_type::<PyFrozenSet>(),
            self.py.get_type::<PyList>(),
            self.py.get_type::<PySet>(),
            self.py.get_type::<PyTuple>(),
        ];
        if let Some(base) = builtin.iter().find(|base| kind.is_subclass(base).unwrap_or(false)) {
            self.guard_beneath(object, base.name()?.to_str()?, args, false, Want::Flexible)?;
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            return self.returned(object.call(given, Some(&keywords)));
        }
        if self.makes_a_value(kind)? {
            // Creates a number or text from what C code finds in the arguments, which an `__init__` in Python gets as well.
            let given = args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object);
            self.guard_values(given.clone(), special_names::METHODS, true, Want::Exact)?;
            given.into_iter().try_for_each(|value| self.guard_digits_in(value))?;
            if !lookup(kind, "__init__")?.is_some_and(|found| kind::is_function(&found)) {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                return self.returned(object.call(given, Some(&keywords)));
            }
        }
        self.enter(object, args, kwargs)
    }

    /// Returns true if C code computes the instances of a class from its arguments, and does not just keep them.
    fn makes_a_value(&self, kind: &Bound<'py, PyType>) -> Outcome<bool> {
        let made_by_c = lookup(kind, "__new__")?.is_some_and(|found| kind::is_c_function(&found));
        let base = Layout::of(kind)?.base;
        let keeps = base.is(self.py.get_type::<PyAny>()) || kind.is_subclass_of::<PyBaseException>()? || kind.is_subclass_of::<PyType>()?;
        Ok(made_by_c && !keeps && !base.module()?.to_str()?.starts_with("torch"))
    }

    /// Applies a binary operator, given by its name in `operator`.
    pub fn binary(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if let Some([left, right]) = self.as_floats(name, lhs, rhs)? {
            return self.binary(name, &left, &right);
        }
        if let Some(result) = self.compare_number(name, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = self.computed(name, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = self.compared_numbers(name, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = self.by_own_method(name, lhs, rhs)? {
            return Ok(result);
        }
        let in_place = in_place(name);
        if (self.torch.is_fake(&lhs.object) || self.torch.is_fake(&rhs.object))
            && in_place.is_none()
            && let Some(result) = self.by_operand(name, lhs, rhs)?
        {
            return Ok(result);
        }
        if self.torch.is_fake(&lhs.object) {
            return self.operator(name, &[lhs.clone(), rhs.clone()]);
        }
        // Numbers do not have in-place operators: `0 += t` is `0 + t`. Lists do: a list is extended by the rows.
        if self.torch.is_fake(&rhs.object) && (in_place.is_none() || self.torch.is_primitive(&lhs.object)) {
            return self.operator(in_place.unwrap_or(name), &[lhs.clone(), rhs.clone()]);
        }
        if in_place.is_some()
            && let Some(source) = self.source_of(&lhs.object)
            // Other types create a new object. Operators written in Python are traced into.
            && lookup(&lhs.object.get_type(), &format!("__{name}__"))?.is_some_and(|own| !own.is_exact_instance_of::<PyFunction>())
        {
            if self.can_change(&lhs.object) {
                return self.change(&lhs.object, source, &format!("__{name}__"), std::slice::from_ref(rhs), &Vec::new());
            }
            return self.break_graph(reason::SIDE_EFFECT, format!("changes {}", self.guards.expression(source)));
        }
        self.refuse_changed_within([&lhs.object, &rhs.object])?;
        let (left, right) = (self.readable(lhs)?, self.readable(rhs)?);
        for value in [lhs, rhs] {
            if let Some(source) = self.source_of(&value.object) {
                self.pin_type(&value.object, source)?;
            }
        }
        self.guard_operands(name, [&left, &right])?;
        if COMPARISONS.contains(&name) {
            self.compared([&left, &right])?;
        }
        self.pin_operands(name, [&left, &right])?;
        let function = dynamlir_cpython_abi::import(self.py, "operator")?.getattr(name)?;
        let result = self.natively(name, || function.call1((left, right)));
        if let Ok(made) = &result
            && made.is_exact_instance_of::<PyDict>()
        {
            self.note_new(made);
        }
        self.returned(result)
    }

    /// Applies a unary operator, given by its name in `operator`.
    pub fn unary(&self, name: &str, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.torch.is_fake(&value.object) {
            return self.operator(name, std::slice::from_ref(value));
        }
        self.pin_specials(&value.object, methods_of(name))?;
        let object = self.readable(value)?;
        self.returned(dynamlir_cpython_abi::import(self.py, "operator")?.getattr(name)?.call1((object,)))
    }
}

impl<'py> Numbers<'py> {
    /// Returns `__func__`, `__self__` or `__wrapped__`, with its source if the whole object has one.
    pub(crate) fn part(&self, object: &Bound<'py, PyAny>, name: &str) -> Outcome<Tracked<'py>> {
        let value = object.getattr(name)?;
        match self.source_of(object) {
            Some(source) => {
                self.pin_type(object, source)?;
                let part = match name {
                    // The fields of a method: guards can remember a walk to there.
                    "__func__" if kind::is_method(object) => Source::MethodFunction(source),
                    "__self__" if kind::is_method(object) => Source::MethodSelf(source),
                    _ => Source::GetAttr(source, name.into()),
                };
                self.wrap(value, self.guards.source(part))
            }
            None => self.wrap_untracked(value),
        }
    }

    /// Returns the result of C or Python code that may have interpreted frames beneath it.
    pub(crate) fn returned(&self, result: PyResult<Bound<'py, PyAny>>) -> Outcome<Tracked<'py>> {
        if let Some(found) = self.graph_break.borrow().clone() {
            return Err(Halt::Break(found));
        }
        match result {
            Ok(object) => self.wrap_untracked(object),
            Err(error) => Err(match self.session_error(error) {
                Halt::Raise(error) if self.may_be_of_numbers(&error) => self.left_to_python(error),
                halt => halt,
            }),
        }
    }
}

impl<'py> Heap<'py> {
    /// Guards the identity of a function and its code.
    pub(crate) fn pin_function(&self, function: &Tracked<'py>) -> Outcome<()> {
        let source = match self.source(function) {
            Some(source) => source,
            None if self.is_made(&function.object) => return Ok(()),
            None => {
                let name: String = function.object.getattr("__qualname__")?.extract()?;
                self.guarded(self.guards.hold(&function.object, &name))?
            }
        };
        if self.is_made_anew(&function.object, source) {
            self.pin_made_anew(&function.object, source)?;
        } else {
            self.pin(&function.object, source)?;
        }
        let code = function.object.getattr("__code__")?;
        self.guarded(self.guards.code(source, &code))?;
        // Its globals, cells and defaults are reached through it.
        self.wrap(function.object.clone(), source)?;
        Ok(())
    }
}

/// Returns true if a function written in Python is one node.
fn is_node(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    for (module, name) in NODES {
        if callable_kinds::is_of(function, module, &[name])? {
            return Ok(true);
        }
    }
    Ok(false)
}
