//! Classes that decide the program's behavior: those that are caught, checked by `isinstance` and `issubclass`, or raised.
//!
//! A class found under a name, or in a tuple, may be another one at the next call.

use dynamlir_guards::{Constant, Source};
use dynamlir_interpreter::semantics;
use pyo3::{
    exceptions::{PyAttributeError, PyBaseException},
    intern,
    prelude::*,
    types::{PyDict, PyFunction, PyList, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Heap, Operations},
    graph_break::{Halt, Outcome, reason},
    objects::{
        Tracked,
        callables::{describe, receiver},
        lookup::{is_immutable, lookup},
        type_name,
    },
};

impl<'py> Heap<'py> {
    /// Guards the identity of a class, or of each class in a possibly nested tuple, and returns the value.
    pub(crate) fn classes(&self, value: &Tracked<'py>) -> Outcome<Bound<'py, PyAny>> {
        let readable = self.readable(value)?;
        let _deeper = self.deeper(&readable)?;
        if let Ok(items) = readable.cast_exact::<PyTuple>() {
            for item in items {
                self.classes(&Tracked::new(item))?;
            }
        } else if let Some(source) = self.source_of(&readable) {
            self.guard_contents(&readable, source)?;
            // A metaclass may give any answer.
            for name in [intern!(self.py, "__instancecheck__"), intern!(self.py, "__subclasscheck__")] {
                self.pin_class_entry(&readable, source, name)?;
            }
        }
        Ok(readable)
    }

    /// Calls a function that describes numpy's types, such as `numpy.finfo(numpy.float32)`, with C classes or their names.
    pub(crate) fn of_types(&self, function: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let is_fixed =
            |object: &Bound<'py, PyAny>| object.is_exact_instance_of::<PyString>() || object.cast::<PyType>().is_ok_and(is_immutable);
        if !args.iter().all(|arg| is_fixed(&arg.object)) {
            return self.break_graph(reason::C_FUNCTION, describe(function));
        }
        let given = args.iter().map(|arg| self.readable(arg)).collect::<Outcome<Vec<_>>>()?;
        let given = PyTuple::new(self.py, given)?;
        if function.getattr("__name__")?.eq("iinfo")? {
            // It creates a new object at each call.
            return Ok(Tracked::new(dynamlir_interpreter::suspended(|| function.call1(given))?));
        }
        // numpy caches the result: another call returns the same object.
        Ok(Tracked::new(self.outside(|| function.call1(given))?))
    }

    /// Returns the answer of an abstract base class about an instance or a class, which is guarded: other classes may be registered later.
    pub(crate) fn registered(&self, function: &Bound<'py, PyAny>, base: &Tracked<'py>, value: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let found = self.returned(function.call1((&base.object, &value.object)))?;
        let of_class = function.getattr("__name__")?.eq("_abc_subclasscheck")?;
        let class = match value.object.cast::<PyType>() {
            Ok(class) if of_class => class.clone(),
            _ => value.object.get_type(),
        };
        self.guards.registered(&class, &base.object, found.object.is_truthy()?);
        Ok(found)
    }

    /// `isinstance` of a tensor that the graph creates. So far it is only an instance of its own class.
    pub(crate) fn tensor_is_instance(&self, tensor: &Bound<'py, PyAny>, class: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
        let yes_or_no = |yes: bool| pyo3::types::PyBool::new(self.py, yes).to_owned().into_any();
        if let Ok(items) = class.cast::<PyTuple>() {
            for item in items {
                if self.tensor_is_instance(tensor, &item)?.is_truthy()? {
                    return Ok(yes_or_no(true));
                }
            }
            return Ok(yes_or_no(false));
        }
        if class.get_type().name()?.to_str()? == "tensortype" {
            // `torch.FloatTensor` and the like: their instances share properties, not a class.
            let alike = |name: &str| Ok::<_, PyErr>(tensor.getattr(name)?.is(&class.getattr(name)?));
            let all = dynamlir_interpreter::suspended(|| Ok::<_, PyErr>(alike("dtype")? && alike("layout")? && alike("is_cuda")?));
            return Ok(yes_or_no(all?));
        }
        Ok(dynamlir_cpython_abi::import(self.py, "builtins")?.call_method1("issubclass", (self.tensor_class()?, class))?)
    }

    /// Like `registered`, for each abstract base class among those that a tensor was checked against.
    pub(crate) fn registered_tensor(&self, tensor: &Bound<'py, PyAny>, class: &Bound<'py, PyAny>) -> Outcome<()> {
        if let Ok(items) = class.cast::<PyTuple>() {
            return items.iter().try_for_each(|item| self.registered_tensor(tensor, &item));
        }
        if class.is_instance(&dynamlir_cpython_abi::import(self.py, "abc")?.getattr("ABCMeta")?)? {
            let kind = match self.real_of(tensor) {
                Some((real, _)) => real.get_type(),
                None => self.tensor_class()?,
            };
            self.guards.registered(&kind, class, dynamlir_interpreter::suspended(|| kind.is_subclass(class))?);
        }
        Ok(())
    }

    /// `raise exception from cause`: guards the classes among them. Raising an exception that existed before would change it, since it
    /// keeps the traceback.
    pub(crate) fn raises(&self, exception: &Tracked<'py>, cause: Option<&Tracked<'py>>) -> Outcome<()> {
        if exception.object.is_instance_of::<PyBaseException>()
            && let Some(source) = self.source_of(&exception.object)
        {
            let why = if self.progress.is_resumed() { reason::RESUMED } else { reason::SIDE_EFFECT };
            return self.break_graph(why, format!("raises {}, which existed before", self.guards.expression(source)));
        }
        for value in [Some(exception), cause].into_iter().flatten() {
            self.classes(value)?;
        }
        Ok(())
    }
}

impl<'py> Operations<'py> {
    /// `class.__subclasses__()`: each guard check calls it again.
    pub(crate) fn subclasses(&self, function: &Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
        let class = receiver(function).or_else(|| function.getattr("__self__").ok());
        let Some(source) = class.map(|class| self.named_source(&class)).transpose()?.flatten() else {
            return self.stop_at_unknown(function);
        };
        let Some(nothing) = self.guarded(Constant::new(PyTuple::empty(self.py).as_any()).map_err(Into::into))? else {
            return self.stop_at_unknown(function);
        };
        let asked = self.guards.source(Source::Answer(self.guards.source(Source::GetAttr(source, "__subclasses__".into())), nothing));
        let found = function.call0()?.cast_into::<PyList>().map_err(PyErr::from)?;
        self.pin_type(&found, asked)?;
        self.guards.length(asked, found.len());
        for (at, class) in found.iter().enumerate() {
            let at = self.guards.source(Source::Index(asked, at as u32));
            self.pin(&class, at)?;
            self.wrap(class, at)?;
        }
        self.note_new(&found);
        Ok(Tracked::new(found.into_any()))
    }

