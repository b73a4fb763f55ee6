//! Lazy imports (PEP 810, CPython 3.15): a namespace may hold a placeholder, which the first load of its name imports and replaces.

use std::ffi::{c_int, c_void};

use pyo3::{
    ffi::{PyObject, PyThreadState, PyTypeObject},
    prelude::*,
    types::PyString,
};

use crate::{Abi, Frame, Refusal, symbols::address};

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

/// What CPython exports for it.
pub(crate) struct Lazy {
    /// `PyLazyImport_Type`, which is never dereferenced.
    class: usize,
    reify: Reify,
    import_name: ImportName,
    import_from: ImportFrom,
}

impl Lazy {
    /// Looks the symbols up.
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

/// Returns true for the placeholder of an import that has not been made yet.
pub fn is_placeholder(abi: &'static Abi, object: &Bound<'_, PyAny>) -> bool {
    abi.lazy.as_ref().is_some_and(|lazy| object.get_type_ptr() == lazy.class as *mut PyTypeObject)
}

/// What a namespace was found to hold under a name; where that is a placeholder, what it imports, which the namespace then holds in its
/// place. This may run any Python code.
///
/// # Errors
/// What the import raised.
pub fn resolved<'py>(
    abi: &'static Abi,
    found: Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    namespace: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = found.py();
    match &abi.lazy {
        Some(lazy) if is_placeholder(abi, &found) => {
            // SAFETY: the lock is held, so there is a thread state; all objects are alive, and what is returned is a new reference.
            unsafe {
                let thread = pyo3::ffi::PyThreadState_Get();
                Bound::from_owned_ptr_or_err(py, (lazy.reify)(thread, found.as_ptr(), name.as_ptr(), namespace.as_ptr()))
            }
        }
        _ => Ok(found),
    }
}

/// What an import statement imports.
pub struct Statement<'a, 'py> {
    /// The module's name.
    pub name: &'a Bound<'py, PyString>,
    /// The names after `import` in `from module import …`, a tuple; else None.
    pub fromlist: &'a Bound<'py, PyAny>,
    /// The number of leading dots: an int.
    pub level: &'a Bound<'py, PyAny>,
}

/// `import name` where it may be lazy: the statement says so (`lazy`), or the process is set up to import that way. None where this
/// version has no lazy imports.
///
/// # Errors
/// What the import raised.
pub fn import_name<'py>(
    frame: &Frame<'py>,
    abi: &'static Abi,
    statement: &Statement<'_, 'py>,
    lazy: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = frame.py();
    let Some(functions) = &abi.lazy else { return Ok(None) };
    let (Some(builtins), Some(globals)) = (frame.builtins(), frame.globals()) else { return Ok(None) };
    let locals = frame.namespace().unwrap_or_else(|| py.None().into_bound(py));
    let Statement { name, fromlist, level } = statement;
    // SAFETY: as in `resolved`.
    let imported = unsafe {
        let thread = pyo3::ffi::PyThreadState_Get();
        let [builtins, globals, locals] = [&builtins, &globals, &locals].map(Bound::as_ptr);
        let (name, fromlist, level) = (name.as_ptr(), fromlist.as_ptr(), level.as_ptr());
        let imported = (functions.import_name)(thread, builtins, globals, locals, name, fromlist, level, lazy.into());
        Bound::from_owned_ptr_or_err(py, imported)
    };
    imported.map(Some)
}

/// `from placeholder import name`: a placeholder for what the module will have under the name.
///
/// # Errors
/// What CPython raised.
pub fn import_from<'py>(
    frame: &Frame<'py>,
    abi: &'static Abi,
    placeholder: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = frame.py();
    let Some(functions) = abi.lazy.as_ref().filter(|_| is_placeholder(abi, placeholder)) else { return Ok(None) };
    // SAFETY: as in `resolved`; the frame is alive and is the one that runs.
    let imported = unsafe {
        let thread = pyo3::ffi::PyThreadState_Get();
        Bound::from_owned_ptr_or_err(py, (functions.import_from)(thread, frame.as_ptr(), placeholder.as_ptr(), name.as_ptr()))
    };
    imported.map(Some)
}
