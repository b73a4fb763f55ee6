//! Calls of C functions, according to their effects in the effect table.

use dynamlir_cpython_abi::{kind, mapping};
use dynamlir_guards::Facet;
use pyo3::{
    prelude::*,
    types::{PyDict, PyFunction, PyInt, PyList, PySlice, PyString, PyTuple, PyType},
};

use crate::{
    floors::Operations,
    graph_break::{Outcome, reason},
    heap::callbacks,
    objects::{
        Tracked,
        callable_kinds::CallableKind,
        callables::{Keywords, describe, receiver},
        callback_wrapper::{self, Wrapper},
        effects::Effect,
        lookup::{is_changeable, lookup},
        special_names,
    },
    state::number_places::Want,
};

/// Functions that do not inspect their arguments.
const NOT_LOOKING: &[&str] = &["append", "appendleft", "insert", "isinstance", "setdefault", "__setitem__"];

/// Methods that change their object and inspect their arguments; other methods store them.
const LOOKED_INTO: &[&str] = &[
    "__iadd__",
    "__iand__",
    "__init__",
    "__ior__",
    "__isub__",
    "__ixor__",
    "_count_elements",
    "difference_update",
    "extend",
    "extendleft",
    "intersection_update",
    "remove",
    "symmetric_difference_update",
    "update",
];

/// Dict methods that return the contents and never consult the class of their object.
const OF_PLAIN_DICTS: &[&str] = &["get", "items", "values"];

/// Methods of `types.MappingProxyType` that delegate to the mapping.
const OF_MAPPINGS: &[&str] = &["__contains__", "__getitem__", "copy", "get", "items", "keys", "values"];

