//! Torch's types, and the checks that the policy makes with them, such as for tensors.

use dynamlir_cpython_abi::{function, mapping};
use dynamlir_symint::is_size;
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple, PyType},
};
use rustc_hash::FxHashSet;

/// Torch's types and helpers, looked up once per process.
pub struct Torch {
    tensor: Py<PyType>,
    fake: Py<PyType>,
    number: Py<PyType>,
    module_getattr: Py<PyAny>,
    module: Py<PyType>,
    parameter: Py<PyType>,
    session: Py<PyAny>,
    function_modes: Py<PyAny>,
    device_context: Py<PyAny>,
    /// Torch's functions that check if a tensor belongs to a transform, and if a transform is active.
    wrapped: Py<PyAny>,
    transforms: Py<PyAny>,
    weak_reference: usize,
    /// The code that calls modules, with their hooks.
    module_call: usize,
    file: Py<PyType>,
    logging: String,
    /// Torch's own folder, with a trailing separator.
    folder: String,
    /// The code of the wrappers that `torch._disable_dynamo` creates, also around some of torch's own functions.
    disabled: usize,
    /// The addresses of `ModuleSpec.has_location` and of its class.
    spec_origin: (usize, usize),
    /// Python functions that are entered to run an operation.
    dispatch: FxHashSet<usize>,
    operator_getattrs: FxHashSet<usize>,
    lazy: FxHashSet<usize>,
    primitives: FxHashSet<usize>,
    numpy: FxHashSet<usize>,
    containers: FxHashSet<usize>,
    changeable: FxHashSet<usize>,
}

/// Types whose values are compared by value because their identity does not matter; they are guarded only where a decision depends on them.
const PRIMITIVES: &[(&str, &[&str])] = &[
    ("builtins", &["int", "float", "bool", "str", "bytes", "complex", "range", "slice"]),
    ("types", &["NoneType", "EllipsisType", "NotImplementedType"]),
    ("torch", &["dtype", "device", "layout", "memory_format", "Size"]),
];

/// Such types of numpy, if it is installed.
const NUMPY: &[(&str, &[&str])] =
    &[("numpy", &["bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"])];

/// Container types that C code may traverse.
const CONTAINERS: &[(&str, &[&str])] =
    &[("builtins", &["list", "tuple", "dict", "set", "frozenset"]), ("collections", &["OrderedDict", "defaultdict", "deque"])];

/// The mutable types among [`CONTAINERS`].
const CHANGEABLE: &[(&str, &[&str])] = &[("builtins", &["list", "dict", "set"]), ("collections", &["OrderedDict", "defaultdict", "deque"])];

/// Torch's own namespaces that look up an operator at its first use, and store it.
const LAZY: &[(&str, &[&str])] = &[("torch._ops", &["_Ops", "_OpNamespace", "OpOverloadPacket"])];

fn objects<'py>(py: Python<'py>, names: &[(&str, &[&str])]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut found = Vec::new();
    for (module, names) in names {
        let module = dynamlir_cpython_abi::import(py, module)?;
        for name in *names {
            found.push(module.getattr(*name)?);
        }
    }
    Ok(found)
}

fn addresses(py: Python<'_>, names: &[(&str, &[&str])]) -> PyResult<FxHashSet<usize>> {
    Ok(objects(py, names)?.iter().map(|object| object.as_ptr() as usize).collect())
}

