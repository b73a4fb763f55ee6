//! The kind of a callable, determined by the identity of its type, or of the function itself if it belongs to torch or the standard
//! library. Names prove nothing: `functools.wraps` copies them, and any class may be called `partial`.

use dynamlir_cpython_abi::{callable::callable_type, kind, mapping::imported, types};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyFunction, PyString, PyType},
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The way a callable is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallableKind {
    /// A Python function.
    Function,
    /// A bound method.
    Method,
    /// `functools.partial`.
    Partial,
    /// A function cached by `functools.lru_cache`.
    Cached,
    /// A function compiled by `dynamlir.compile`.
    Compiled,
    /// A C function, bound to an object or to a module.
    Builtin,
    /// A method or a slot of a C class.
    Descriptor,
    /// A slot of a C class, bound to an object.
    BoundSlot,
    /// An operator of `torch.ops`.
    Overload,
    /// `operator.itemgetter`.
    ItemGetter,
    /// `operator.attrgetter`.
    AttrGetter,
    /// `operator.methodcaller`.
    MethodCaller,
    /// Anything else.
    Other,
}

/// Python functions that are not traced into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFunction {
    /// An operation of the graph, possibly a method of `torch.Tensor`.
    Leaf {
        /// True if it is found on `torch.Tensor`.
        method: bool,
    },
    /// Only reads its arguments: tracing into it would reveal nothing.
    Opaque,
    /// If its arguments are data, reads only those and keeps only its own caches: functions of `re` and `json`.
    Data,
}

/// Modules whose Python functions are operations of the graph, not code to trace into.
const LEAF_MODULES: &[&str] = &["torch.nn.functional", "torch.functional", "torch._tensor", "torch.special", "torch.linalg", "torch.fft"];

const OPAQUE: &[(&str, &str)] = &[("inspect", "signature"), ("inspect", "getfullargspec"), ("typing", "cast")];

