//! The contents of containers and of C objects.

use dynamlir_cpython_abi::kind;
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyFrozenSet, PyFunction, PyList, PyModule, PySet, PyTuple, PyType},
};

use crate::objects::layout::Layout;

/// Returns true if an object is exactly a `collections.deque`.
pub(crate) fn is_deque(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static DEQUE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(object.get_type().is(dynamlir_cpython_abi::import_once(object.py(), &DEQUE, "collections", "deque")?))
}

/// Returns what C code finds in a container, a view of a dict or an exception.
pub(crate) fn found_in<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Some(items) = elements(value) {
        return Ok(items);
    }
    if value.is_instance_of::<PyBaseException>() {
        return Ok(vec![value.getattr("args")?]);
    }
    // Reads by Python code are visible.
    let by_python = is_named(value) || kind::is_generator(value) || Layout::of(&value.get_type())?.base.is(value.py().get_type::<PyAny>());
    if by_python { Ok(Vec::new()) } else { referents(value) }
}

/// Returns the contents of one of Python's own containers.
pub(crate) fn elements<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    Some(if let Ok(items) = value.cast_exact::<PyTuple>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast_exact::<PyList>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast_exact::<PySet>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast_exact::<PyDict>() {
        items.iter().flat_map(|(key, value)| [key, value]).collect()
    } else {
        return None;
    })
}

/// Returns the objects that a C object refers to, as the garbage collector sees it.
pub(crate) fn referents<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    dynamlir_cpython_abi::import(value.py(), "gc")?.call_method1("get_referents", (value,))?.try_iter()?.collect()
}

/// Returns true for classes, functions and modules: a place that holds a named object rarely holds another one at the next call.
pub(crate) fn is_named(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyFunction>() || object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>()
}
