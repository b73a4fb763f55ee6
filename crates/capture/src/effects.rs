//! What C functions do: the table that says which may be called while capturing. Everything else ends the capture.
//!
//! A C function cannot be interpreted, so it is called for real. That is right when it only reads what it is given and
//! returns something new, and it is harmless when what it changes was made by the frame itself. Python that it calls back
//! (`__eq__`, `key=`) comes through the frame hook and is interpreted.

use std::collections::HashMap;

use pyo3::{prelude::*, types::{PyString, PyType}};

/// What calling a C function means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads its arguments, however deep, and returns something new or a part of them.
    Pure,
    /// As `Pure`, but changes its first argument: allowed on what the frame made.
    MutatesFirst,
    /// Answers from the state of the thread that the global guard covers.
    ReadsState,
    /// Sets state of the thread, which the frame must set back before it returns.
    SetsState,
    /// An operation of torch: run on fakes and noted in the graph.
    Torch,
    /// The policy has its own way to do it.
    Special(Special),
}

/// Builtins that the policy does itself, because they look inside objects or at fakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `getattr`
    GetAttr,
    /// `hasattr`
    HasAttr,
    /// `setattr`, `object.__setattr__`
    SetAttr,
    /// `delattr`, `object.__delattr__`
    DelAttr,
    /// `object.__getattribute__`
    GenericGetAttr,
    /// `isinstance`
    IsInstance,
    /// `type(x)`
    Type,
    /// `iter(x)`
    Iter,
    /// `next(x)`
    Next,
    /// `len(x)`
    Len,
    /// `sum(xs)`
    Sum,
    /// `vars(x)`
    Vars,
    /// `globals()`
    Globals,
    /// `operator.add` and the others: as the opcode
    Operator(&'static str),
    /// `ContextVar.get`
    ContextVarGet,
    /// A call whose answer while capturing is `True`.
    True,
    /// A call whose answer while capturing is `False`.
    False,
    /// A call whose answer while capturing is `None`.
    None,
}

/// Functions by module: name of the module, then of the functions or types.
type Names = &'static [(&'static str, &'static [&'static str])];

const PURE: Names = &[
    (
        "builtins",
        &[
            "abs", "all", "any", "ascii", "bin", "bool", "bytes", "bytearray", "callable", "chr", "classmethod", "complex", "dict",
            "divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "id", "int", "issubclass", "list", "map",
            "max", "min", "object", "oct", "ord", "pow", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted",
            "staticmethod", "str", "super", "tuple", "zip", "__build_class__",
        ],
    ),
    (
        "itertools",
        &[
            "accumulate", "chain", "combinations", "combinations_with_replacement", "compress", "count", "cycle", "dropwhile",
            "filterfalse", "groupby", "islice", "pairwise", "permutations", "product", "repeat", "starmap", "takewhile", "tee",
            "zip_longest",
        ],
    ),
    ("functools", &["partial", "reduce", "cmp_to_key"]),
    ("collections", &["OrderedDict", "deque", "defaultdict"]),
    (
        "math",
        &[
            "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "comb", "copysign", "cos", "cosh", "degrees",
            "dist", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "factorial", "floor", "fmod", "frexp", "fsum", "gamma", "gcd",
            "hypot", "isclose", "isfinite", "isinf", "isnan", "isqrt", "lcm", "ldexp", "lgamma", "log", "log10", "log1p", "log2",
            "modf", "nextafter", "perm", "pow", "prod", "radians", "remainder", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "ulp",
        ],
    ),
    ("operator", &["attrgetter", "itemgetter", "methodcaller", "index", "length_hint"]),
    ("types", &["MappingProxyType", "MethodType", "SimpleNamespace", "GenericAlias", "FunctionType", "CellType"]),
    ("_contextvars", &["ContextVar"]),
    ("_weakref", &["ref"]),
    ("_abc", &["_abc_instancecheck", "_abc_subclasscheck"]),
    ("torch", &["Size", "device", "dtype", "finfo", "iinfo", "is_tensor", "promote_types", "can_cast", "memory_format", "layout"]),
    ("torch._C", &["_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic", "_get_privateuse1_backend_name"]),
];

