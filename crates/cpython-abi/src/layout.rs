//! The layout of a version's structures. One file per version; nothing here is shared by accident.

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;

/// The meaning of `_PyInterpreterFrame`'s instruction pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionPointer {
    /// `prev_instr`: the running unit; the next one to run follows it.
    Previous,
    /// `instr_ptr`: the running unit, or the one that will run next.
    Current,
}

/// The format of the words of a frame that refer to objects: code, function, locals, and the value stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// `PyObject *`, or NULL. `stack_top` is an `int`: the number of slots of `localsplus` used by locals and stack; -1 while the frame
    /// runs.
    Plain,
    /// `_PyStackRef`: the lowest bit marks a reference that is not counted, as for immortal objects; that bit alone is NULL. Both low bits
    /// mark an int, shifted by two. `stack_top` is the address after the last slot in use.
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

/// The location of the current frame in the thread state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CurrentFrame {
    /// Through `tstate->cframe`, at these offsets.
    CFrame { cframe: usize, frame: usize },
    /// In the thread state itself.
    Direct(usize),
}

/// The location where a thread sees pending work: signals, pending calls, other threads that want the GIL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EvalBreaker {
    /// An `int` in the interpreter state.
    Interpreter(usize),
    /// A word in the thread state; its upper bits are a version of the instrumentation.
    Thread(usize),
}

/// The counter of C recursion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CRecursion {
    /// `int`: the remaining depth of C recursion.
    pub remaining: usize,
    /// The cost of one evaluation (`PY_EVAL_C_STACK_UNITS`).
    pub units: std::ffi::c_int,
}

/// Offsets in `PyThreadState`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadLayout {
    pub interpreter: usize,
    /// `int`: the number of Python frames that may still be entered.
    pub recursion_remaining: usize,
    pub recursion_limit: usize,
    /// Present if calls from C are counted separately.
    pub c_recursion: Option<CRecursion>,
    pub current_frame: CurrentFrame,
    /// `int`: nonzero while a tool's code runs, such as a trace function or an audit hook.
    pub tracing: usize,
    pub profile: usize,
    pub trace: usize,
    /// `_PyErr_StackItem *`: its first member is the exception being handled.
    pub exc_info: usize,
    pub eval_breaker: EvalBreaker,
}

/// Offsets in `PyCodeObject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeLayout {
    /// `int`: the number of slots of `localsplus` that are locals.
    pub locals_count: usize,
    /// `int`: the number of these that are free variables.
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

/// The storage of instance attributes for classes that manage the dict of their instances (`Py_TPFLAGS_MANAGED_DICT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedStorage {
    /// A dict, whose address is in the third word before the object.
    Dict,
    /// As `Dict`. Before a dict exists, the values are in an array whose address is in the fourth word. The address of the table of their
    /// names is in the class (`ht_cached_keys`).
    DictOrValues { keys: usize },
    /// The third word before the object is the address of the dict, or an odd address of values, with names as above.
    Tagged { keys: usize },
}

/// Attribute values stored in instances themselves (`Py_TPFLAGS_INLINE_VALUES`), after the size given by the class. The dict of such an
/// instance shares them, and its version does not change when one is assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineValues {
    /// `PyDictValues.values`: the first value. The first byte of `PyDictValues` is the capacity.
    pub first: usize,
    /// `PyDictValues.embedded`: a byte, 0 if the values belong to the dict alone.
    pub embedded: usize,
    /// `PyDictValues.size`: a byte, the number of values.
    pub size: usize,
    /// `PyDictValues.valid`: a byte, 0 if the instance does not use the values.
    pub valid: usize,
    /// `PyHeapTypeObject.ht_cached_keys`: the address of the name table.
    pub keys: usize,
}

/// The way to leave a frame that raised, once its traceback entry exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The caller of the hook clears the frame.
    Caller,
    /// The hook must clear it, but no function for that is exported: the default evaluator is entered with the exception.
    Default,
    /// The hook clears it with `_PyEval_FrameClearAndPop`.
    Call,
}

/// The way to merge a dict into another one that must not have its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// `_PyDict_MergeEx` raises a `KeyError` for an existing key.
    Ex,
    /// `_PyDict_MergeUniq` does not raise, and returns the existing key.
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
    /// `uint64_t` in `PyDictObject` that changes with each change of the dict, unless the dict shares inline values.
    pub dict_version: Option<usize>,
    pub inline_values: Option<InlineValues>,
    pub managed_storage: ManagedStorage,
    /// `PyTupleObject.ob_item`: the first item.
    pub tuple_items: usize,
    /// True if a thread knows the bounds of its stack and limits C recursion by them; otherwise calls are counted.
    pub knows_stack: bool,
    pub leaving: Leaving,
    pub merging: Merging,
    /// True if a loop over a list, tuple, str or bytes has that object on the value stack, and above it the index as a tagged int; other
    /// loops have NULL there.
    pub loops_by_index: bool,
    /// True if a module's namespace may hold an import that is performed when its name is first loaded (`lazy import`).
    pub imports_lazily: bool,
    /// The error message of `match` for a class pattern whose callable is not a class.
    pub no_class_in_pattern: &'static str,
    /// True if an `ImportError` of `from module import name` stores the name.
    pub import_error_has_name: bool,
    pub set_code_extra: &'static str,
    pub get_code_extra: &'static str,
    pub request_code_extra: &'static str,
}

/// Returns the table of a version.
pub(crate) fn layout(version: (u8, u8)) -> Option<&'static Layout> {
    [&v3_11::LAYOUT, &v3_12::LAYOUT, &v3_13::LAYOUT, &v3_14::LAYOUT, &v3_15::LAYOUT].into_iter().find(|layout| layout.version == version)
}
