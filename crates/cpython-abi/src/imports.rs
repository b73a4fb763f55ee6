//! Imports that do not depend on the running frame.

use std::ffi::CString;

use pyo3::{
    exceptions::PyImportError,
    ffi,
    prelude::*,
    sync::PyOnceLock,
    type_object::PyTypeCheck,
    types::{PyModule, PyString},
};

use crate::mapping::imported;

/// Returns a module, and imports it if necessary.
///
/// pyo3's `import` calls the `__import__` in the builtins of the running frame. While the user's code is interpreted, these are the user's
/// builtins, in which `__import__` may be replaced or missing.
///
/// # Errors
/// Returns the exception raised by Python: the module does not exist, or running it failed.
pub fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let key = PyString::intern(py, name);
    let name = CString::new(name)?;
    let null = std::ptr::null_mut();
    // SAFETY: the name is NUL-terminated text; globals, locals and names may be missing if the level is 0.
    let top = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyImport_ImportModuleLevel(name.as_ptr(), null, null, null, 0)) };
    // The result is the outermost package. If another thread was importing the module, it has finished.
    drop(top?);
    let found = imported(py, &key)?.ok_or_else(|| PyImportError::new_err(format!("{key} is not among the imported modules")))?;
    Ok(found.cast_into::<PyModule>()?)
}

/// Returns an attribute of a module, looked up the first time and cached.
///
/// # Errors
/// If the module does not exist, if it does not have the name, or if the value is of another type.
pub fn import_once<'a, 'py, T: PyTypeCheck>(
    py: Python<'py>,
    kept: &'a PyOnceLock<Py<T>>,
    module: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, T>> {
    let found = kept.get_or_try_init(py, || Ok::<_, PyErr>(import(py, module)?.getattr(name)?.cast_into::<T>()?.unbind()))?;
    Ok(found.bind(py))
}
