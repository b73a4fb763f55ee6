//! Where things lie in a version's structures. One file per version; nothing here is shared by accident.

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;

/// What `_PyInterpreterFrame`'s instruction pointer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionPointer {
    /// `prev_instr`: the unit that runs; the next one to run is the one after it.
    Previous,
    /// `instr_ptr`: the unit that runs, or that will run next.
    Current,
}

/// The words of a frame that hold objects: code, function, locals, and the value stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// `PyObject *`, NULL where there is none. `stack_top` is an `int`: how many slots of `localsplus` hold locals and stack; -1 while the
    /// frame runs.
    Plain,
    /// `_PyStackRef`: the lowest bit says that nothing is counted for this reference, as for immortal objects, and alone it is NULL; both
    /// low bits are those of an int, shifted by two. `stack_top` is the address behind the last slot in use.
    Tagged,
}

/// Offsets in `_PyInterpreterFrame`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLayout {
    pub code: usize,
    pub function: usize,
    pub globals: usize,
    pub builtins: usize,
    pub locals: usize,
    pub object: usize,
    pub previous: usize,
    pub instruction: usize,
    pub instruction_is: InstructionPointer,
    pub references: References,
    /// See [`References`].
    pub stack_top: usize,
    /// `bool`: set while the frame is the first of an evaluation.
    pub is_entry: Option<usize>,
    pub owner: usize,
    pub localsplus: usize,
}

/// How the thread state knows the frame that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CurrentFrame {
    /// Through `tstate->cframe`, at these offsets in it.
    CFrame { cframe: usize, frame: usize },
    /// In the thread state.
    Direct(usize),
}

/// Where a thread sees that something waits: signals, pending calls, others that want the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EvalBreaker {
    /// An `int` of the interpreter state.
    Interpreter(usize),
    /// A word of the thread state; the upper bits count versions of the instrumentation.
    Thread(usize),
}

/// How the depth of C is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CRecursion {
    /// `int`: how much deeper C may go.
    pub remaining: usize,
    /// What an evaluation takes of it (`PY_EVAL_C_STACK_UNITS`).
    pub units: std::ffi::c_int,
}

/// Offsets in `PyThreadState`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadLayout {
    pub interpreter: usize,
    /// `int`: how many more Python frames may be entered.
    pub recursion_remaining: usize,
    pub recursion_limit: usize,
    /// Where calls that C makes are counted apart.
    pub c_recursion: Option<CRecursion>,
    pub current_frame: CurrentFrame,
    /// `int`: not 0 while a tool's code runs, such as a trace function or an audit hook.
    pub tracing: usize,
    pub profile: usize,
    pub trace: usize,
    /// `_PyErr_StackItem *`: the exception being handled comes first in it.
    pub exc_info: usize,
    pub eval_breaker: EvalBreaker,
}

/// Offsets in `PyCodeObject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeLayout {
    /// `int`: how many slots of `localsplus` are locals.
    pub locals_count: usize,
    /// `int`: how many of them are free variables.
    pub free_count: usize,
    /// A tuple of strings.
    pub local_names: usize,
    pub instructions: usize,
}

/// Offsets in `PyTypeObject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeLayout {
    pub version_tag: usize,
}

/// Where instances have attributes, of classes that manage the dict of their instances (`Py_TPFLAGS_MANAGED_DICT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedStorage {
    /// In a dict, whose address is in the third word in front of the object.
    Dict,
    /// As `Dict`; before there is one, in values whose address is in the fourth word. The address of the table of their names lies
    /// in the class (`ht_cached_keys`).
    DictOrValues { keys: usize },
    /// In the third word in front of the object is the address of the dict, or an odd one of values, with names as above.
    Tagged { keys: usize },
}

/// Values of attributes that lie in instances themselves (`Py_TPFLAGS_INLINE_VALUES`), behind what the class says is their size. The dict
/// of such an instance shares them, and its version does not change when one is assigned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineValues {
    /// `PyDictValues.values`: the first value; the first byte says for how many there is room.
    pub first: usize,
    /// `PyDictValues.embedded`: a byte, which is 0 where the values are those of the dict alone.
    pub embedded: usize,
    /// `PyDictValues.size`: a byte, which says how many values there are.
    pub size: usize,
    /// `PyDictValues.valid`: a byte, which is 0 where the instance does not use the values.
    pub valid: usize,
    /// `PyHeapTypeObject.ht_cached_keys`: the address of the table of names.
    pub keys: usize,
}

/// How a frame that raised is left, when its traceback entry is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The caller of the hook clears the frame.
    Caller,
    /// The hook does, and nothing for it is exported: the default evaluator is entered with the exception.
    Default,
    /// The hook does, with `_PyEval_FrameClearAndPop`.
    Call,
}

/// The way to merge a dict into another one that must not have its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// `_PyDict_MergeEx` raises a `KeyError` for a key that is there already.
    Ex,
    /// `_PyDict_MergeUniq` raises nothing then, and hands out the key.
    Uniq,
}

/// Everything about one version.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub(crate) struct Layout {
    pub version: (u8, u8),
    pub frame: FrameLayout,
    pub thread: ThreadLayout,
    pub code: CodeLayout,
    pub types: TypeLayout,
    /// `uint64_t` in `PyDictObject` that changes with each change of the dict, unless that shares inline values.
    pub dict_version: Option<usize>,
    pub inline_values: Option<InlineValues>,
    pub managed_storage: ManagedStorage,
    /// `PyTupleObject.ob_item`: the first of the items.
    pub tuple_items: usize,
    /// True if a thread knows the bounds of its stack, by which it tells how deep C may go; else calls are counted.
    pub knows_stack: bool,
    pub leaving: Leaving,
    pub merging: Merging,
    /// True if a loop over a list, tuple, str or bytes has that on the value stack, and above it the index as a tagged int; other loops
    /// have NULL there.
    pub loops_by_index: bool,
    /// True if a module's namespace may hold an import that the first load of its name is to make (`lazy import`).
    pub imports_lazily: bool,
    /// What `match` says of a pattern that is called and is not a class.
    pub no_class_in_pattern: &'static str,
    /// Whether an `ImportError` of `from module import name` says the name.
    pub import_error_has_name: bool,
    pub set_code_extra: &'static str,
    pub get_code_extra: &'static str,
    pub request_code_extra: &'static str,
}

/// The table of a version.
pub(crate) fn layout(version: (u8, u8)) -> Option<&'static Layout> {
    [&v3_11::LAYOUT, &v3_12::LAYOUT, &v3_13::LAYOUT, &v3_14::LAYOUT, &v3_15::LAYOUT].into_iter().find(|layout| layout.version == version)
}