impl Torch {
    /// Imports the required modules.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let torch = dynamlir_cpython_abi::import(py, "torch")?;
        let nn = torch.getattr("nn")?;
        let module = nn.getattr("Module")?;
        Ok(Self {
            tensor: torch.getattr("Tensor")?.cast_into::<PyType>()?.unbind(),
            fake: dynamlir_cpython_abi::import(py, "torch._subclasses.fake_tensor")?.getattr("FakeTensor")?.cast_into::<PyType>()?.unbind(),
            number: dynamlir_cpython_abi::import(py, "dynamlir.scalars")?.getattr("Number")?.cast_into::<PyType>()?.unbind(),
            module_getattr: module.getattr("__getattr__")?.unbind(),
            module_call: module.getattr("_call_impl")?.getattr("__code__")?.as_ptr() as usize,
            module: module.cast_into::<PyType>()?.unbind(),
            parameter: nn.getattr("Parameter")?.cast_into::<PyType>()?.unbind(),
            device_context: dynamlir_cpython_abi::import(py, "torch.utils._device")?.getattr("DeviceContext")?.unbind(),
            function_modes: torch.getattr("_C")?.getattr("_len_torch_function_stack")?.unbind(),
            wrapped: torch.getattr("_C")?.getattr("_functorch")?.getattr("is_functorch_wrapped_tensor")?.unbind(),
            transforms: torch.getattr("_C")?.getattr("_are_functorch_transforms_active")?.unbind(),
            session: dynamlir_cpython_abi::import(py, "dynamlir.capture.session")?.getattr("Session")?.unbind(),
            weak_reference: dynamlir_cpython_abi::import(py, "weakref")?.getattr("ref")?.as_ptr() as usize,
            file: dynamlir_cpython_abi::import(py, "io")?.getattr("IOBase")?.cast_into::<PyType>()?.unbind(),
            dispatch: {
                let recorder = dynamlir_cpython_abi::import(py, "dynamlir.capture.session")?.getattr("Watched")?;
                let dispatch = recorder.getattr("__dict__")?.get_item("__torch_dispatch__")?;
                // The dispatcher calls this first.
                let rule = dynamlir_cpython_abi::import(py, "torch._library.simple_registry")
                    .and_then(|module| module.getattr("find_torch_dispatch_rule"));
                std::iter::once(dispatch).chain(rule.ok()).map(|function| function.as_ptr() as usize).collect()
            },
            disabled: {
                let disable = dynamlir_cpython_abi::import(py, "torch._compile")?.getattr("_disable_dynamo")?;
                disable.call1((py.get_type::<PyAny>().getattr("__init_subclass__")?,))?.getattr("__code__")?.as_ptr() as usize
            },
            spec_origin: {
                let spec = dynamlir_cpython_abi::import(py, "importlib.machinery")?.getattr("ModuleSpec")?;
                (spec.getattr("has_location")?.getattr("fget")?.as_ptr() as usize, spec.as_ptr() as usize)
            },
            logging: dynamlir_cpython_abi::import(py, "logging")?.getattr("__file__")?.extract()?,
            folder: dynamlir_cpython_abi::import(py, "torch")?
                .getattr("__file__")?
                .extract::<String>()?
                .trim_end_matches("__init__.py")
                .to_owned(),
            operator_getattrs: {
                let getattr = |class: &Bound<'_, PyAny>| Ok(class.getattr("__getattr__")?.as_ptr() as usize);
                objects(py, LAZY)?.iter().map(getattr).collect::<PyResult<_>>()?
            },
            lazy: addresses(py, LAZY)?,
            primitives: addresses(py, PRIMITIVES)?,
            numpy: if dynamlir_cpython_abi::import(py, "numpy").is_ok() { addresses(py, NUMPY)? } else { FxHashSet::default() },
            containers: addresses(py, CONTAINERS)?,
            changeable: addresses(py, CHANGEABLE)?,
        })
    }

    /// Returns true if a function mode is that of the default device, on which tensors are created for real.
    pub(crate) fn is_default_device(&self, mode: &Bound<'_, PyAny>) -> bool {
        mode.get_type().is(self.device_context.bind(mode.py()))
    }

    /// Returns the number of active function modes in this thread.
    pub(crate) fn function_modes(&self, py: Python<'_>) -> PyResult<usize> {
        self.function_modes.bind(py).call0()?.extract()
    }

    /// Creates a `dynamlir.capture.session.Session`.
    pub fn session<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.session.bind(py).call1((name,))
    }

    /// Returns true if a value is compared by value: numbers, strings, None, dtypes.
    pub fn is_primitive(&self, value: &Bound<'_, PyAny>) -> bool {
        self.primitives.contains(&(value.get_type_ptr() as usize)) || self.is_numpy_scalar(value) || is_size(value)
    }

    /// Returns true if a value is a numpy scalar.
    pub fn is_numpy_scalar(&self, value: &Bound<'_, PyAny>) -> bool {
        self.numpy.contains(&(value.get_type_ptr() as usize))
    }

    /// Returns true if a value is a primitive, or a list or tuple of plain values.
    pub fn is_plain(&self, value: &Bound<'_, PyAny>) -> bool {
        self.is_plain_within(value, 20)
    }

    fn is_plain_within(&self, value: &Bound<'_, PyAny>, depth: usize) -> bool {
        let items = value.is_exact_instance_of::<pyo3::types::PyList>() || value.is_exact_instance_of::<PyTuple>();
        let plain = |item: PyResult<Bound<'_, PyAny>>| item.is_ok_and(|item| self.is_plain_within(&item, depth - 1));
        self.is_primitive(value) || items && depth > 0 && value.try_iter().is_ok_and(|mut items| items.all(plain))
    }

    /// Returns true if a value consists of primitives, lists, tuples and dicts, like JSON: inspecting it does not run code.
    pub fn is_data(&self, value: &Bound<'_, PyAny>) -> bool {
        self.is_data_within(value, 20)
    }

    fn is_data_within(&self, value: &Bound<'_, PyAny>, depth: usize) -> bool {
        if self.is_primitive(value) {
            return true;
        }
        if depth == 0 {
            return false;
        }
        if let Ok(items) = value.cast_exact::<PyDict>() {
            return items.iter().all(|(key, item)| self.is_primitive(&key) && self.is_data_within(&item, depth - 1));
        }
        let is_sequence = value.is_exact_instance_of::<pyo3::types::PyList>() || value.is_exact_instance_of::<PyTuple>();
        is_sequence
            && value.try_iter().is_ok_and(|mut items| items.all(|item| item.is_ok_and(|item| self.is_data_within(&item, depth - 1))))
    }

    /// Returns true if a value is exactly a list, tuple, dict, set, deque, or one of the dicts of `collections`.
    pub fn is_container(&self, value: &Bound<'_, PyAny>) -> bool {
        self.containers.contains(&(value.get_type_ptr() as usize))
    }

    /// Returns true if changes to a value can be recorded: it is exactly a list, dict, set, deque, or one of the dicts of `collections`.
    pub fn is_changeable_container(&self, value: &Bound<'_, PyAny>) -> bool {
        self.changeable.contains(&(value.get_type_ptr() as usize))
    }

    /// Returns true if a value is exactly a `weakref.ref`.
    pub fn is_weak_reference(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type_ptr() as usize == self.weak_reference
    }

    /// Returns true if this is the code that calls modules, with their hooks.
    pub fn is_module_call(&self, code: &Bound<'_, PyAny>) -> bool {
        code.as_ptr() as usize == self.module_call
    }

    /// Returns true if this is the class `weakref.ref`.
    pub fn is_weak_reference_class(&self, class: &Bound<'_, PyAny>) -> bool {
        class.as_ptr() as usize == self.weak_reference
    }

    /// Returns true if a value fills in its attributes at their first use.
    pub fn is_lazy(&self, value: &Bound<'_, PyAny>) -> bool {
        self.lazy.contains(&(value.get_type_ptr() as usize))
    }

    /// Returns true if a value is a file or another stream.
    pub fn is_file(&self, value: &Bound<'_, PyAny>) -> bool {
        // In their MRO, C streams are not subclasses of the abstract class in `io`, but of the class that it is derived from.
        value.get_type().is_subclass(self.file.bind(value.py())).unwrap_or(false)
    }

    /// Returns true if this function passes an operation to the recorder.
    pub fn is_dispatch(&self, function: &Bound<'_, PyAny>) -> bool {
        self.dispatch.contains(&(function.as_ptr() as usize))
    }

    /// Returns the function that `torch._disable_dynamo` has wrapped in this one; `None` for any other function.
    pub fn wrapped_by_disable<'py>(&self, function: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let code = function::code(function)?;
        if code.as_ptr() as usize == self.disabled { function.getattr("__wrapped__").ok() } else { None }
    }

    /// Returns true if this query asks a module's `__spec__`, of Python's own class, if the module has a file.
    pub fn asks_for_origin(&self, function: usize, spec: &Bound<'_, PyAny>) -> bool {
        (function, spec.get_type_ptr() as usize) == self.spec_origin
    }

    /// Returns true if a file is that of `logging`, whose locks are not used by other code.
    pub fn is_logging(&self, file: &str) -> bool {
        file == self.logging
    }

    /// Returns true if a file belongs to torch.
    pub fn is_torchs(&self, file: &str) -> bool {
        file.starts_with(&self.folder)
    }

    /// Returns true if this is the `__getattr__` of a namespace that looks up an operator.
    pub fn is_operator_getattr(&self, function: &Bound<'_, PyAny>) -> bool {
        self.operator_getattrs.contains(&(function.as_ptr() as usize))
    }

    /// Returns true if a value is the stand-in of a tensor, or of a number. Within a transform of `torch.func` these are wrapped.
    pub fn is_fake(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().as_ptr() == self.fake.as_ptr() || self.is_number(value) || self.is_wrapped(value)
    }

    /// Returns true if a value is a tensor of a transform of `torch.func`.
    pub fn is_wrapped(&self, value: &Bound<'_, PyAny>) -> bool {
        let py = value.py();
        value.get_type().is(self.tensor.bind(py))
            && self.wrapped.bind(py).call1((value,)).is_ok_and(|answer| answer.is_truthy().unwrap_or(false))
    }

    /// Returns true if a transform of `torch.func` is active in this thread.
    pub(crate) fn in_transform(&self, py: Python<'_>) -> PyResult<bool> {
        self.transforms.bind(py).call0()?.is_truthy()
    }

    /// Returns true if a value is the stand-in of a number.
    pub fn is_number(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().as_ptr() == self.number.as_ptr()
    }

    /// Returns the first stand-in of a number in a value, also inside lists, tuples and dicts.
    pub fn find_number<'py>(&self, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        find(value, |value| self.is_number(value))
    }

    /// Returns true if this is `torch.Tensor`, or a tensor class with the same instance check.
    pub fn is_tensor_class(&self, class: &Bound<'_, PyAny>) -> bool {
        class.get_type().is(self.tensor.bind(class.py()).get_type())
    }

    /// Returns true if a value is a tensor, real or fake.
    pub fn is_tensor(&self, value: &Bound<'_, PyAny>) -> bool {
        let py = value.py();
        // Not `isinstance`: Parameter's metaclass would run Python.
        value.get_type().is_subclass(self.tensor.bind(py)).unwrap_or(false)
    }

    /// Returns true if a value is an `nn.Module`.
    pub fn is_module(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().is_subclass(self.module.bind(value.py())).unwrap_or(false)
    }

    /// Returns true if this is `nn.Module.__getattr__`, which searches the module's tables.
    pub fn is_module_getattr(&self, function: &Bound<'_, PyAny>) -> bool {
        function.as_ptr() == self.module_getattr.as_ptr()
    }

    /// Returns true if a class is `nn.Parameter`.
    pub fn is_parameter_class(&self, class: &Bound<'_, PyAny>) -> bool {
        class.as_ptr() == self.parameter.as_ptr()
    }

    /// Returns true if a value is or contains a fake, also inside lists, tuples and dicts.
    pub fn any_fake(&self, value: &Bound<'_, PyAny>) -> bool {
        find(value, |value| self.is_fake(value)).is_some()
    }
}

