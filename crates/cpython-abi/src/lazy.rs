//! Lazy imports (PEP 810, CPython 3.15): a namespace may hold a placeholder. The first load of its name performs the import and replaces
//! the placeholder.

use std::ffi::{c_int, c_void};

use pyo3::{
    ffi::{self, PyObject, PyThreadState, PyTypeObject},
    prelude::*,
    types::PyString,
};

use crate::{Frame, Refusal, abi, symbols::address};

/// `_PyLazyImport_Reify(tstate, placeholder, name, namespace)`: borrows all; returns a new reference.
type Reify = unsafe extern "C" fn(*mut PyThreadState, *mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;
/// `_PyEval_LazyImportName(tstate, builtins, globals, locals, name, fromlist, level, lazy)`: borrows all; returns a new reference.
type ImportName = unsafe extern "C" fn(
    *mut PyThreadState,
    *mut PyObject,
    *mut PyObject,
    *mut PyObject,
    *mut PyObject,
    *mut PyObject,
    *mut PyObject,
    c_int,
) -> *mut PyObject;
/// `_PyEval_LazyImportFrom(tstate, frame, placeholder, name)`: borrows all; returns a new reference.
type ImportFrom = unsafe extern "C" fn(*mut PyThreadState, *mut c_void, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// CPython's exported functions for lazy imports.
pub(crate) struct Lazy {
    /// `PyLazyImport_Type`, which is never dereferenced.
    class: usize,
    reify: Reify,
    import_name: ImportName,
    import_from: ImportFrom,
}

impl Lazy {
    /// Looks up the symbols.
    pub fn load() -> Result<Self, Refusal> {
        let class = address("PyLazyImport_Type")? as usize;
        let (reify, import_name) = (address("_PyLazyImport_Reify")?, address("_PyEval_LazyImportName")?);
        let import_from = address("_PyEval_LazyImportFrom")?;
        // SAFETY: the symbols are functions of these types in the headers of the versions that export them.
        Ok(unsafe {
            Self {
                class,
                reify: std::mem::transmute::<*mut c_void, Reify>(reify),
                import_name: std::mem::transmute::<*mut c_void, ImportName>(import_name),
                import_from: std::mem::transmute::<*mut c_void, ImportFrom>(import_from),
            }
        })
    }
}

/// Returns the functions, if this version has lazy imports.
fn functions(py: Python<'_>) -> Option<&'static Lazy> {
    abi(py).ok()?.lazy.as_ref()
}

/// Returns true if namespaces may hold placeholders.
pub fn is_possible(py: Python<'_>) -> bool {
    functions(py).is_some()
}

/// Returns true for the placeholder of an import that has not been performed yet.
pub fn is_placeholder(object: &Bound<'_, PyAny>) -> bool {
    functions(object.py()).is_some_and(|lazy| object.get_type_ptr() == lazy.class as *mut PyTypeObject)
}

/// Returns a value found in a namespace, after performing the import if it is a placeholder; the namespace then holds the imported object.
/// This may run any Python code.
///
/// # Errors
/// Returns the exception raised by the import.
pub fn resolved<'py>(found: Bound<'py, PyAny>, name: &Bound<'py, PyString>, namespace: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = found.py();
    let Some(lazy) = functions(py).filter(|_| is_placeholder(&found)) else { return Ok(found) };
    // SAFETY: the GIL is held, so there is a thread state; all objects are alive, and the result is a new reference.
    unsafe {
        let thread = ffi::PyThreadState_Get();
        Bound::from_owned_ptr_or_err(py, (lazy.reify)(thread, found.as_ptr(), name.as_ptr(), namespace.as_ptr()))
    }
}

/// The parts of an import statement.
pub struct Statement<'a, 'py> {
    /// The module's name.
    pub name: &'a Bound<'py, PyString>,
    /// The names after `import` in `from module import …`, as a tuple; otherwise None.
    pub fromlist: &'a Bound<'py, PyAny>,
    /// The number of leading dots: an int.
    pub level: &'a Bound<'py, PyAny>,
}

/// `import name` where it may be lazy: because of the statement (`lazy`), or because of the process's settings. `None` if this version does
/// not have lazy imports.
///
/// # Errors
/// Returns the exception raised by the import.
pub fn import_name<'py>(frame: &Frame<'py>, statement: &Statement<'_, 'py>, lazy: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = frame.py();
    let (Some(functions), Some(builtins), Some(globals)) = (functions(py), frame.builtins(), frame.globals()) else { return Ok(None) };
    let locals = frame.namespace().unwrap_or_else(|| py.None().into_bound(py));
    let Statement { name, fromlist, level } = statement;
    let [builtins, globals, locals] = [&builtins, &globals, &locals].map(Bound::as_ptr);
    // SAFETY: as in `resolved`.
    let imported = unsafe {
        let thread = ffi::PyThreadState_Get();
        let (name, fromlist, level) = (name.as_ptr(), fromlist.as_ptr(), level.as_ptr());
        Bound::from_owned_ptr_or_err(py, (functions.import_name)(thread, builtins, globals, locals, name, fromlist, level, lazy.into()))
    };
    imported.map(Some)
}

/// `from placeholder import name`: returns a placeholder for that attribute of the module. `None` if the module is already loaded.
///
/// # Errors
/// Returns the exception raised by CPython.
pub fn import_from<'py>(
    frame: &Frame<'py>,
    module: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = frame.py();
    let Some(functions) = functions(py).filter(|_| is_placeholder(module)) else { return Ok(None) };
    // SAFETY: as in `resolved`; the frame is alive and is the running one.
    let imported = unsafe {
        let thread = ffi::PyThreadState_Get();
        Bound::from_owned_ptr_or_err(py, (functions.import_from)(thread, frame.as_ptr(), module.as_ptr(), name.as_ptr()))
    };
    imported.map(Some)
}
