//! Arguments of operations: values as arguments of nodes, and the methods that torch may call on them.

use dynamlir_cpython_abi::{kind, shown};
use dynamlir_graph::Argument;
use dynamlir_symint::{is_size, node_of};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Numbers, Reads},
    graph_break::{Outcome, reason},
    objects::{Tracked, callables::methods_of, lookup::lookup, type_name},
    state::number_places::Want,
};

/// Special methods that torch calls on objects that it takes for numbers, sizes, sequences or arrays, or that override its behavior.
pub(crate) const TAKEN_BY_TORCH: &[&str] = &[
    "__array__",
    "__array_interface__",
    "__bool__",
    "__complex__",
    "__dlpack__",
    "__float__",
    "__getitem__",
    "__index__",
    "__int__",
    "__iter__",
    "__len__",
    "__torch_function__",
];

/// Special methods that torch may call on any object.
const ASKED: &[&str] = &["__eq__", "__getattr__", "__getattribute__", "__hash__"];

impl<'py> Numbers<'py> {
    /// Ends the capture where an operation may call Python methods of its arguments: they would run on fakes or not at all, unobserved, and
    /// again on each capture.
    ///
    /// `name` is the name of the operator function, if it is one; `operation` is for the message.
    pub(crate) fn refuse_called<'a>(&self, name: &str, operation: &str, args: impl Iterator<Item = &'a Tracked<'py>>) -> Outcome<()>
    where
        'py: 'a,
    {
        let methods = methods_of(name);
        for arg in args {
            self.refuse_python(operation, methods, &arg.object)?;
        }
        Ok(())
    }

    fn refuse_python(&self, operation: &str, methods: &[&str], value: &Bound<'py, PyAny>) -> Outcome<()> {
        if value.is_exact_instance_of::<PySlice>() {
            return ["start", "stop", "step"].iter().try_for_each(|part| self.refuse_python(operation, methods, &value.getattr(*part)?));
        }
        if self.torch.is_fake(value) || self.torch.is_primitive(value) {
            return Ok(());
        }
        let _deeper = self.deeper(value)?;
        if let Ok(items) = value.cast_exact::<PyDict>() {
            return items.iter().try_for_each(|(key, item)| {
                self.refuse_python(operation, methods, &key)?;
                self.refuse_python(operation, methods, &item)
            });
        }
        if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
            for item in self.sequence(value)? {
                self.refuse_python(operation, methods, &item)?;
            }
            if value.is_exact_instance_of::<PyTuple>() || value.is_exact_instance_of::<PyList>() {
                return Ok(());
            }
        }
        let class = value.get_type();
        for name in methods.iter().chain(TAKEN_BY_TORCH).chain(ASKED) {
            if let Some(found) = lookup(&class, name)?
                && !self.is_known_special(&class, name, &found)?
            {
                return self.break_graph(reason::C_FUNCTION, format!("{operation}, which may call {}.{name}", type_name(value)));
            }
        }
        Ok(())
    }

    /// Returns true if a special method is C code, torch's or an enumeration's: it has no observable effects.
    fn is_known_special(&self, class: &Bound<'py, PyType>, name: &str, found: &Bound<'py, PyAny>) -> Outcome<bool> {
        if found.is_none() || kind::is_c_function(found) || self.is_torch_member(found)? || kind::is_class_member(found) {
            return Ok(true);
        }
        let enums = dynamlir_cpython_abi::import(self.py, "enum")?;
        for base in ["Enum", "Flag"] {
            let base = enums.getattr(base)?.cast_into::<PyType>().map_err(PyErr::from)?;
            if class.is_subclass(&base)? && lookup(&base, name)?.is_some_and(|own| own.is(found)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Converts a Python value to an argument of a node.
    pub fn argument(&self, value: &Bound<'py, PyAny>) -> Outcome<Argument<Py<PyAny>>> {
        if self.torch.is_fake(value) {
            return match self.node(value) {
                Some(node) => Ok(Argument::Node(node)),
                None => self.break_graph(reason::HIDDEN_OPERATION, "a tensor that no node of the graph made"),
            };
        }
        if value.is_none() {
            return Ok(Argument::None);
        }
        if is_size(value) {
            self.refuse_comparison(value)?;
            return Ok(Argument::Object(value.clone().unbind(), node_of(value)?.str()?.to_string()));
        }
        if value.is_exact_instance_of::<PyBool>() {
            return Ok(Argument::Bool(value.is_truthy()?));
        }
        if value.is_exact_instance_of::<PyInt>()
            && let Ok(number) = value.extract::<i64>()
        {
            return Ok(Argument::Int(number));
        }
        if value.is_exact_instance_of::<PyFloat>() {
            return Ok(Argument::Float(value.extract()?));
        }
        if value.is_exact_instance_of::<PyString>() {
            return Ok(Argument::Str(value.extract()?));
        }
        let _deeper = self.deeper(value)?;
        if let Ok(items) = value.cast_exact::<PyList>() {
            return Ok(Argument::List(items.iter().map(|item| self.argument(&item)).collect::<Outcome<_>>()?));
        }
        if let Ok(items) = value.cast_exact::<PyTuple>() {
            return Ok(Argument::Tuple(items.iter().map(|item| self.argument(&item)).collect::<Outcome<_>>()?));
        }
        if let Ok(items) = value.cast_exact::<PyDict>() {
            let entries = items.iter().map(|(key, item)| Ok((self.argument(&key)?, self.argument(&item)?)));
            return Ok(Argument::Dict(entries.collect::<Outcome<_>>()?));
        }
        if value.is_exact_instance_of::<PySlice>() {
            let part = |name: &str| self.argument(&value.getattr(name)?);
            return Ok(Argument::Slice(Box::new([part("start")?, part("stop")?, part("step")?])));
        }
        if self.torch.is_numpy_scalar(value) {
            // Torch treats it as the number that it holds.
            return self.argument(&value.call_method0("item")?);
        }
        if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
            for item in self.sequence(value)? {
                self.argument(&item)?;
                self.refuse_hidden_sizes(value, &item)?;
            }
        }
        Ok(Argument::Object(value.clone().unbind(), dynamlir_interpreter::suspended(|| shown(value))))
    }
}

impl<'py> Reads<'py> {
    /// Guards existing objects inside the frame's own objects that are passed to an operation: `x.new_tensor([v])`. Ends the capture if the
    /// frame has changed one of them.
    pub(crate) fn guard_given<'a>(&self, values: impl Iterator<Item = &'a Bound<'py, PyAny>> + Clone) -> Outcome<()>
    where
        'py: 'a,
    {
        self.refuse_changed_within(values.clone())?;
        self.guard_values(values.filter(|value| self.source_of(value).is_none()), &[], true, Want::Exact)
    }
}