/// Returns the first wanted object in a value, also inside lists, tuples and dicts.
pub(crate) fn find<'py>(value: &Bound<'py, PyAny>, wanted: impl Fn(&Bound<'py, PyAny>) -> bool) -> Option<Bound<'py, PyAny>> {
    let mut waiting = Vec::new();
    let mut seen = FxHashSet::default();
    let mut at = Some(value.clone());
    while let Some(value) = at {
        if wanted(&value) {
            return Some(value);
        }
        // Also named tuples and torch's struct sequences.
        if let Ok(items) = value.cast::<PyTuple>() {
            if seen.insert(value.as_ptr() as usize) {
                waiting.extend(items.iter());
            }
        } else if let Ok(items) = value.cast_exact::<pyo3::types::PyList>() {
            if seen.insert(value.as_ptr() as usize) {
                waiting.extend(items.iter());
            }
        } else if let Ok(items) = value.cast_exact::<PyDict>() {
            if seen.insert(value.as_ptr() as usize) {
                waiting.extend(items.values().iter());
            }
        } else if mapping::is_frozen(&value) {
            waiting.extend(mapping::viewed(&value));
        } else if let Ok(slice) = value.cast_exact::<pyo3::types::PySlice>() {
            waiting.extend(["start", "stop", "step"].iter().filter_map(|part| slice.getattr(*part).ok()));
        }
        at = waiting.pop();
    }
    None
}