const DATA: &[(&str, &[&str])] = &[
    ("re", &["compile", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"]),
    ("json", &["dumps", "loads"]),
    ("collections", &["namedtuple"]),
];

/// The types and functions of this process, looked up once. They live as long as it does.
pub struct CallableKinds {
    partial: usize,
    partial_call: usize,
    /// `functools.Placeholder`, from CPython 3.14 on; else 0.
    placeholder: usize,
    cached: usize,
    overloads: [usize; 2],
    /// `operator.itemgetter`, `operator.attrgetter` and `operator.methodcaller`
    getters: [usize; 3],
    default_dict: usize,
    /// `defaultdict.default_factory`
    default_factory: Py<PyAny>,
    /// The code of `functools.cached_property.__get__`.
    cached_property: usize,
    functions: FxHashMap<usize, KnownFunction>,
    /// Addresses of the globals of torch's modules: code that has them is torch's.
    torch: FxHashSet<usize>,
    /// Keeps the addresses above taken.
    alive: Vec<Py<PyAny>>,
}

fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize
}

impl CallableKinds {
    /// Looks everything up.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let functools = dynamlir_cpython_abi::import(py, "functools")?;
        let ops = dynamlir_cpython_abi::import(py, "torch._ops")?;
        let partial = functools.getattr("partial")?;
        let cached = functools.getattr("lru_cache")?.call1((py.None(),))?.call1((py.eval(c"lambda: None", None, None)?,))?.get_type();
        let partial_call = partial.getattr("__dict__")?.get_item("__call__")?;
        let placeholder = functools.getattr_opt("Placeholder")?;
        let fills = functools.getattr("cached_property")?.getattr("__get__")?.getattr("__code__")?;
        let default_dict = dynamlir_cpython_abi::import(py, "collections")?.getattr("defaultdict")?;
        let mut found = Self {
            default_dict: address(&default_dict),
            default_factory: default_dict.getattr("default_factory")?.unbind(),
            cached_property: address(&fills),
            partial: address(&partial),
            partial_call: address(&partial_call),
            placeholder: placeholder.as_ref().map_or(0, address),
            cached: address(cached.as_any()),
            overloads: [address(&ops.getattr("OpOverload")?), address(&ops.getattr("OpOverloadPacket")?)],
            getters: {
                let operators = dynamlir_cpython_abi::import(py, "operator")?;
                let getter = |name: &str| Ok::<_, PyErr>(address(&operators.getattr(name)?));
                [getter("itemgetter")?, getter("attrgetter")?, getter("methodcaller")?]
            },
            functions: FxHashMap::default(),
            torch: FxHashSet::default(),
            alive: [partial, partial_call, fills].into_iter().chain(placeholder).map(Bound::unbind).collect(),
        };
        found.add_leaves(py)?;
        for (module, names) in DATA {
            for name in *names {
                found.add_of(py, module, name, KnownFunction::Data)?;
            }
        }
        for (module, name) in OPAQUE {
            found.add_of(py, module, name, KnownFunction::Opaque)?;
        }
        Ok(found)
    }

    /// Adds the function that a module has under a name, if its code is the module's own.
    fn add_of(&mut self, py: Python<'_>, module: &str, name: &str, known: KnownFunction) -> PyResult<()> {
        let module = dynamlir_cpython_abi::import(py, module)?;
        let function = module.getattr(name)?;
        if function.getattr_opt(intern!(py, "__globals__"))?.is_some_and(|globals| globals.is(module.dict())) {
            self.add(&function, known);
        }
        Ok(())
    }

    fn add(&mut self, function: &Bound<'_, PyAny>, known: KnownFunction) {
        if function.is_exact_instance_of::<PyFunction>() {
            self.functions.insert(address(function), known);
            self.alive.push(function.clone().unbind());
        }
    }

    /// Adds the functions of torch that are operations of the graph: those that torch's own modules, and `torch.Tensor`, have under their
    /// names, and whose code is torch's.
    fn add_leaves(&mut self, py: Python<'_>) -> PyResult<()> {
        let modules = dynamlir_cpython_abi::import(py, "sys")?.getattr("modules")?;
        for (name, module) in modules.cast::<PyDict>()?.iter() {
            let own = name.cast::<PyString>().is_ok_and(|name| {
                let name = name.to_string_lossy();
                name == "torch" || name.starts_with("torch.")
            });
            if own && let Ok(dict) = module.getattr(intern!(py, "__dict__")) {
                self.torch.insert(address(&dict));
                self.alive.push(dict.unbind());
            }
        }
        let tensor = dynamlir_cpython_abi::import(py, "torch")?.getattr("Tensor")?;
        let mut members: Vec<(Bound<'_, PyAny>, bool)> = Vec::new();
        for name in LEAF_MODULES {
            for value in dynamlir_cpython_abi::import(py, name)?.dict().values() {
                members.push((value, false));
            }
        }
        for value in tensor.getattr("__dict__")?.call_method0("values")?.try_iter()? {
            members.push((value?, true));
        }
        for (value, method) in members {
            let Ok(function) = value.cast_exact::<PyFunction>() else { continue };
            let listed = function.getattr("__module__")?.extract::<String>().is_ok_and(|name| LEAF_MODULES.contains(&name.as_str()));
            if listed && self.is_torch(&value) {
                self.add(&value, KnownFunction::Leaf { method });
            }
        }
        Ok(())
    }

    /// Returns the kind of a callable.
    pub fn of(&self, callable: &Bound<'_, PyAny>) -> CallableKind {
        if kind::is_function(callable) {
            return CallableKind::Function;
        }
        if kind::is_method(callable) {
            return CallableKind::Method;
        }
        if kind::is_c_function(callable) || kind::is_c_method(callable) {
            return CallableKind::Builtin;
        }
        if kind::is_method_descriptor(callable) || kind::is_slot_wrapper(callable) || kind::is_class_method_descriptor(callable) {
            return CallableKind::Descriptor;
        }
        if kind::is_bound_slot(callable) {
            return CallableKind::BoundSlot;
        }
        let class = callable.get_type_ptr() as usize;
        if class == self.cached {
            return CallableKind::Cached;
        }
        if self.overloads.contains(&class) {
            return CallableKind::Overload;
        }
        if let Some(at) = self.getters.iter().position(|known| *known == class) {
            return [CallableKind::ItemGetter, CallableKind::AttrGetter, CallableKind::MethodCaller][at];
        }
        if class == self.partial || self.inherits_partial(&callable.get_type()) {
            return CallableKind::Partial;
        }
        if callable_type(callable.py()).is_ok_and(|kind| class == kind.as_ptr() as usize) {
            return CallableKind::Compiled;
        }
        CallableKind::Other
    }

    /// Returns true if code is that of `functools.cached_property`.
    pub fn is_cached_property(&self, code: &Bound<'_, PyAny>) -> bool {
        address(code) == self.cached_property
    }

    /// Returns true if an object is the class `functools.partial` itself.
    pub fn is_partial_class(&self, object: &Bound<'_, PyAny>) -> bool {
        address(object) == self.partial
    }

    /// Returns true if partials may have placeholders for arguments of the call.
    pub fn has_placeholder(&self) -> bool {
        self.placeholder != 0
    }

    /// Returns true for `functools.Placeholder`.
    pub fn is_placeholder(&self, object: &Bound<'_, PyAny>) -> bool {
        address(object) == self.placeholder
    }

    /// Returns the factory that a `defaultdict` creates its defaults with, bypassing a subclass's attribute of that name; none for other
    /// objects.
    pub fn default_factory<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !object.is_instance_of::<PyDict>() || object.is_exact_instance_of::<PyDict>() {
            return Ok(None);
        }
        if !types::mro(&object.get_type())?.iter().any(|base| address(base) == self.default_dict) {
            return Ok(None);
        }
        self.default_factory.bind(object.py()).call_method1(intern!(object.py(), "__get__"), (object,)).map(Some)
    }

    /// Returns true if a bound slot is the `__call__` of a partial.
    pub fn calls_partial(&self, slot: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = slot.py();
        let is_call = slot.getattr(intern!(py, "__name__"))?.eq(intern!(py, "__call__"))?;
        Ok(is_call && matches!(self.of(&slot.getattr(intern!(py, "__self__"))?), CallableKind::Partial))
    }

    /// Returns true if a class derives from `functools.partial` and is called like it.
    fn inherits_partial(&self, class: &Bound<'_, PyType>) -> bool {
        let py = class.py();
        let Ok(mro) = types::mro(class) else { return false };
        mro.iter().any(|base| address(base) == self.partial)
            && mro
                .iter()
                .find_map(|base| types::dict(base).ok()?.get_item(intern!(py, "__call__")).ok())
                .is_some_and(|call| address(&call) == self.partial_call)
    }

    /// Returns true if the code of a Python function is torch's.
    pub fn is_torch(&self, function: &Bound<'_, PyAny>) -> bool {
        let py = function.py();
        if !function.is_exact_instance_of::<PyFunction>() {
            return false;
        }
        function.getattr(intern!(py, "__globals__")).is_ok_and(|globals| self.is_of_torch(&globals))
    }

    /// Returns true if a dict is the namespace of one of torch's modules.
    pub fn is_of_torch(&self, globals: &Bound<'_, PyAny>) -> bool {
        let py = globals.py();
        if self.torch.contains(&address(globals)) {
            return true;
        }
        // The module may have been imported later.
        let Ok(name) = globals.get_item(intern!(py, "__name__")).and_then(|name| Ok(name.cast_into::<PyString>()?)) else { return false };
        let module = if name.to_string_lossy().starts_with("torch.") { imported(py, &name).ok().flatten() } else { None };
        module.and_then(|module| module.getattr(intern!(py, "__dict__")).ok()).is_some_and(|dict| dict.is(globals))
    }

    /// Returns the role of a known Python function.
    pub fn function(&self, function: &Bound<'_, PyAny>) -> Option<KnownFunction> {
        self.functions.get(&address(function)).copied()
    }
}

/// Returns true if a module has this object at the end of a path of attributes. False if the module is not imported.
pub fn is_of(object: &Bound<'_, PyAny>, module: &str, path: &[&str]) -> PyResult<bool> {
    let mut found = imported(object.py(), &PyString::intern(object.py(), module))?;
    for name in path {
        found = found.map(|found| found.getattr_opt(*name)).transpose()?.flatten();
    }
    Ok(found.is_some_and(|found| found.is(object)))
}
