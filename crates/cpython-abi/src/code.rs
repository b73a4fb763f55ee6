//! The fields of code objects that no attribute exposes, or that an attribute would compute and cache.

use std::ffi::c_int;

use pyo3::{exceptions::PyTypeError, ffi::PyObject, prelude::*, types::PyTuple};

use crate::{Abi, kind};

/// Checks that the object is a code object: others have different fields at these offsets.
fn check(code: &Bound<'_, PyAny>) -> PyResult<()> {
    if kind::is_code(code) { Ok(()) } else { Err(PyTypeError::new_err("not a code object")) }
}

/// Returns the names of the local slots: variables, cells that are not arguments, free variables. Borrows the code; a new reference.
pub fn local_names<'py>(abi: &'static Abi, code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    check(code)?;
    // SAFETY: the layout says that a tuple is there, which the code object keeps alive; we take a reference.
    let names = unsafe {
        Bound::from_borrowed_ptr_or_err(code.py(), code.as_ptr().byte_add(abi.layout.code.local_names).cast::<*mut PyObject>().read())?
    };
    Ok(names.cast_into::<PyTuple>()?)
}

/// Returns the number of free variables of a code object: the last of the local slots.
pub fn free_count(abi: &'static Abi, code: &Bound<'_, PyAny>) -> PyResult<usize> {
    check(code)?;
    // SAFETY: the layout says that an int is there.
    let count = unsafe { code.as_ptr().byte_add(abi.layout.code.free_count).cast::<c_int>().read() };
    Ok(count as usize)
}
