//! The effects of C functions: the table of those that may be called while capturing. Everything else ends the capture.
//!
//! A C function cannot be interpreted, so it is called for real. That is correct if it only reads its arguments and returns a new object,
//! and harmless if the objects that it changes were created by the frame itself. Python code that it calls back (`__eq__`, `key=`) comes
//! through the frame hook and is interpreted.

pub mod claim;
pub(crate) mod functions;
pub(crate) mod table;

use dynamlir_cpython_abi::{kind, types};
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    types::{PyFunction, PyString, PyType},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    objects::interruptions::interruption_behind,
    objects::{
        callable_kinds::{CallableKind, CallableKinds},
        effects::{
            claim::{Claim, METHODS, MUTATORS},
            functions::FUNCTIONS,
            table::{DESCRIPTORS, EXAMPLES, LEVELS, MEMBERS, NUMPY, OPERATORS, REFUSED, SPECIAL, TORCH_NAMESPACES, TYPES},
        },
    },
};

pub use crate::objects::effects::table::NODES;

/// The effect of calling a C function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads its arguments, however deep, and returns something new or a part of them.
    Pure,
    /// As `Pure`, on values that are not tensors. Torch looks up operators for it, which the capture must not see.
    Outside,
    /// As `Pure`, if all arguments are numbers and text: numpy's functions.
    Numbers,
    /// As `Pure`, if all arguments are numbers, text, or lists, tuples and dicts of these.
    Data,
    /// As `Pure`, but changes its first argument: allowed on objects that the frame created.
    MutatesFirst,
    /// Answers from the thread's state that the global guard covers.
    ReadsState,
    /// Answers from other state: each guard check calls it again.
    Asked,
    /// Sets state of the thread, which the frame must restore before it returns, except that grad mode may stay off.
    SetsState,
    /// An operation of torch: run on fakes and recorded in the graph.
    Torch,
    /// The policy implements it itself.
    Special(Special),
    /// Ends the capture, for this reason.
    Refused(&'static str),
}

/// Builtins that the policy implements itself, because they look inside objects or at fakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `getattr`
    GetAttr,
    /// `hasattr`
    HasAttr,
    /// `setattr`
    SetAttr,
    /// `delattr`
    DelAttr,
    /// `object.__setattr__`
    GenericSetAttr,
    /// `object.__delattr__`
    GenericDelAttr,
    /// `object.__getattribute__`
    GenericGetAttr,
    /// `record_function.__enter__`, which begins a range for a profiler
    Annotates,
    /// A function that does nothing
    Ignored,
    /// `isinstance`
    IsInstance,
    /// `type.__instancecheck__`, beneath `isinstance` of a class whose metaclass has one of its own
    PlainInstance,
    /// `issubclass`
    IsSubclass,
    /// `_abc._abc_instancecheck` and `_abc._abc_subclasscheck`, beneath `isinstance` of an abstract base class
    Registered,
    /// `type(x)`
    Type,
    /// `iter(x)`
    Iter,
    /// `next(x)`
    Next,
    /// `len(x)`
    Len,
    /// `dynamlir.capture.keys.compared`
    Compared,
    /// `dynamlir.capture.keys.addressed`
    Addressed,
    /// `sum(xs)`
    Sum,
    /// `torch._check_with`, beneath `torch._check` and its relatives
    Expected,
    /// `torch._check_is_size`
    IsSize,
    /// `vars(x)`
    Vars,
    /// `globals()`
    Globals,
    /// `operator.add` and the others: treated like their opcodes
    Operator(&'static str),
    /// `__reduce_ex__` and its parts, which look into everything an object holds
    Reduce,
    /// `torch.autograd.Function.apply`, beneath its Python
    FunctionApply,
    /// `torch.utils.checkpoint.checkpoint`
    Checkpoint,
    /// A transform of `torch.func`, replaced by a function of `dynamlir.capture.transforms`
    Transform(&'static str),
    /// Begins (true) or ends such a transform, within which torch refuses some operations
    Level(bool),
    /// `torch.cond` or `torch.while_loop`
    Region(&'static str),
    /// A function of torch that only loads what is not loaded yet
    Loads,
    /// A function of the training step, replaced by one of `dynamlir.capture.gradients`
    Gradients(&'static str),
    /// A function that decides or computes by a tensor's contents, replaced by one of this module of `dynamlir.capture` where a graph can
    /// read numbers
    Reading(&'static str, &'static str),
    /// `dynamlir.capture.gradients.reached`
    Reached,
    /// A function that sets the hooks for saved tensors
    SavedTensorsHooks,
    /// `ContextVar.get`
    ContextVarGet,
    /// `ContextVar.set`
    ContextVarSet,
    /// `ContextVar.reset`
    ContextVarReset,
    /// `itertools.chain.from_iterable`
    ChainOf,
    /// `type.__subclasses__`
    Subclasses,
    /// A function that describes numpy's types
    OfTypes,
    /// `__get__` of an attribute that C code reads: `torch.Tensor.shape.__get__(x)`
    Binds,
    /// `RLock.__enter__`
    Lock,
    /// `RLock.__exit__`
    Unlock,
    /// `sys.exc_info()` and `sys.exception()`: the exception being handled, perhaps by a caller
    Handled,
    /// `id(x)`
    Id,
    /// `hash(x)`
    Hash,
    /// `torch.is_inference_mode_enabled()`, of the caller's mode
    IsInference,
    /// `torch.is_autocast_cache_enabled()`, which is off while capturing
    AutocastCache,
    /// `torch._C._InferenceMode`, beneath `torch.inference_mode`
    InferenceMode,
    /// `torch.compiler.is_compiling()`
    Compiling,
    /// A call whose answer while capturing is `False`.
    False,
    /// A call whose answer while capturing is `None`.
    None,
    /// A call whose answer while capturing is 0.
    Zero,
}

/// The table, resolved to the addresses of the objects of this process.
pub struct Effects {
    functions: FxHashMap<usize, Effect>,
    /// The special methods that the functions look up in the classes of their arguments.
    specials: FxHashMap<usize, &'static [&'static str]>,
    /// Address of a type → names of its mutators; types not here are unknown.
    types: FxHashMap<usize, &'static [&'static str]>,
    namespaces: Vec<usize>,
    /// Types of C methods and the like, whose instances never change.
    descriptors: FxHashSet<usize>,
    tensor_base: usize,
    /// The kinds of callables.
    pub kinds: CallableKinds,
    /// Keeps the addresses above taken.
    alive: Vec<Py<PyAny>>,
}

fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize
}

