//! Operations on objects for which pyo3 does not have a safe form.

use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyString},
};

/// Returns the `__dict__` of an object, bypassing any attribute of its class with that name. Borrows the object; returns a new reference.
///
/// # Errors
/// If the object does not have a dict.
pub fn attributes_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: the object is alive; the result is a new reference.
    let dict = unsafe { Bound::from_owned_ptr_or_err(object.py(), ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut()))? };
    Ok(dict.cast_into::<PyDict>()?)
}

/// Returns the number of references to an object, including the given one.
pub fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: the object is alive, and the GIL is held.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// `object.__setattr__(object, name, value)`, or `object.__delattr__(object, name)` without a value. Borrows all.
///
/// # Errors
/// Returns the exception raised by Python.
pub fn set_generic_attribute(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let value = value.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: all are alive, or the value is NULL; nothing is stolen.
    let failed = unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value) } != 0;
    if failed { Err(PyErr::fetch(object.py())) } else { Ok(()) }
}

/// `format(value, spec)`; without a spec, the empty one is used. Borrows both; returns a new reference.
pub fn format<'py>(value: &Bound<'py, PyAny>, spec: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let spec = spec.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: both are alive, or the spec is NULL; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(value.py(), ffi::PyObject_Format(value.as_ptr(), spec)) }
}

/// `ascii(value)`. Borrows the value; returns a new reference.
pub fn ascii<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the value is alive; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(value.py(), ffi::PyObject_ASCII(value.as_ptr())) }
}

/// `slice(start, stop, step)`; a missing step is `None`. Borrows all; returns a new reference.
pub fn slice<'py>(start: &Bound<'py, PyAny>, stop: &Bound<'py, PyAny>, step: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let step = step.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: all are alive, or the step is NULL; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(start.py(), ffi::PySlice_New(start.as_ptr(), stop.as_ptr(), step)) }
}

/// `tuple(iterable)`. Borrows it; returns a new reference.
pub fn tuple<'py>(iterable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the object is alive; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(iterable.py(), ffi::PySequence_Tuple(iterable.as_ptr())) }
}

/// `list(iterable)`. Borrows it; returns a new reference.
pub fn list<'py>(iterable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the object is alive; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(iterable.py(), ffi::PySequence_List(iterable.as_ptr())) }
}

/// `"".join(parts)` of strings. Borrows them; returns a new reference.
pub fn join<'py>(py: Python<'py>, parts: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let empty = PyString::intern(py, "");
    // SAFETY: both are alive; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_Join(empty.as_ptr(), parts.as_ptr())) }
}

/// Returns true if an object is a sequence, judging by its class. Borrows it.
pub fn is_sequence(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::PySequence_Check(object.as_ptr()) != 0 }
}

/// Returns true if an object is an iterator. Borrows it.
pub fn is_iterator(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::PyIter_Check(object.as_ptr()) != 0 }
}

/// Returns the file of a module, for error messages. Borrows the module; returns a new reference.
pub fn module_file<'py>(module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the object is alive; any object other than a module is an error.
    unsafe { Bound::from_owned_ptr_or_err(module.py(), ffi::PyModule_GetFilenameObject(module.as_ptr())) }
}