impl<'py> Operations<'py> {
    /// Returns arguments for C code: existing containers as guarded copies, primitives guarded.
    pub(crate) fn native_arguments(
        &self,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        self.refuse_changed_within(args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object))?;
        let given: Vec<_> = args.iter().map(|arg| self.readable(arg)).collect::<Outcome<_>>()?;
        let keywords = PyDict::new(self.py);
        for (name, value) in kwargs {
            keywords.set_item(name, self.readable(value)?)?;
        }
        Ok((PyTuple::new(self.py, given)?, keywords))
    }

    /// Like [`Self::native_arguments`], for C code that inspects all its arguments: existing objects inside the frame's own objects are
    /// guarded as well.
    pub(crate) fn looked_into(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let given = args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object);
        self.guard_values(given, &[], true, Want::Flexible)?;
        self.native_arguments(args, kwargs)
    }

    pub(crate) fn call_native(
        &self,
        callable: &Tracked<'py>,
        effect: Effect,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        if let Some(source) = self.source(callable) {
            self.pin_native(&callable.object, source)?;
        }
        if let Some(float) = self.float_of_size(&callable.object, args, kwargs)? {
            return Ok(float);
        }
        self.refuse_numbers_in_c(&callable.object, effect, args, kwargs)?;
        if let Some(same) = self.int_of_size(&callable.object, args, kwargs) {
            return Ok(same);
        }
        if let Some(product) = self.product_of_sizes(&callable.object, args)? {
            return Ok(product);
        }
        let settled = self.settle_for_c(&callable.object, effect, args, kwargs)?;
        let (args, kwargs) = settled.as_ref().map_or((args, kwargs), |(args, kwargs)| (&args[..], kwargs));
        let name = || callable.object.getattr("__name__").and_then(|name| name.extract::<String>()).unwrap_or_default();
        if (self.writes.has_changes() || self.writes.is_recording()) && !NOT_LOOKING.contains(&name().as_str()) {
            let bound = receiver(&callable.object);
            self.refuse_changed_within(args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object).chain(&bound))?;
        }
        let given = args.iter().chain(kwargs.iter().map(|(_, value)| value));
        given.fold(self.call_by_effect(callable, effect, args, kwargs), |called, value| {
            let called = self.or_lacking(called, &value.object, special_names::METHODS);
            self.or_lacking(called, &value.object, special_names::CALLED)
        })
    }

    fn call_by_effect(
        &self,
        callable: &Tracked<'py>,
        effect: Effect,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let object = &callable.object;
        match effect {
            Effect::Special(special) => self.call_special(callable, special, args, kwargs),
            Effect::Torch => {
                if matches!(self.effects.kinds.of(object), CallableKind::Overload) {
                    self.refuse_operator_after_writes(object)?;
                }
                self.torch_call(object, args, kwargs)
            }
            Effect::SetsState => self.state_call(object, args, kwargs),
            Effect::Outside => {
                let (given, keywords) = self.looked_into(args, kwargs)?;
                let result = self.outside(|| object.call(given, Some(&keywords)))?;
                self.wrap_untracked(result)
            }
            Effect::ReadsState => {
                let (given, keywords) = self.looked_into(args, kwargs)?;
                self.returned(object.call(given, Some(&keywords)))
            }
            Effect::Asked => self.ask_again(object, args, kwargs),
            Effect::MutatesFirst => {
                let target = match receiver(object) {
                    Some(target) => target,
                    None => match args.first() {
                        Some(first) => first.object.clone(),
                        None => return self.break_graph(reason::C_FUNCTION, describe(object)),
                    },
                };
                let name: String = object.getattr("__name__").and_then(|name| name.extract()).unwrap_or_default();
                if let Some(source) = self.source_of(&target).filter(|_| self.can_change(&target))
                    && is_method_of(object, &target, &name)?
                {
                    let rest = if receiver(object).is_some() { args } else { &args[1..] };
                    return self.change(&target, source, &name, rest, kwargs);
                }
                self.own(&target)?;
                self.mutate(object, &name, args, kwargs)
            }
            Effect::Refused(why) => self.break_graph(why, describe(object)),
            Effect::Pure => self.call_pure(object, args, kwargs),
            Effect::Numbers => {
                let (given, keywords) = self.looked_into(args, kwargs)?;
                // For empty input, numpy warns in Python code.
                let empty = |value: &Bound<'py, PyAny>| value.len().is_ok_and(|length| length == 0);
                if !given.iter().chain(keywords.values().iter()).all(|value| self.torch.is_plain(&value) && !empty(&value)) {
                    return self.break_graph(reason::C_FUNCTION, describe(object));
                }
                let result = dynamlir_interpreter::suspended(|| object.call(given, Some(&keywords)))?;
                self.wrap_untracked(result)
            }
            Effect::Data if self.all_data(args, kwargs) => self.call_on_data(object, args, kwargs),
            Effect::Data => self.break_graph(reason::C_FUNCTION, describe(object)),
        }
    }

    /// Calls a method that changes its object, which belongs to the frame.
    pub(crate) fn mutate(
        &self,
        object: &Bound<'py, PyAny>,
        name: &str,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let bound = usize::from(receiver(object).is_none());
        let sliced = name == "__setitem__" && args.iter().any(|arg| arg.object.is_instance_of::<PySlice>());
        let want = if sliced || LOOKED_INTO.contains(&name) { Want::Flexible } else { Want::Exact };
        self.guard_beneath(object, name, args, kwargs.iter().any(|(name, _)| name == "key"), want)?;
        self.note_compared(object, name, args)?;
        let args = self.with_noted_items(object, name, args)?;
        let (args, kwargs) = self.called_back(name, &args, kwargs)?;
        let args = args.iter().enumerate().map(|(at, arg)| self.taken_in(name, at >= bound, sliced, arg)).collect::<Outcome<Vec<_>>>()?;
        self.natively(name, || self.enter(object, &args, &kwargs))
    }

    /// Calls a function that reads only data: its result is new.
    pub(crate) fn call_on_data(&self, object: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let (given, keywords) = self.looked_into(args, kwargs)?;
        given.iter().chain(keywords.values().iter()).try_for_each(|value| self.guard_digits_in(&value))?;
        let result = dynamlir_interpreter::suspended(|| object.call(given, Some(&keywords)))?;
        let mut waiting = vec![result.clone()];
        while let Some(value) = waiting.pop() {
            if let Ok(items) = value.cast_exact::<PyDict>() {
                self.note_new(&value);
                waiting.extend(items.values());
            } else if let Ok(items) = value.cast_exact::<PyList>() {
                waiting.extend(items.iter());
            }
        }
        self.wrap_untracked(result)
    }

    /// Returns an argument for a method that changes its object: in the form that C code may read if the method inspects it, otherwise the
    /// very object, which is stored.
    fn taken_in(&self, name: &str, counts: bool, sliced: bool, arg: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if counts && (sliced || LOOKED_INTO.contains(&name)) { Ok(Tracked::new(self.readable(arg)?)) } else { Ok(arg.clone()) }
    }

    /// Ends the capture where a `defaultdict` would call unknown C code.
    fn refuse_factory(&self, object: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<()> {
        let Some(factory) = args.first().map(|factory| &factory.object) else { return Ok(()) };
        let known = factory.is_none()
            || factory.is_exact_instance_of::<PyFunction>()
            || factory.cast::<PyType>().is_ok_and(|class| is_changeable(class) || self.effects.knows_type(class));
        if known { Ok(()) } else { self.break_graph(reason::C_FUNCTION, describe(object)) }
    }

    pub(crate) fn note_compared(&self, object: &Bound<'py, PyAny>, name: &str, args: &[Tracked<'py>]) -> Outcome<()> {
        let given: Vec<_> = args.iter().map(|arg| arg.object.clone()).collect();
        match (receiver(object), given.split_first()) {
            // A method accessed through its class receives its object as the first argument.
            (None, Some((target, given))) if kind::is_class_member(object) => self.compared_by(object, name, Some(target), given),
            (target, _) => self.compared_by(object, name, target.as_ref(), &given),
        }
    }

    /// Returns the arguments of C code that compares the items of iterators: in place of each iterator, one that notes its items when they are
    /// computed. Items of containers are known before.
    fn with_noted_items(&self, object: &Bound<'py, PyAny>, name: &str, args: &[Tracked<'py>]) -> Outcome<Vec<Tracked<'py>>> {
        let Some(wrapper) = self.notes_for_items(object, name)? else { return Ok(args.to_vec()) };
        // Other arguments are values: what `max` chooses from, what `fromkeys` stores.
        let iterated = match name {
            "max" | "min" if args.len() > 1 => 0,
            "fromkeys" => 1,
            _ => args.len(),
        };
        args.iter().enumerate().map(|(at, arg)| if at < iterated { self.with_notes(wrapper, arg) } else { Ok(arg.clone()) }).collect()
    }

    /// Returns an iterable whose items all are noted when C code puts them into a set.
    pub(crate) fn items_in_set(&self, iterable: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        self.with_notes(callback_wrapper::addressed(self.py)?, iterable)
    }

    /// Returns an iterator over the same items that a wrapper notes, in place of one whose items are computed later.
    fn with_notes(&self, wrapper: &Wrapper, iterable: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if self.torch.is_tensor(&iterable.object) || !computes_items(&iterable.object)? {
            return Ok(iterable.clone());
        }
        let noting = self.wrapped(wrapper.around(&callback_wrapper::keys(self.py)?.getattr("compared")?)?)?;
        let map = dynamlir_cpython_abi::import(self.py, "builtins")?.getattr("map")?;
        self.call_pure(&map, &[noting, iterable.clone()], &Keywords::default())
    }

    /// Returns the first of several values for which the comparison with all before it is true, as `max` and `min` find it, where some are
    /// tensors.
    fn extreme(&self, comparison: &str, values: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let mut found = values[0].clone();
        for value in &values[1..] {
            if self.truth(&self.binary(comparison, value, &found)?)? {
                found = value.clone();
            }
        }
        Ok(found)
    }

    /// Returns true for a tensor of the graph that is not a number known only at the call.
    fn is_tensor(&self, value: &Tracked<'py>) -> bool {
        self.torch.is_fake(&value.object) && !self.torch.is_number(&value.object)
    }

    pub(crate) fn call_pure(&self, object: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let name: String = object.getattr("__name__").and_then(|name| name.extract()).unwrap_or_default();
        if self.torch.is_weak_reference_class(object) {
            self.refuse_weak_reference(args)?;
        }
        if name == "abs" && args.len() == 1 && self.torch.is_fake(&args[0].object) {
            return self.operator("abs", args);
        }
        if name == "defaultdict" {
            self.refuse_factory(object, args)?;
        }
        if matches!(name.as_str(), "max" | "min") && kwargs.is_empty() && args.len() > 1 && args.iter().any(|arg| self.is_tensor(arg)) {
            return self.extreme(if name == "max" { "gt" } else { "lt" }, args);
        }
        if callbacks::calls_back(&name) {
            self.guard_beneath(object, &name, args, kwargs.iter().any(|(name, _)| name == "key"), Want::Flexible)?;
            self.note_compared(object, &name, args)?;
            let args = self.with_noted_items(object, &name, args)?;
            let (args, kwargs) = self.called_back(&name, &args, kwargs)?;
            let (given, keywords) = self.native_arguments(&args, &kwargs)?;
            return self.returned(self.natively(&name, || object.call(given, Some(&keywords))));
        }
        if matches!(name.as_str(), "str" | "repr" | "ascii" | "format") && args.iter().any(|arg| self.torch.any_fake(&arg.object)) {
            return self.break_graph(reason::DATA_DEPENDENT_TEXT, format!("{name}() of a tensor"));
        }
        if self.converts(object, args, kwargs) {
            if self.torch.is_number(&args[0].object) {
                return Ok(args[0].clone());
            }
            if self.may_be_read(&args[0].object, "__float__")? {
                self.tensor_slot(&args[0].object, "__float__")?;
                return self.method("item", args);
            }
        }
        if object.is(self.py.get_type::<PyInt>())
            && let ([value], true) = (args, kwargs.is_empty())
            && self.torch.is_fake(&value.object)
            && !self.torch.is_number(&value.object)
            && self.known_contents(&value.object, "__int__")?.is_none()
            && self.may_be_read(&value.object, "__int__")?
        {
            self.tensor_slot(&value.object, "__int__")?;
            return self.method("item", args);
        }
        if let (true, [value], "int" | "float" | "bool" | "complex") =
            (object.is_instance_of::<PyType>() && kwargs.is_empty(), args, &*name)
            && self.torch.is_fake(&value.object)
            && let Some(known) = self.known_contents(&value.object, &format!("__{name}__"))?
        {
            return Ok(known);
        }
        if object.is_instance_of::<PyType>()
            && matches!(name.as_str(), "int" | "float" | "bool" | "complex")
            && args.iter().any(|arg| self.torch.is_fake(&arg.object))
        {
            let why = if name == "bool" { reason::DATA_DEPENDENT_BRANCH } else { reason::DATA_DEPENDENT };
            return self.break_graph(why, format!("{name}() of a tensor"));
        }
        if OF_PLAIN_DICTS.contains(&name.as_str())
            && let Some(target) = receiver(object)
            && let (Ok(dict), Some(source)) = (target.cast::<PyDict>(), self.source_of(&target))
            && !self.torch.is_container(dict)
        {
            self.guards.demand(source, Facet::Shape);
            return self.call_pure(&self.plain_dict(dict, source)?.getattr(&name)?, args, kwargs);
        }
        if kwargs.is_empty()
            && OF_MAPPINGS.contains(&name.as_str())
            && let Some(target) = receiver(object).filter(mapping::shows_items)
            && let Some(dict) = self.viewed(&target)?
        {
            if name == "copy" && mapping::is_frozen(&target) {
                // A copy would be indistinguishable from it.
                return Ok(Tracked { source: self.source_of(&target), object: target });
            }
            return self.call(&self.load_attr(&dict, &PyString::new(self.py, &name))?, args, kwargs);
        }
        self.refuse_lookups_in_fields(object, &name, args)?;
        if name == "int" {
            args.iter().try_for_each(|arg| self.guard_digits_in(&arg.object))?;
        }
        self.guard_beneath(object, &name, args, false, Want::Flexible)?;
        for (_, value) in kwargs {
            self.guard_beneath(object, &name, std::slice::from_ref(value), false, Want::Flexible)?;
        }
        self.note_compared(object, &name, args)?;
        if let Some(target) = receiver(object)
            && let Some(source) = self.source_of(&target)
        {
            if self.torch.is_container(&target) {
                return self.call_on_container(object, &name, (target, source), args, kwargs);
            }
            self.guard_receiver(&name, &target, source)?;
        }
        let args = self.with_noted_items(object, &name, args)?;
        let (given, keywords) = self.native_arguments(&args, kwargs)?;
        let result = self.natively(&name, || object.call(given, Some(&keywords)));
        // The result of a constructor or a copy is new, even if the garbage collector does not track it.
        let makes = object.is_instance_of::<PyType>() || matches!(name.as_str(), "copy" | "fromkeys" | "groupdict" | "__or__" | "__ror__");
        if let Ok(made) = &result
            && makes
            && !self.torch.is_primitive(made)
            && self.source_of(made).is_none()
        {
            self.note_new(made);
            // A partial always has a dict of its own.
            if self.effects.kinds.is_partial_class(object)
                && let Ok(keywords) = made.getattr("keywords")
            {
                self.note_new(&keywords);
            }
        }
        self.returned(result)
    }
}

/// Returns true if a method, bound or not, is the one that the class of its object has under the name: `dict.clear` is not that of an
/// `OrderedDict`.
fn is_method_of(method: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let Some(found) = lookup(&object.get_type(), name)? else { return Ok(false) };
    if receiver(method).is_none() {
        return Ok(found.is(method));
    }
    // Bound slots know their class; other bound methods have it in their qualified name.
    match method.getattr_opt("__objclass__")? {
        Some(class) => Ok(class.is(&found.getattr("__objclass__")?)),
        None => found.getattr("__qualname__")?.eq(method.getattr("__qualname__")?),
    }
}

/// Returns true for iterators that are not mappings: code that runs later computes their items.
fn computes_items(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = value.get_type();
    Ok(lookup(&class, "__next__")?.is_some() && lookup(&class, "keys")?.is_none())
}