impl Effects {
    /// Resolves the table. Names that this Python or torch does not have are left out.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let mut table = Self {
            functions: FxHashMap::default(),
            specials: FxHashMap::default(),
            types: FxHashMap::default(),
            namespaces: Vec::new(),
            descriptors: FxHashSet::default(),
            tensor_base: 0,
            kinds: CallableKinds::new(py)?,
            alive: Vec::new(),
        };
        for row in FUNCTIONS {
            for (module, names) in row.names {
                for name in *names {
                    table.add(py, module, name, row.effect)?;
                    if let Some(object) = find(py, module, name)? {
                        table.specials.insert(address(&object), row.claim.specials());
                    }
                }
            }
        }
        table.add_numpy(py)?;
        for (module, name, special) in SPECIAL {
            table.add(py, module, name, Effect::Special(*special))?;
        }
        for (why, names) in REFUSED {
            for (module, name) in *names {
                table.add(py, module, name, Effect::Refused(why))?;
            }
        }
        // Imported now, while nothing is being captured.
        for module in ["assertions", "named_tuples", "optimizers"] {
            dynamlir_cpython_abi::import(py, &format!("dynamlir.capture.{module}"))?;
        }
        table.add(py, "builtins", "str.maketrans", Effect::Data)?;
        // Their Python code only prepares the engine's arguments, and what the engine runs is recorded.
        for (module, name) in NODES {
            table.add(py, module, name, Effect::Torch)?;
        }
        for (module, name) in LEVELS {
            table.add(py, module, name, Effect::SetsState)?;
        }
        for name in OPERATORS {
            table.add(py, "operator", name, Effect::Special(Special::Operator(name)))?;
        }
        for (module, name, mutators) in TYPES {
            if let Some(object) = find(py, module, name)? {
                table.types.insert(address(&object), mutators);
                table.alive.push(object.unbind());
            }
        }
        // Exceptions differ in how they are created, but all of them change by the same methods.
        let changes = TYPES.iter().find(|(_, name, _)| *name == "BaseException").map_or(&[][..], |(.., changes)| changes);
        for object in dynamlir_cpython_abi::import(py, "builtins")?.dict().values() {
            if let Ok(class) = object.cast::<PyType>()
                && class.is_subclass_of::<PyBaseException>()?
            {
                table.types.insert(address(&object), changes);
                table.alive.push(object.unbind());
            }
        }
        for example in EXAMPLES {
            let text = std::ffi::CString::new(*example)?;
            let object = py.eval(&text, None, None)?.get_type();
            table.types.insert(object.as_ptr() as usize, &["__next__", "__setstate__"]);
            table.alive.push(object.into_any().unbind());
        }
        for (name, special) in [
            ("__getattribute__", Special::GenericGetAttr),
            ("__setattr__", Special::GenericSetAttr),
            ("__delattr__", Special::GenericDelAttr),
        ] {
            let slot = py.get_type::<PyAny>().getattr(name)?;
            table.functions.insert(address(&slot), Effect::Special(special));
            table.alive.push(slot.unbind());
        }
        for (module, class, name, special) in MEMBERS {
            let Some(class) = find(py, module, class)? else { continue };
            let members = class.getattr("__dict__")?;
            if members.contains(*name)? {
                let raw = members.get_item(*name)?;
                table.functions.insert(address(&raw), Effect::Special(*special));
                table.alive.push(raw.unbind());
            }
        }
        for name in DESCRIPTORS {
            if let Some(object) = find(py, "types", name)? {
                table.descriptors.insert(address(&object));
                table.alive.push(object.unbind());
            }
        }
        let torch = dynamlir_cpython_abi::import(py, "torch._C")?;
        let apply = torch.getattr("_FunctionBase")?.getattr("__dict__")?.get_item("apply")?;
        table.functions.insert(address(&apply), Effect::Special(Special::FunctionApply));
        table.alive.push(apply.unbind());
        let functions = torch.getattr("_VariableFunctions")?;
        for name in functions.dir()?.iter() {
            let function = functions.getattr(name.cast::<PyString>()?)?;
            if function.is_callable() {
                table.functions.entry(address(&function)).or_insert(Effect::Torch);
                table.alive.push(function.unbind());
            }
        }
        table.tensor_base = address(&torch.getattr("TensorBase")?);
        for name in TORCH_NAMESPACES {
            if let Some(module) = torch.getattr_opt(*name)? {
                table.namespaces.push(address(&module));
                table.alive.push(module.unbind());
            }
        }
        Ok(table)
    }

    fn add(&mut self, py: Python<'_>, module: &str, path: &str, effect: Effect) -> PyResult<()> {
        if let Some(object) = find(py, module, path)? {
            self.functions.insert(address(&object), effect);
            self.alive.push(object.unbind());
        }
        Ok(())
    }

    /// Adds the functions of numpy that compute a number from numbers: numpy's own, not those that `frompyfunc` creates.
    fn add_numpy(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(ufunc) = find(py, "numpy", "ufunc")? else { return Ok(()) };
        let numpy = dynamlir_cpython_abi::import(py, "numpy")?;
        for value in numpy.dict().values() {
            if value.get_type().is(&ufunc) {
                self.functions.insert(address(&value), Effect::Numbers);
                self.alive.push(value.unbind());
            }
        }
        for name in NUMPY {
            self.add(py, "numpy", name, Effect::Numbers)?;
        }
        Ok(())
    }

    /// Returns true if this is a method, slot or attribute that torch's C code gives all tensors.
    pub fn is_of_tensors(&self, descriptor: &Bound<'_, PyAny>) -> bool {
        let own = || descriptor.getattr("__objclass__").is_ok_and(|class| address(&class) == self.tensor_base);
        kind::is_class_member(descriptor) && own()
    }

    /// Returns the effect of calling this C function, method, slot or type; `None` if the table does not know it.
    pub fn of(&self, callable: &Bound<'_, PyAny>) -> Option<Effect> {
        if let Some(effect) = self.functions.get(&address(callable)) {
            return Some(*effect);
        }
        match self.kinds.of(callable) {
            CallableKind::Builtin => self.builtin(callable),
            CallableKind::Descriptor => self.method(&callable.getattr("__objclass__").ok()?, &callable.getattr("__name__").ok()?),
            CallableKind::BoundSlot => {
                let object = callable.getattr("__self__").ok()?;
                self.method(
                    &callable.getattr("__objclass__").unwrap_or_else(|_| object.get_type().into_any()),
                    &callable.getattr("__name__").ok()?,
                )
            }
            CallableKind::Overload => Some(Effect::Torch),
            CallableKind::ItemGetter => Some(Effect::Pure),
            _ => None,
        }
    }

    /// Returns true if this very object has an entry that says that it only reads.
    pub fn is_pure(&self, callable: &Bound<'_, PyAny>) -> bool {
        self.functions.get(&address(callable)) == Some(&Effect::Pure)
    }

    fn builtin(&self, callable: &Bound<'_, PyAny>) -> Option<Effect> {
        let owner = callable.getattr("__self__").ok()?;
        let at = address(&owner);
        if self.namespaces.contains(&at) {
            return Some(Effect::Torch);
        }
        // A class method of a type, such as dict.fromkeys or tuple.__new__, or a method of an object.
        let name = callable.getattr("__name__").ok()?;
        if owner.is_instance_of::<PyType>() && name.eq("__instancecheck__").ok()? {
            // The owner may be a tensor class, whose methods would otherwise count as torch's.
            return Some(Effect::Special(Special::PlainInstance));
        }
        if !owner.is_instance_of::<PyType>() {
            return self.method(&owner.get_type().into_any(), &name);
        }
        let of_type =
            || self.functions.get(&address(&owner.py().get_type::<PyType>().getattr("__dict__").ok()?.get_item(&name).ok()?)).copied();
        self.method(&owner, &name).or_else(of_type)
    }

    /// Returns the effect of the method `name`, found on `kind`: that of the first type in its MRO that the table knows.
    fn method(&self, kind: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> Option<Effect> {
        let name = name.extract::<String>().ok()?;
        for base in types::mro(kind.cast::<PyType>().ok()?).ok()? {
            let base = base.into_any();
            // A method with its own entry, such as `object.__setattr__`, bound to an object.
            let raw = base.getattr("__dict__").and_then(|dict| dict.get_item(&name)).ok();
            if let Some(effect) = raw.and_then(|raw| self.functions.get(&address(&raw))) {
                return Some(*effect);
            }
            if address(&base) == self.tensor_base {
                return Some(Effect::Torch);
            }
            if let Some(mutators) = self.types.get(&address(&base)) {
                let known = base.getattr("__dict__").and_then(|dict| dict.contains(&name)).unwrap_or(false);
                if known {
                    return if name.starts_with("__reduce") || name == "__getstate__" {
                        Some(Effect::Special(Special::Reduce))
                    } else if name == "__sizeof__" {
                        None
                    } else if mutators.contains(&name.as_str()) {
                        Some(Effect::MutatesFirst)
                    } else {
                        Some(Effect::Pure)
                    };
                }
            }
            // Another type's method of that name proves nothing about this one. `torch.Tensor` itself has some methods of its base.
            let own = base.getattr("__dict__").and_then(|dict| dict.get_item(&name)).ok();
            if own.as_ref().is_some_and(|own| self.is_of_tensors(own)) {
                return Some(Effect::Torch);
            }
            if own.is_some_and(|own| !own.is_exact_instance_of::<PyFunction>()) {
                return None;
            }
        }
        None
    }

    /// Returns the special methods that a function of the table may call on its arguments; none for a function without a row of its own.
    pub fn specials(&self, callable: &Bound<'_, PyAny>) -> Option<&'static [&'static str]> {
        self.specials.get(&address(callable)).copied()
    }

    /// Returns true if an object is a method of C code or the like, which never changes.
    pub fn is_descriptor(&self, object: &Bound<'_, PyAny>) -> bool {
        self.descriptors.contains(&(object.get_type_ptr() as usize))
    }

    /// Returns true if instances of a builtin type may be created: the type itself is in the table.
    pub fn knows_type(&self, kind: &Bound<'_, PyAny>) -> bool {
        self.types.contains_key(&address(kind))
    }
}

/// Returns all functions, and the mutating methods of the known types, each with its module and its claim. For the other methods of those
/// types, and for those of types known by an example, `METHODS` is claimed.
pub fn claims() -> Vec<(&'static str, String, Effect, Claim)> {
    let mut claims = Vec::new();
    for row in FUNCTIONS {
        for (module, names) in row.names {
            claims.extend(names.iter().map(|name| (*module, (*name).to_owned(), row.effect, row.claim)));
        }
    }
    for (module, class, mutators) in TYPES {
        claims.extend(mutators.iter().map(|name| (*module, format!("{class}.{name}"), Effect::MutatesFirst, MUTATORS)));
        claims.push((*module, format!("{class}.*"), Effect::Pure, METHODS));
    }
    claims
}

/// Returns the object that a module has under a name, which may have dots; None if this Python or torch does not have the module or name.
/// An interruption is raised: otherwise the table would permanently lack what was interrupted.
fn find<'py>(py: Python<'py>, module: &str, path: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = dynamlir_cpython_abi::import(py, module)
        .map(Bound::into_any)
        .and_then(|module| path.split('.').try_fold(module, |at, name| at.getattr(name)));
    match found {
        Ok(object) => Ok(Some(object)),
        Err(error) => interruption_behind(py, &error).map_or(Ok(None), Err),
    }
}