const READS_STATE: Names = &[
    (
        "torch._C",
        &[
            "is_grad_enabled", "is_inference_mode_enabled", "_is_torch_function_enabled", "_is_torch_function_all_disabled",
            "_len_torch_function_stack", "_len_torch_dispatch_stack", "_get_default_device", "_get_cudnn_enabled",
            "_get_deterministic_algorithms", "_get_deterministic_algorithms_warn_only", "_get_mkldnn_enabled", "is_autocast_enabled",
            "get_autocast_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "get_autocast_cpu_dtype",
            "get_autocast_gpu_dtype", "is_any_autocast_enabled", "_is_autocast_available", "_get_flash_sdp_enabled",
            "_get_math_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_cudnn_sdp_enabled", "get_default_dtype",
            "_get_float32_matmul_precision", "get_num_threads", "_cuda_isCurrentStreamCapturing", "is_anomaly_enabled",
        ],
    ),
    ("torch", &["get_default_dtype", "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "get_autocast_dtype"]),
    ("threading", &["get_ident"]),
    ("sys", &["getrecursionlimit", "getdefaultencoding"]),
];

const SETS_STATE: Names = &[
    (
        "torch._C",
        &[
            "_set_grad_enabled", "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled",
            "autocast_increment_nesting", "autocast_decrement_nesting", "clear_autocast_cache",
        ],
    ),
    ("torch", &[
        "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled", "autocast_increment_nesting",
        "autocast_decrement_nesting", "clear_autocast_cache",
    ]),
];

/// Binary and unary operators that `operator` and `_operator` export under these names.
const OPERATORS: &[&str] = &[
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "iadd", "isub",
    "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "ilshift", "irshift", "iand", "ior", "ixor", "neg", "pos", "invert",
    "inv", "not_", "lt", "le", "eq", "ne", "ge", "gt", "is_", "is_not", "truth", "getitem", "setitem", "delitem", "contains",
];

const SPECIAL: &[(&str, &str, Special)] = &[
    ("builtins", "getattr", Special::GetAttr),
    ("builtins", "hasattr", Special::HasAttr),
    ("builtins", "setattr", Special::SetAttr),
    ("builtins", "delattr", Special::DelAttr),
    ("builtins", "isinstance", Special::IsInstance),
    ("builtins", "type", Special::Type),
    ("builtins", "iter", Special::Iter),
    ("builtins", "next", Special::Next),
    ("builtins", "len", Special::Len),
    ("builtins", "sum", Special::Sum),
    ("builtins", "vars", Special::Vars),
    ("builtins", "globals", Special::Globals),
    ("torch.compiler", "is_compiling", Special::True),
    ("torch.compiler", "is_dynamo_compiling", Special::True),
    ("torch.compiler", "is_exporting", Special::False),
    ("torch._utils", "is_compiling", Special::True),
    ("torch.jit", "is_scripting", Special::False),
    ("torch.jit", "is_tracing", Special::False),
    ("torch._C", "_get_tracing_state", Special::None),
    ("torch._C", "_is_tracing", Special::False),
    ("torch._C", "_log_api_usage_once", Special::None),
];

/// Types whose methods, slots and constructors only read their arguments, but for the listed mutators of the object itself.
const TYPES: &[(&str, &str, &[&str])] = &[
    ("builtins", "object", &[]),
    ("builtins", "type", &["__setattr__", "__delattr__"]),
    ("builtins", "str", &[]),
    ("builtins", "bytes", &[]),
    ("builtins", "int", &[]),
    ("builtins", "bool", &[]),
    ("builtins", "float", &[]),
    ("builtins", "complex", &[]),
    ("builtins", "tuple", &[]),
    ("builtins", "frozenset", &[]),
    ("builtins", "range", &[]),
    ("builtins", "slice", &[]),
    ("builtins", "property", &[]),
    ("builtins", "BaseException", &["__setstate__", "with_traceback", "add_note"]),
    (
        "builtins",
        "list",
        &[
            "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", "__setitem__", "__delitem__", "__iadd__",
            "__imul__", "__init__",
        ],
    ),
    (
        "builtins",
        "dict",
        &["clear", "pop", "popitem", "setdefault", "update", "__setitem__", "__delitem__", "__ior__", "__init__"],
    ),
    (
        "builtins",
        "set",
        &[
            "add", "clear", "difference_update", "discard", "intersection_update", "pop", "remove", "symmetric_difference_update",
            "update", "__iand__", "__ior__", "__isub__", "__ixor__", "__init__",
        ],
    ),
    ("builtins", "bytearray", &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "__setitem__", "__delitem__"]),
    (
        "collections",
        "OrderedDict",
        &[
            "clear", "move_to_end", "pop", "popitem", "setdefault", "update", "__setitem__", "__delitem__", "__ior__", "__init__",
        ],
    ),
    ("collections", "defaultdict", &["__missing__", "__init__", "__ior__"]),
    (
        "collections",
        "deque",
        &[
            "append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popleft", "remove", "reverse", "rotate",
            "__setitem__", "__delitem__", "__iadd__", "__imul__", "__init__",
        ],
    ),
    ("types", "MappingProxyType", &[]),
    ("types", "GeneratorType", &[]),
    ("types", "MethodType", &[]),
    ("types", "SimpleNamespace", &["__init__"]),
    ("types", "FunctionType", &[]),
    ("functools", "partial", &[]),
    ("operator", "itemgetter", &[]),
    ("re", "Pattern", &[]),
    ("re", "Match", &[]),
    ("torch", "Size", &[]),
    ("torch", "device", &[]),
    ("torch", "dtype", &[]),
];

/// Builtin types that have no name in a module: reached through an example of them.
const EXAMPLES: &[&str] = &[
    "iter([])", "iter(())", "iter({})", "iter({}.values())", "iter({}.items())", "iter(set())", "iter('')", "iter(b'')",
    "iter(range(0))", "reversed([])", "reversed({})", "{}.keys()", "{}.values()", "{}.items()", "iter(lambda: 0, 0)",
    "__import__('collections').OrderedDict().keys()", "__import__('collections').OrderedDict().values()",
    "__import__('collections').OrderedDict().items()", "iter(__import__('collections').OrderedDict())",
    "iter(__import__('collections').deque())", "zip()", "enumerate(())", "map(int, ())", "filter(None, ())",
    "__import__('functools').cmp_to_key(min)(0)",
];

/// Namespaces of torch whose builtin functions are operations.
const TORCH_NAMESPACES: &[&str] = &["_nn", "_linalg", "_fft", "_special", "_sparse", "_nested"];

/// The table, resolved to the addresses of the objects of this process.
pub struct Effects {
    functions: HashMap<usize, Effect>,
    /// Address of a type → names of its mutators; types not here are unknown.
    types: HashMap<usize, &'static [&'static str]>,
    namespaces: Vec<usize>,
    tensor_base: usize,
    // The addresses above stay taken.
    _alive: Vec<Py<PyAny>>,
}

fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize
}

impl Effects {
    /// Resolves the table. Names that this Python or torch does not have are left out.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let mut table = Self {
            functions: HashMap::new(),
            types: HashMap::new(),
            namespaces: Vec::new(),
            tensor_base: 0,
            _alive: Vec::new(),
        };
        for (names, effect) in [(PURE, Effect::Pure), (READS_STATE, Effect::ReadsState), (SETS_STATE, Effect::SetsState)] {
            for (module, names) in names {
                for name in *names {
                    table.add(py, module, name, effect);
                }
            }
        }
        for (module, name, special) in SPECIAL {
            table.add(py, module, name, Effect::Special(*special));
        }
        for name in OPERATORS {
            table.add(py, "operator", name, Effect::Special(Special::Operator(name)));
        }
        for (module, name, mutators) in TYPES {
            if let Some(object) = find(py, module, name) {
                table.types.insert(address(&object), mutators);
                table._alive.push(object.unbind());
            }
        }
        for example in EXAMPLES {
            let text = std::ffi::CString::new(*example)?;
            let object = py.eval(&text, None, None)?.get_type();
            table.types.insert(object.as_ptr() as usize, &[]);
            table._alive.push(object.into_any().unbind());
        }
        for (name, special) in [
            ("__getattribute__", Special::GenericGetAttr),
            ("__setattr__", Special::SetAttr),
            ("__delattr__", Special::DelAttr),
        ] {
            let slot = py.get_type::<PyAny>().getattr(name)?;
            table.functions.insert(address(&slot), Effect::Special(special));
            table._alive.push(slot.unbind());
        }
        if let Some(get) = find(py, "_contextvars", "ContextVar").and_then(|kind| kind.getattr("get").ok()) {
            table.functions.insert(address(&get), Effect::Special(Special::ContextVarGet));
            table._alive.push(get.unbind());
        }
        let torch = py.import("torch._C")?;
        let functions = torch.getattr("_VariableFunctions")?;
        for name in functions.dir()?.iter() {
            let function = functions.getattr(name.cast::<PyString>()?)?;
            if function.is_callable() {
                table.functions.entry(address(&function)).or_insert(Effect::Torch);
                table._alive.push(function.unbind());
            }
        }
        table.tensor_base = address(&torch.getattr("TensorBase")?);
        for name in TORCH_NAMESPACES {
            if let Ok(module) = torch.getattr(*name) {
                table.namespaces.push(address(&module));
                table._alive.push(module.unbind());
            }
        }
        Ok(table)
    }

    fn add(&mut self, py: Python<'_>, module: &str, name: &str, effect: Effect) {
        if let Some(object) = find(py, module, name) {
            self.functions.insert(address(&object), effect);
            self._alive.push(object.unbind());
        }
    }

    /// What calling this C function, method, slot or type means; `None` when the table does not know it.
    pub fn of(&self, callable: &Bound<'_, PyAny>) -> Option<Effect> {
        if let Some(effect) = self.functions.get(&address(callable)) {
            return Some(*effect);
        }
        let kind = callable.get_type();
        let kind_name = kind.name().ok()?;
        match kind_name.to_str().ok()? {
            "builtin_function_or_method" => self.builtin(callable),
            "method_descriptor" | "wrapper_descriptor" | "classmethod_descriptor" => {
                self.method(&callable.getattr("__objclass__").ok()?, &callable.getattr("__name__").ok()?)
            }
            "method-wrapper" => {
                let object = callable.getattr("__self__").ok()?;
                self.method(&callable.getattr("__objclass__").unwrap_or_else(|_| object.get_type().into_any()), &callable.getattr("__name__").ok()?)
            }
            "OpOverload" | "OpOverloadPacket" => Some(Effect::Torch),
            "itemgetter" | "partial" => Some(Effect::Pure),
            _ => None,
        }
    }

    fn builtin(&self, callable: &Bound<'_, PyAny>) -> Option<Effect> {
        let owner = callable.getattr("__self__").ok()?;
        let at = address(&owner);
        if self.namespaces.contains(&at) {
            return Some(Effect::Torch);
        }
        // A class method of a type, such as dict.fromkeys or tuple.__new__, or a method of an object.
        let kind = if owner.is_instance_of::<PyType>() { owner } else { owner.get_type().into_any() };
        self.method(&kind, &callable.getattr("__name__").ok()?)
    }

    /// What the method `name`, found on `kind`, means: by the first type in its MRO that the table knows.
    fn method(&self, kind: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> Option<Effect> {
        let name = name.extract::<String>().ok()?;
        for base in kind.getattr("__mro__").ok()?.try_iter().ok()? {
            let base = base.ok()?;
            if address(&base) == self.tensor_base {
                return Some(Effect::Torch);
            }
            if let Some(mutators) = self.types.get(&address(&base)) {
                let known = base.getattr("__dict__").and_then(|dict| dict.contains(&name)).unwrap_or(false);
                if known {
                    // Looks through __reduce_ex__ into everything an object holds.
                    let opaque = name.starts_with("__reduce") || name == "__getstate__" || name == "__sizeof__";
                    return if opaque {
                        None
                    } else if mutators.contains(&name.as_str()) {
                        Some(Effect::MutatesFirst)
                    } else {
                        Some(Effect::Pure)
                    };
                }
            }
        }
        None
    }

    /// Whether the instances of a builtin type may be made: the type itself is in the table.
    pub fn knows_type(&self, kind: &Bound<'_, PyAny>) -> bool {
        self.types.contains_key(&address(kind))
    }
}

fn find<'py>(py: Python<'py>, module: &str, name: &str) -> Option<Bound<'py, PyAny>> {
    py.import(module).ok()?.getattr(name).ok()
}
