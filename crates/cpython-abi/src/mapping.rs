//! Dicts and sets beyond what pyo3 has of them.

use std::ffi::c_int;

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PySet},
};

use crate::Abi;

fn checked(py: Python<'_>, status: c_int) -> PyResult<()> {
    if status < 0 { Err(PyErr::fetch(py)) } else { Ok(()) }
}

/// `{**dict, **update}` in place, where a key that is there already is a `KeyError`. Borrows both.
pub fn merge_unique<'py>(abi: &'static Abi, dict: &Bound<'py, PyDict>, update: &Bound<'py, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and the first is a dict.
    checked(dict.py(), unsafe { (abi.symbols.dict_merge)(dict.as_ptr(), update.as_ptr(), 2) })
}

/// `dict.update(update)` for any mapping. Borrows both.
pub fn update<'py>(dict: &Bound<'py, PyDict>, update: &Bound<'py, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and the first is a dict.
    checked(dict.py(), unsafe { ffi::PyDict_Update(dict.as_ptr(), update.as_ptr()) })
}

/// `set.update(iterable)`. Borrows both.
pub fn update_set<'py>(abi: &'static Abi, set: &Bound<'py, PySet>, iterable: &Bound<'py, PyAny>) -> PyResult<()> {
    // SAFETY: both are alive, and the first is a set.
    checked(set.py(), unsafe { (abi.symbols.set_update)(set.as_ptr(), iterable.as_ptr()) })
}

/// A number that changes whenever the dict does, where the version has one.
pub fn dict_version(abi: &'static Abi, dict: &Bound<'_, PyDict>) -> Option<u64> {
    let offset = abi.layout.dict_version?;
    // SAFETY: the layout says that a 64-bit number lies there, and the dict is alive.
    Some(unsafe { dict.as_ptr().byte_add(offset).cast::<u64>().read() })
}
