//! Builtins that the policy performs itself, because they inspect objects or fakes.

use dynamlir_guards::Facet;
use pyo3::{
    intern,
    prelude::*,
    types::{PyByteArray, PyBytes, PyList, PyString, PyType},
};

use crate::{
    floors::Operations,
    graph_break::{Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{COMPARISONS, Keywords, describe, in_place, methods_of, receiver},
        effects::Special,
        special_names,
    },
    operations::tensors::rows,
};

impl<'py> Operations<'py> {
    pub(crate) fn call_special(
        &self,
        callable: &Tracked<'py>,
        special: Special,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let py = self.py;
        let boolean = |value: bool| Tracked::new(pyo3::types::PyBool::new(py, value).to_owned().into_any());
        let name_of = |value: &Tracked<'py>| -> Outcome<Bound<'py, PyString>> {
            Ok(self.readable(value)?.cast::<PyString>().map_err(PyErr::from)?.clone())
        };
        if !kwargs.is_empty() && !takes_keywords(special) {
            // Python itself raises the right error.
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            return self.returned(callable.object.call(given, Some(&keywords)));
        }
        if matches!(special, Special::FunctionApply | Special::Checkpoint | Special::Gradients(_)) && self.torch.in_transform(py)? {
            // Torch has its own rules for them there.
            return self.break_graph(reason::AUTOGRAD, format!("{} within a transform of torch.func", describe(&callable.object)));
        }
        match (special, args) {
            (Special::Compiling, []) => Ok(boolean(self.says_it_compiles())),
            (Special::False, []) => Ok(boolean(false)),
            (Special::None, [] | [_]) | (Special::Ignored, _) => Ok(Tracked::new(py.None().into_bound(py))),
            (Special::Annotates, [object]) => self.annotates(object),
            (Special::Zero, []) => Ok(Tracked::new(0i64.into_pyobject(py).map_err(PyErr::from)?.into_any())),
            (Special::GetAttr, [owner, name]) => self.load_attr(owner, &name_of(name)?),
            (Special::GetAttr, [owner, name, default]) => match self.load_attr(owner, &name_of(name)?) {
                Err(Halt::Raise(error)) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py) => Ok(default.clone()),
                other => other,
            },
            (Special::HasAttr, [owner, name]) => Ok(boolean(self.has_attr(owner, &name_of(name)?)?)),
            (Special::GenericGetAttr, args) => {
                let bound = receiver(&callable.object).map(Tracked::new);
                let args: Vec<_> = bound.into_iter().chain(args.iter().cloned()).collect();
                let [owner, name] = &args[..] else {
                    return self.break_graph(reason::C_FUNCTION, describe(&callable.object));
                };
                match self.source(owner) {
                    Some(source) if !self.torch.is_fake(&owner.object) => self.stored_attr(&owner.object, source, &name_of(name)?),
                    _ => self.stored_made_attr(&owner.object, &name_of(name)?),
                }
            }
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
                    _ => return self.break_graph(reason::C_FUNCTION, describe(&callable.object)),
                }
                Ok(Tracked::new(py.None().into_bound(py)))
            }
            (Special::IsInstance, [value, class]) => self.is_instance(&callable.object, value, class),
            (Special::PlainInstance, args) => self.plain_instance(&callable.object, args),
            (Special::IsSubclass, [value, class]) => {
                for value in [value, class] {
                    self.uses(value, Facet::Itself);
                }
                let (value, class) = (self.readable(value)?, self.classes(class)?);
                if let Some(source) = self.source_of(&value).filter(|_| value.is_instance_of::<PyType>()) {
                    self.pin_mro(&value, source)?;
                }
                self.returned(callable.object.call1((value, class)))
            }
            (Special::Registered, [base, value]) => self.registered(&callable.object, base, value),
            (Special::Type, [value]) => {
                self.uses(value, Facet::Class);
                self.class_of(value)
            }
            (Special::Iter, [_, _]) => {
                let (args, kwargs) = self.called_back("iter", args, kwargs)?;
                let (given, keywords) = self.native_arguments(&args, &kwargs)?;
                self.returned(callable.object.call(given, Some(&keywords)))
            }
            (Special::Iter, [value]) => self.iter(value),
            (Special::Iter, []) => match receiver(&callable.object) {
                Some(value) => self.iter(&Tracked::new(value)),
                None => self.returned(callable.object.call0()),
            },
            (Special::Len, [value]) if self.torch.is_fake(&value.object) => {
                self.tensor_slot(&value.object, "__len__")?;
                rows(&value.object)
            }
            (Special::Len, [value]) => {
                self.uses(value, Facet::Shape);
                if let Some(dict) = self.viewed(&value.object)? {
                    return self.call_special(callable, special, &[dict], kwargs);
                }
                if let Some(copy) = self.changed(&value.object)? {
                    return Ok(Tracked::new(copy.len()?.into_pyobject(py).map_err(PyErr::from)?.into_any()));
                }
                if let Some(source) = self.source_of(&value.object)
                    && self.torch.is_container(&value.object)
                {
                    self.refuse_written(&value.object)?;
                    self.pin_type(&value.object, source)?;
                    self.guards.length(source, value.object.len()?);
                    return Ok(Tracked::new(value.object.len()?.into_pyobject(py).map_err(PyErr::from)?.into_any()));
                }
                if let Some(source) = self.source_of(&value.object)
                    && let Some(count) = self.count_of_items(&value.object, source)?
                {
                    // An instance of a user-defined class: its contents are not inspected.
                    return Ok(Tracked::new(count.into_pyobject(py).map_err(PyErr::from)?.into_any()));
                }
                self.pin_specials(&value.object, special_names::LENGTH)?;
                self.or_lacking(self.call_pure(&callable.object, args, kwargs), &value.object, special_names::LENGTH)
            }
            (Special::Sum, [values, start @ ..]) if args.len() + kwargs.len() <= 2 => {
                let start = start.first().or_else(|| kwargs.iter().find(|(name, _)| name == "start").map(|(_, start)| start));
                self.sum(&callable.object, values, start, args, kwargs)
            }
            (Special::Vars, [value]) => match self.load_attr(value, &PyString::new(py, "__dict__")) {
                Err(Halt::Raise(error)) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py) => {
                    Err(Halt::Raise(pyo3::exceptions::PyTypeError::new_err("vars() argument must have __dict__ attribute")))
                }
                other => other,
            },
            (Special::Operator(name), _) => self.call_operator(&callable.object, name, args, kwargs),
            (Special::Reduce, _) => self.reduce(&callable.object, args),
            (Special::FunctionApply, _) => self.apply_function(&callable.object, args, kwargs),
            (Special::Level(begins), []) => self.level(begins),
            (Special::Transform(name), _) => {
                let instead = dynamlir_cpython_abi::import(py, "dynamlir.capture.transforms")?.getattr(name)?;
                self.call(&Tracked::new(instead), args, kwargs)
            }
            (Special::Region(name), _) => self.region(&callable.object, name, args, kwargs),
            (Special::SavedTensorsHooks, [pack, _]) => self.sets_saved_tensors_hooks(callable, pack),
            (Special::Loads, []) => {
                self.outside(|| callable.object.call0())?;
                Ok(Tracked::new(py.None().into_bound(py)))
            }
            (Special::Gradients(name), _) => {
                let instead = dynamlir_cpython_abi::import(py, "dynamlir.capture.gradients")?.getattr(name)?;
                self.call(&Tracked::new(instead), args, kwargs)
            }
            // Another function's graph would raise its own error, and only after its writes; and it does not take numbers.
            (Special::Expected, [_, asked, _]) if self.expected(asked)? => Ok(Tracked::new(py.None().into_bound(py))),
            (Special::IsSize, [size, ..]) if self.is_unbacked(size)? => {
                // Torch's own function issues a warning about itself.
                let instead = dynamlir_cpython_abi::import(py, "dynamlir.capture.assertions")?.getattr("is_size")?;
                self.call(&Tracked::new(instead), args, kwargs)
            }
            (Special::Expected | Special::IsSize, _) => {
                self.settle_defaults(callable, args.len(), kwargs)?;
                self.enter(&callable.object, args, kwargs)
            }
            (Special::Reading(..), _) if !self.recorder().reads_numbers()? => {
                self.settle_defaults(callable, args.len(), kwargs)?;
                self.enter(&callable.object, args, kwargs)
            }
            (Special::Reading(module, name), _) => {
                let instead = dynamlir_cpython_abi::import(py, &format!("dynamlir.capture.{module}"))?.getattr(name)?;
                self.call(&Tracked::new(instead), args, kwargs)
            }
            (Special::Reached, [outputs, inputs, differs]) => self.reached(outputs, inputs, differs),
            (Special::Checkpoint, _) => self.checkpointed(&callable.object, args, kwargs),
            (Special::AutocastCache, _) => Ok(Tracked::new(self.recorder().autocast_cache()?)),
            (Special::Handled, []) => self.handled_exception(&callable.object),
            (Special::Compared, [key]) => {
                self.compared([&key.object])?;
                Ok(key.clone())
            }
            (Special::Addressed, [key]) => {
                self.addressed([&key.object])?;
                Ok(key.clone())
            }
            (Special::Id | Special::Hash, [value]) => self.address_of(&callable.object, value, special == Special::Id),
            (Special::IsInference, _) => Ok(boolean(self.in_inference_mode()?)),
            (Special::InferenceMode, [enabled]) => self.inference_mode(enabled),
            (Special::Subclasses, []) => self.subclasses(&callable.object),
            (Special::OfTypes, _) => self.of_types(&callable.object, args),
            (Special::Binds, [owner] | [owner, _]) => self.get_by(&callable.object, owner),
            (Special::ChainOf, [iterables]) => self.chain_of(&callable.object, iterables),
            // Objects that the frame has created are not shared with another thread.
            (Special::Lock, _) if self.fills_a_cache() => Ok(boolean(true)),
            (Special::Unlock, _) if self.fills_a_cache() => Ok(Tracked::new(py.None().into_bound(py))),
            (Special::Lock | Special::Unlock, _) => self.stop_at_unknown(&callable.object),
            (Special::ContextVarGet, _) => self.context_value(&callable.object, args),
            (Special::ContextVarSet, _) => self.set_context(&callable.object, args),
            (Special::ContextVarReset, _) => self.reset_context(&callable.object, args),
            _ => {
                let (given, keywords) = self.native_arguments(args, kwargs)?;
                let returned = self.returned(callable.object.call(given, Some(&keywords)));
                match args {
                    [iterator, ..] if special == Special::Next => self.or_lacking(returned, &iterator.object, special_names::NEXT),
                    _ => returned,
                }
            }
        }
    }

    /// Calls `chain.from_iterable(iterables)` as `chain(*iterables)`, if the iterables already exist in a container.
    fn chain_of(&self, function: &Bound<'py, PyAny>, iterables: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let chain = function.getattr("__self__")?;
        if !self.torch.is_container(&iterables.object) || !self.effects.is_pure(&chain) {
            return self.break_graph(reason::C_FUNCTION, describe(function));
        }
        let each = self.unpack_any(iterables)?;
        self.call_pure(&chain, &each, &Vec::new())
    }

    /// Handles `record_function.__enter__`: a graph does not begin a range. So no range must end when Python leaves the block, after a
    /// graph break.
    fn annotates(&self, object: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        if !self.is_young(&object.object) {
            return self.break_graph(reason::C_FUNCTION, "a record_function that existed before");
        }
        dynamlir_interpreter::suspended(|| object.object.setattr(intern!(self.py, "run_callbacks_on_exit"), false))?;
        Ok(object.clone())
    }

    /// Returns true if the innermost frame belongs to `functools.cached_property`, which locks all its properties before CPython 3.12.
    fn fills_a_cache(&self) -> bool {
        dynamlir_interpreter::here().is_some_and(|place| self.effects.kinds.is_cached_property(place.code(self.py)))
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
            ("delitem", [container, key]) => {
                self.set_item(container, key, None)?;
                Ok(Tracked::new(self.py.None().into_bound(self.py)))
            }
            ("iconcat", [lhs, rhs]) if lhs.object.is_exact_instance_of::<PyList>() => self.binary("iadd", lhs, rhs),
            ("iconcat", _) => self.break_graph(reason::C_FUNCTION, describe(function)),
            ("is_" | "is_not", [lhs, rhs]) => {
                let same = self.is_same(lhs, rhs)? == (name == "is_");
                Ok(Tracked::new(pyo3::types::PyBool::new(self.py, same).to_owned().into_any()))
            }
            ("is_none" | "is_not_none", [value]) => {
                let same = self.is_same(value, &Tracked::new(self.py.None().into_bound(self.py)))? == (name == "is_none");
                Ok(Tracked::new(pyo3::types::PyBool::new(self.py, same).to_owned().into_any()))
            }
            ("truth" | "not_", [value]) if self.torch.is_fake(&value.object) => {
                let answer = self.truth(value)? == (name == "truth");
                Ok(Tracked::new(pyo3::types::PyBool::new(self.py, answer).to_owned().into_any()))
            }
            _ if COMPARISONS.contains(&name) && args.len() == 2 && args.iter().any(|arg| self.torch.is_number(&arg.object)) => {
                self.binary(name, &args[0], &args[1])
            }
            _ if args.iter().any(|arg| self.torch.is_fake(&arg.object)) => self.operator(name, args),
            _ if COMPARISONS.contains(&name) && args.len() == 2 => self.binary(name, &args[0], &args[1]),
            (_, [lhs, rhs]) if in_place(name).is_some() => self.binary(name, lhs, rhs),
            ("contains", [container, item]) => {
                let found = self.contains(container, item)?;
                Ok(Tracked::new(pyo3::types::PyBool::new(self.py, found).to_owned().into_any()))
            }
            _ => {
                for arg in args {
                    self.pin_specials(&arg.object, methods_of(name))?;
                }
                let (given, keywords) = self.looked_into(args, kwargs)?;
                self.returned(self.natively(name, || function.call(given, Some(&keywords))))
            }
        }
    }

    /// Evaluates `sum(values, start)` by its additions.
    fn sum(
        &self,
        function: &Bound<'py, PyAny>,
        values: &Tracked<'py>,
        start: Option<&Tracked<'py>>,
        args: &[Tracked<'py>],
        kwargs: &Keywords<'py>,
    ) -> Outcome<Tracked<'py>> {
        let odd = |start: &Tracked<'py>| {
            start.object.is_instance_of::<PyString>()
                || start.object.is_instance_of::<PyBytes>()
                || start.object.is_instance_of::<PyByteArray>()
        };
        if kwargs.iter().any(|(name, _)| name != "start") || start.is_some_and(odd) {
            // It raises its own error.
            let (given, keywords) = self.native_arguments(args, kwargs)?;
            return self.returned(function.call(given, Some(&keywords)));
        }
        let mut total = match start {
            Some(start) => start.clone(),
            None => Tracked::new(0i64.into_pyobject(self.py).map_err(PyErr::from)?.into_any()),
        };
        let items = self.unpack_any(values)?;
        if !std::iter::once(&total).chain(&items).any(|value| self.torch.is_fake(&value.object)) {
            let values: Vec<_> = std::iter::once(&total).chain(&items).map(|value| &value.object).collect();
            self.guard_inside(values, special_names::SUMMED)?;
            // Since CPython 3.12, floats are added with more precision.
            let items = PyList::new(self.py, items.iter().map(|item| self.readable(item)).collect::<Outcome<Vec<_>>>()?)?;
            return self.returned(function.call1((items, self.readable(&total)?)));
        }
        for value in items {
            total = self.binary("add", &total, &value)?;
        }
        Ok(total)
    }
}

/// Returns true if one of these builtins takes keyword arguments, or handles them itself.
fn takes_keywords(special: Special) -> bool {
    matches!(
        special,
        Special::Sum
            | Special::Compiling
            | Special::False
            | Special::None
            | Special::Zero
            | Special::Operator(_)
            | Special::FunctionApply
            | Special::Checkpoint
            | Special::Transform(_)
            | Special::Gradients(_)
            | Special::Region(_)
            | Special::Reading(..)
            | Special::Expected
            | Special::IsSize
            | Special::InferenceMode
            | Special::IsInference
            | Special::ContextVarGet
    )
}
