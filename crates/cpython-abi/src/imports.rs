//! Imports that ask nothing of the frame that is running.

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

/// A module, imported if need be.
///
/// pyo3's `import` calls the `__import__` among the builtins of the frame that is running: while the user's code is interpreted that is
/// the user's, who may have put another one there, or none.
///
/// # Errors
/// What Python raised: there is no such module, or running it has failed.
pub fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let key = PyString::intern(py, name);
    let name = CString::new(name)?;
    let null = std::ptr::null_mut();
    // SAFETY: the name is text that ends with a zero; globals, locals and names may be missing where the level is 0.
    let top = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyImport_ImportModuleLevel(name.as_ptr(), null, null, null, 0)) };
    // What is given is the outermost package. Another thread that was at it has finished.
    drop(top?);
    let found = imported(py, &key)?.ok_or_else(|| PyImportError::new_err(format!("{key} is not among the imported modules")))?;
    Ok(found.cast_into::<PyModule>()?)
}

/// What a module has under a name, looked up the first time and kept.
///
/// # Errors
/// When there is no such module, when it does not have the name, or when what it has is of another type.
pub fn import_once<'a, 'py, T: PyTypeCheck>(
    py: Python<'py>,
    kept: &'a PyOnceLock<Py<T>>,
    module: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, T>> {
    let found = kept.get_or_try_init(py, || Ok::<_, PyErr>(import(py, module)?.getattr(name)?.cast_into::<T>()?.unbind()))?;
    Ok(found.bind(py))
}
