//! What the policy asks of torch: its types, and which values are tensors.

use std::collections::HashSet;

use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple, PyType},
};

/// Torch's types and helpers, looked up once per process.
pub struct Torch {
    tensor: Py<PyType>,
    fake: Py<PyType>,
    module_getattr: Py<PyAny>,
    module: Py<PyType>,
    parameter: Py<PyType>,
    session: Py<PyAny>,
    weak_reference: usize,
    lazy: HashSet<usize>,
    primitives: HashSet<usize>,
    numpy: HashSet<usize>,
    containers: HashSet<usize>,
}

/// Types whose values have no identity that matters: compared by value, guarded only where they decide something.
const PRIMITIVES: &[(&str, &[&str])] = &[
    ("builtins", &["int", "float", "bool", "str", "bytes", "complex", "range", "slice"]),
    ("types", &["NoneType", "EllipsisType", "NotImplementedType"]),
    ("torch", &["dtype", "device", "layout", "memory_format", "Size"]),
];

/// The same of numpy, where there is one.
const NUMPY: &[(&str, &[&str])] =
    &[("numpy", &["bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"])];

/// Types that C code may look through.
const CONTAINERS: &[(&str, &[&str])] =
    &[("builtins", &["list", "tuple", "dict", "set", "frozenset"]), ("collections", &["OrderedDict", "defaultdict"])];

/// Torch's own namespaces that look an operator up when it is first asked for, and keep it.
const LAZY: &[(&str, &[&str])] = &[("torch._ops", &["_Ops", "_OpNamespace", "OpOverloadPacket"])];

fn addresses(py: Python<'_>, names: &[(&str, &[&str])]) -> PyResult<HashSet<usize>> {
    let mut found = HashSet::new();
    for (module, names) in names {
        let module = py.import(*module)?;
        for name in *names {
            found.insert(module.getattr(*name)?.as_ptr() as usize);
        }
    }
    Ok(found)
}

impl Torch {
    /// Imports what is needed.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let torch = py.import("torch")?;
        let nn = torch.getattr("nn")?;
        let module = nn.getattr("Module")?;
        Ok(Self {
            tensor: torch.getattr("Tensor")?.cast_into::<PyType>()?.unbind(),
            fake: py.import("torch._subclasses.fake_tensor")?.getattr("FakeTensor")?.cast_into::<PyType>()?.unbind(),
            module_getattr: module.getattr("__getattr__")?.unbind(),
            module: module.cast_into::<PyType>()?.unbind(),
            parameter: nn.getattr("Parameter")?.cast_into::<PyType>()?.unbind(),
            session: py.import("dynamlir.capture.session")?.getattr("Session")?.unbind(),
            weak_reference: py.import("weakref")?.getattr("ref")?.as_ptr() as usize,
            lazy: addresses(py, LAZY)?,
            primitives: addresses(py, PRIMITIVES)?,
            numpy: if py.import("numpy").is_ok() { addresses(py, NUMPY)? } else { HashSet::new() },
            containers: addresses(py, CONTAINERS)?,
        })
    }

    /// A new `dynamlir.capture.session.Session`.
    pub fn session<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.session.bind(py).call1((name,))
    }

    /// Whether a value is compared by value: numbers, strings, None, dtypes.
    pub fn is_primitive(&self, value: &Bound<'_, PyAny>) -> bool {
        self.primitives.contains(&(value.get_type_ptr() as usize)) || self.is_numpy_scalar(value)
    }

    /// Whether a value is a scalar of numpy.
    pub fn is_numpy_scalar(&self, value: &Bound<'_, PyAny>) -> bool {
        self.numpy.contains(&(value.get_type_ptr() as usize))
    }

    /// Whether a value is a primitive, or a list or tuple of such.
    pub fn is_plain(&self, value: &Bound<'_, PyAny>) -> bool {
        let items = value.is_exact_instance_of::<pyo3::types::PyList>() || value.is_exact_instance_of::<PyTuple>();
        self.is_primitive(value)
            || items && value.try_iter().is_ok_and(|mut items| items.all(|item| item.is_ok_and(|item| self.is_plain(&item))))
    }

    /// Whether a value is exactly a list, tuple, dict, set, or one of the dicts of `collections`.
    pub fn is_container(&self, value: &Bound<'_, PyAny>) -> bool {
        self.containers.contains(&(value.get_type_ptr() as usize))
    }

    /// Whether a value is exactly a `weakref.ref`.
    pub fn is_weak_reference(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type_ptr() as usize == self.weak_reference
    }

    /// Whether a value fills in its attributes when they are first asked for.
    pub fn is_lazy(&self, value: &Bound<'_, PyAny>) -> bool {
        self.lazy.contains(&(value.get_type_ptr() as usize))
    }

    /// Whether a value is the stand-in of a tensor.
    pub fn is_fake(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().as_ptr() == self.fake.as_ptr()
    }

    /// Whether a value is a tensor, real or fake.
    pub fn is_tensor(&self, value: &Bound<'_, PyAny>) -> bool {
        let py = value.py();
        // Not isinstance: Parameter's metaclass would run Python.
        value.get_type().is_subclass(self.tensor.bind(py)).unwrap_or(false)
    }

    /// Whether `module` is an `nn.Module`.
    pub fn is_module(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().is_subclass(self.module.bind(value.py())).unwrap_or(false)
    }

    /// Whether this is `nn.Module.__getattr__`, which looks into the module's tables.
    pub fn is_module_getattr(&self, function: &Bound<'_, PyAny>) -> bool {
        function.as_ptr() == self.module_getattr.as_ptr()
    }

    /// Whether a class is `nn.Parameter`.
    pub fn is_parameter_class(&self, class: &Bound<'_, PyAny>) -> bool {
        class.as_ptr() == self.parameter.as_ptr()
    }

    /// Whether there is a fake among the values, in lists, tuples and dicts too.
    pub fn any_fake(&self, value: &Bound<'_, PyAny>) -> bool {
        if self.is_fake(value) {
            return true;
        }
        // Named tuples and torch's struct sequences, too.
        if let Ok(items) = value.cast::<PyTuple>() {
            return items.iter().any(|item| self.any_fake(&item));
        }
        if let Ok(items) = value.cast_exact::<pyo3::types::PyList>() {
            return items.iter().any(|item| self.any_fake(&item));
        }
        if let Ok(items) = value.cast_exact::<PyDict>() {
            return items.iter().any(|(_, item)| self.any_fake(&item));
        }
        if let Ok(slice) = value.cast_exact::<pyo3::types::PySlice>() {
            return ["start", "stop", "step"].iter().any(|part| slice.getattr(*part).is_ok_and(|part| self.any_fake(&part)));
        }
        false
    }
}
