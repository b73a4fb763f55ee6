//! Closure cells.

use pyo3::{exceptions::PySystemError, prelude::*};

use crate::{Abi, kind::is_cell};

/// Creates a cell. Borrows the content; returns a new reference.
pub fn new<'py>(abi: &'static Abi, py: Python<'py>, content: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let content = content.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: the content is alive or NULL; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(py, (abi.symbols.cell_new)(content)) }
}

/// Checks that the object is a cell: any other object would be overwritten.
fn check(cell: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_cell(cell) { Ok(()) } else { Err(PySystemError::new_err("not a cell")) }
}

/// Returns the content of a cell, if any. Borrows the cell; returns a new reference.
pub fn get<'py>(abi: &'static Abi, cell: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    check(cell)?;
    // SAFETY: it is a cell; the result is a new reference, or NULL if it is empty.
    Ok(unsafe { Bound::from_owned_ptr_or_opt(cell.py(), (abi.symbols.cell_get)(cell.as_ptr())) })
}

/// Sets or empties a cell. Borrows both.
pub fn set<'py>(abi: &'static Abi, cell: &Bound<'py, PyAny>, content: Option<&Bound<'py, PyAny>>) -> PyResult<()> {
    check(cell)?;
    let content = content.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: it is a cell, and the content is alive or NULL.
    let status = unsafe { (abi.symbols.cell_set)(cell.as_ptr(), content) };
    if status < 0 { Err(PyErr::fetch(cell.py())) } else { Ok(()) }
}
