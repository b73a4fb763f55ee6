//! Symbols that the stable ABI lacks, looked up at run time: a version that does not export one is refused, instead of failing to load the
//! module.

use std::ffi::{CString, c_char, c_int, c_void};

use pyo3::ffi::{Py_ssize_t, PyInterpreterState, PyObject, PyThreadState, PyTypeObject};

use crate::{
    Refusal,
    layout::{Layout, Merging},
};

/// `_PyFrameEvalFunction`. The frame is `_PyInterpreterFrame *`; the result is a new reference, or NULL with an exception set.
pub(crate) type EvalFunction = unsafe extern "C" fn(*mut PyThreadState, *mut c_void, c_int) -> *mut PyObject;

/// `freefunc`: takes ownership of the pointer.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);

/// Looks up a symbol among the globally loaded symbols of the process, which include the running interpreter.
pub(crate) fn address(name: &'static str) -> Result<*mut c_void, Refusal> {
    let terminated = CString::new(name).map_err(|_| Refusal::Symbol(name))?;
    // SAFETY: the name is a NUL-terminated string that lives through the call.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, terminated.as_ptr().cast::<c_char>()) };
    if found.is_null() { Err(Refusal::Symbol(name)) } else { Ok(found) }
}

/// Declares [`Symbols`]: each field has the type that CPython's headers give the symbol.
macro_rules! symbols {
    ($($(#[$doc:meta])* $field:ident = $name:expr, $type:ty;)*) => {
        /// The functions, typed as in CPython's headers.
        pub(crate) struct Symbols {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Symbols {
            /// Looks up all symbols.
            pub fn load(layout: &'static Layout) -> Result<Self, Refusal> {
                $(
                    let name: fn(&'static Layout) -> &'static str = $name;
                    let found = address(name(layout))?;
                    // SAFETY: the symbol is a function of this type in the headers of every supported version.
                    let $field = unsafe { std::mem::transmute::<*mut c_void, $type>(found) };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}

type Unary = unsafe extern "C" fn(*mut PyObject) -> *mut PyObject;
type Binary = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;
type Check = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> c_int;

symbols! {
    /// Evaluates a frame as CPython does. Borrows the frame until it returns.
    eval_default = |_| "_PyEval_EvalFrameDefault", EvalFunction;
    /// Returns the function that evaluates frames.
    get_eval = |_| "_PyInterpreterState_GetEvalFrameFunc", unsafe extern "C" fn(*mut PyInterpreterState) -> EvalFunction;
    /// Sets the function that evaluates frames.
    set_eval = |_| "_PyInterpreterState_SetEvalFrameFunc", unsafe extern "C" fn(*mut PyInterpreterState, EvalFunction);
    /// Marks the code that the thread runs as a tool's.
    enter_tracing = |_| "PyThreadState_EnterTracing", unsafe extern "C" fn(*mut PyThreadState);
    /// Removes that mark.
    leave_tracing = |_| "PyThreadState_LeaveTracing", unsafe extern "C" fn(*mut PyThreadState);
    /// Reserves an index into code extras; -1 if none is left.
    request_code_extra = |layout| layout.request_code_extra, unsafe extern "C" fn(Free) -> Py_ssize_t;
    /// Borrows the code; the extra stays the code's.
    get_code_extra = |layout| layout.get_code_extra, unsafe extern "C" fn(*mut PyObject, Py_ssize_t, *mut *mut c_void) -> c_int;
    /// Borrows the code; takes ownership of the extra and frees the previous one.
    set_code_extra = |layout| layout.set_code_extra, unsafe extern "C" fn(*mut PyObject, Py_ssize_t, *mut c_void) -> c_int;
    /// Borrows all; returns a new reference.
    vectorcall = |_| "PyObject_Vectorcall", unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, usize, *mut PyObject) -> *mut PyObject;
    /// Borrows the object and the name; stores a new reference; 1 if it is an unbound method.
    get_method = |_| "_PyObject_GetMethod", unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut *mut PyObject) -> c_int;
    /// Borrows both; returns a borrowed reference, or NULL without an exception.
    type_lookup = |_| "_PyType_Lookup", unsafe extern "C" fn(*mut PyTypeObject, *mut PyObject) -> *mut PyObject;
    /// Borrows the content, which may be NULL; returns a new reference.
    cell_new = |_| "PyCell_New", Unary;
    /// Borrows the cell; returns a new reference, or NULL without an exception if it is empty.
    cell_get = |_| "PyCell_Get", Unary;
    /// Borrows both; the content may be NULL.
    cell_set = |_| "PyCell_Set", Check;
    /// Borrows both; returns a new reference.
    function_new = |_| "PyFunction_New", Binary;
    /// Borrows both.
    function_set_closure = |_| "PyFunction_SetClosure", Check;
    /// Borrows both.
    function_set_defaults = |_| "PyFunction_SetDefaults", Check;
    /// Borrows both.
    function_set_kwdefaults = |_| "PyFunction_SetKwDefaults", Check;
    /// Borrows both.
    function_set_annotations = |_| "PyFunction_SetAnnotations", Check;
    /// Borrows both.
    set_update = |_| "_PySet_Update", Check;
}

/// `void _PyEval_FrameClearAndPop(PyThreadState *, _PyInterpreterFrame *)`, if exported: drops everything that the frame owns.
pub(crate) type ClearAndPop = unsafe extern "C" fn(*mut PyThreadState, *mut c_void);

/// Looks up [`ClearAndPop`].
pub(crate) fn clear_and_pop() -> Result<ClearAndPop, Refusal> {
    let found = address("_PyEval_FrameClearAndPop")?;
    // SAFETY: the symbol is a function of this type in the headers of the versions that export it.
    Ok(unsafe { std::mem::transmute::<*mut c_void, ClearAndPop>(found) })
}

/// `_PyDict_MergeEx`: borrows both; with argument 2, an existing key is a `KeyError`.
type MergeEx = unsafe extern "C" fn(*mut PyObject, *mut PyObject, c_int) -> c_int;
/// `_PyDict_MergeUniq`: borrows both; for an existing key, stores a new reference to it without setting an exception.
type MergeUniq = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut *mut PyObject) -> c_int;

/// The function that merges a dict into another one that must not have its keys: see [`Merging`].
pub(crate) enum Merge {
    Ex(MergeEx),
    Uniq(MergeUniq),
}

impl Merge {
    /// Looks up this version's function.
    pub fn load(merging: Merging) -> Result<Self, Refusal> {
        Ok(match merging {
            // SAFETY: the symbol is a function of this type in the headers of the versions that export it.
            Merging::Ex => Self::Ex(unsafe { std::mem::transmute::<*mut c_void, MergeEx>(address("_PyDict_MergeEx")?) }),
            // SAFETY: as above.
            Merging::Uniq => Self::Uniq(unsafe { std::mem::transmute::<*mut c_void, MergeUniq>(address("_PyDict_MergeUniq")?) }),
        })
    }
}