    /// Applies a binary operator of an existing tuple, list or dict whose class defines it in Python, so that its reads are seen. None for
    /// other operands, and where the right operand's method takes precedence.
    pub(crate) fn by_own_method(&self, name: &str, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<Option<Tracked<'py>>> {
        let object = &lhs.object;
        let holds = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() || object.is_instance_of::<PyDict>();
        let (class, other) = (object.get_type(), rhs.object.get_type());
        if !holds || self.torch.is_container(object) || !class.is(&other) && other.is_subclass(&class)? {
            return Ok(None);
        }
        let method = format!("__{}__", name.trim_end_matches('_'));
        let Some(source) = self.source(lhs) else { return Ok(None) };
        let Some(own) = lookup(&class, &method)?.filter(PyAnyMethods::is_exact_instance_of::<PyFunction>) else { return Ok(None) };
        let own = self.wrap(own, self.guards.type_attr(self.class_source(object, source)?, &method))?;
        let result = self.call(&own, &[lhs.clone(), rhs.clone()], &Vec::new())?;
        if result.object.is(self.py.NotImplemented()) {
            return self.break_graph(reason::C_FUNCTION, format!("{method} of a {}, which leaves it to others", type_name(object)));
        }
        Ok(Some(result))
    }

    /// `case Class(…)`: returns the attributes that its patterns match, as a tuple, or None. Those of an existing object are read with
    /// their sources. Their values are guarded, since patterns look at them unseen.
    pub(crate) fn match_class(
        &self,
        subject: &Tracked<'py>,
        class: &Tracked<'py>,
        positional: usize,
        names: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyAny>> {
        self.refuse_numbers("a pattern looks at", [&subject.object])?;
        let subject = &self.settle_size(subject)?;
        self.guard_value(subject)?;
        let kind = self.classes(class)?;
        let found = match semantics::match_class(&subject.object, &kind, positional, names) {
            Ok(found) => found,
            Err(error) => {
                // The class lists too few names in `__match_args__`, or none.
                if let Some(source) = self.source_of(&kind)
                    && let Ok(class) = kind.cast::<PyType>()
                {
                    self.pin_entry(class, source, intern!(self.py, "__match_args__"))?;
                }
                return Err(error.into());
            }
        };
        let Some(source) = self.source_of(&subject.object) else { return Ok(found) };
        self.pin_type(&subject.object, source)?;
        if !subject.object.is_instance(&kind)? {
            return Ok(found);
        }
        let mut wanted = Vec::new();
        if positional > 0 {
            let key = PyString::new(self.py, "__match_args__");
            if !kind.hasattr(&key)? {
                // A builtin class: its only positional pattern matches the object itself.
                return if names.len()? == 0 {
                    Ok(found)
                } else {
                    self.break_graph(reason::UNGUARDABLE, "attributes of a builtin object in a pattern")
                };
            }
            let own = self.readable(&self.load_attr(class, &key)?)?;
            for name in own.try_iter()?.take(positional) {
                wanted.push(name?);
            }
        }
        for name in names.try_iter()? {
            wanted.push(name?);
        }
        let mut values = Vec::new();
        for name in wanted {
            match self.load_attr(subject, name.cast::<PyString>().map_err(PyErr::from)?) {
                Ok(value) => {
                    self.guard_value(&value)?;
                    values.push(value.object);
                }
                Err(Halt::Raise(error)) if error.is_instance_of::<PyAttributeError>(self.py) => {
                    return Ok(self.py.None().into_bound(self.py));
                }
                Err(halt) => return Err(halt),
            }
        }
        Ok(PyTuple::new(self.py, values)?.into_any())
    }
}
