//! `isinstance`: the class of the value is guarded, and Python code of a metaclass is traced into like any other.
//!
//! The frame has a fake for each tensor, whose class is not the tensor's, so the answers for tensors are given here.

use dynamlir_cpython_abi::types;
use dynamlir_guards::Facet;
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyFunction, PyTuple, PyType},
};

use crate::{
    floors::{Operations, Reads},
    graph_break::Outcome,
    objects::{Tracked, lookup::lookup},
};

/// Modules whose metaclasses answer by the registered classes, which are guarded, and by the attributes of classes.
const ASKING_CLASSES: &[&str] = &["abc", "typing"];

impl<'py> Reads<'py> {
    fn boolean(&self, value: bool) -> Tracked<'py> {
        Tracked::new(PyBool::new(self.py, value).to_owned().into_any())
    }

    /// Guards the class of a value, and the bases of that class.
    fn pin_class(&self, value: &Tracked<'py>) -> Outcome<()> {
        // The type of a computed number is known.
        if let Some(source) = value.source.or_else(|| self.source_of(&value.object)) {
            self.pin_type(&value.object, source)?;
        }
        if let Some(source) = self.class_at(&value.object)? {
            let kind = value.object.get_type();
            self.pin_mro(kind.as_any(), source)?;
            self.pin_entry(&kind, source, intern!(self.py, "__class__"))?;
        }
        Ok(())
    }

    /// Returns the class of the tensor that a fake represents.
    fn kind_of_tensor(&self, fake: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyType>> {
        match self.real_of(fake) {
            Some((real, _)) => Ok(real.get_type()),
            None => self.tensor_class(),
        }
    }

    fn tracked_class(&self, class: &Bound<'py, PyAny>) -> Tracked<'py> {
        Tracked { object: class.clone(), source: self.source_of(class) }
    }

    /// Returns true if Python code of a metaclass belongs to abstract base classes or protocols.
    fn asks_classes(&self, function: &Bound<'py, PyAny>) -> Outcome<bool> {
        let globals = function.getattr(intern!(self.py, "__globals__"))?;
        for module in ASKING_CLASSES {
            if dynamlir_cpython_abi::import(self.py, module)?.dict().is(&globals) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'py> Operations<'py> {
    /// `isinstance(value, class)`, called through `function`.
    pub(crate) fn is_instance(&self, function: &Bound<'py, PyAny>, value: &Tracked<'py>, class: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        self.uses(value, Facet::Class);
        self.uses(class, Facet::Itself);
        let class = self.classes(class)?;
        let value = &self.instance_of_size(value, &class)?;
        if self.torch.is_number(&value.object) {
            return Ok(self.boolean(self.number_is_instance(&value.object, &class)?));
        }
        if self.torch.is_fake(&value.object) {
            let answer = self.is_tensor_of(value, &class)?;
            return Ok(self.boolean(answer));
        }
        self.pin_class(value)?;
        self.returned(function.call1((&value.object, class)))
    }

    /// `type.__instancecheck__(class, value)`, bound or not, as called by a metaclass that has its own in Python.
    pub(crate) fn plain_instance(&self, function: &Bound<'py, PyAny>, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        let bound = function.getattr(intern!(self.py, "__self__")).ok().filter(PyAnyMethods::is_instance_of::<PyType>);
        let given: Vec<_> = bound.into_iter().map(Tracked::new).chain(args.iter().cloned()).collect();
        let [class, value] = &given[..] else {
            let (given, keywords) = self.native_arguments(args, &Vec::new())?;
            return self.returned(function.call(given, Some(&keywords)));
        };
        if self.torch.is_fake(&value.object) && !self.torch.is_number(&value.object) {
            let kind = self.kind_of_tensor(&value.object)?;
            return Ok(self.boolean(types::mro(&kind)?.iter().any(|base| base.is(&class.object))));
        }
        self.pin_class(value)?;
        let (given, keywords) = self.native_arguments(args, &Vec::new())?;
        self.returned(function.call(given, Some(&keywords)))
    }

    /// Returns true if a tensor is an instance of a class, or of one of those in a tuple or a union.
    fn is_tensor_of(&self, value: &Tracked<'py>, class: &Bound<'py, PyAny>) -> Outcome<bool> {
        let fake = &value.object;
        let union = || {
            class
                .get_type()
                .is(dynamlir_cpython_abi::import(self.py, "types")?.getattr("UnionType")?)
                .then(|| class.getattr("__args__"))
                .transpose()
        };
        let several: PyResult<Option<_>> = if class.is_instance_of::<PyTuple>() { Ok(Some(class.clone())) } else { union() };
        if let Some(several) = several? {
            for class in several.try_iter()? {
                if self.is_tensor_of(value, &class?)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let kind = self.kind_of_tensor(fake)?;
        if kind.is(class) {
            return Ok(true);
        }
        let metaclass = class.get_type();
        let asked = lookup(&metaclass, "__instancecheck__")?;
        if let Some(asked) = asked.filter(pyo3::types::PyAnyMethods::is_exact_instance_of::<PyFunction>)
            && !self.asks_classes(&asked)?
        {
            let asked = match self.class_at(class)? {
                Some(at) => self.wrap(asked, self.guards.type_attr(at, "__instancecheck__"))?,
                None => Tracked::new(asked),
            };
            let answer = self.call(&asked, &[self.tracked_class(class), value.clone()], &Vec::new())?;
            return self.truth(&answer);
        }
        let answer = match self.real_of(fake) {
            Some((real, _)) => dynamlir_interpreter::suspended(|| {
                dynamlir_cpython_abi::import(self.py, "builtins")?.call_method1("isinstance", (real, class))
            })?,
            None => self.tensor_is_instance(fake, class)?,
        };
        self.registered_tensor(fake, class)?;
        Ok(answer.is_truthy()?)
    }
}
