//! Functions and closure cells.

use dynamlir_cpython_abi::{
    cell,
    function::{self, NewFunction},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

use super::abi;
use crate::{Activation, FunctionParts, Value};

/// A new cell
pub fn cell_new<'py>(py: Python<'py>, content: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    cell::new(abi(py), py, content)
}

/// What a cell holds
pub fn cell_get<'py>(cell: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    cell::get(abi(cell.py()), cell)
}

/// Sets a cell, or empties it
pub fn cell_set<'py>(cell: &Bound<'py, PyAny>, content: Option<&Bound<'py, PyAny>>) -> PyResult<()> {
    cell::set(abi(cell.py()), cell, content)
}

/// `def` and `lambda`
pub fn make_function<'py>(frame: &Activation<'py>, code: &Bound<'py, PyAny>, parts: &FunctionParts<'py>) -> PyResult<Bound<'py, PyAny>> {
    let made = function::new(abi(frame.py()), code, &frame.globals())?;
    set_parts(&made, parts)?;
    Ok(made.finish())
}

/// Completes a function that is being made
pub fn set_function_parts<'py>(py: Python<'py>, function: &Bound<'py, PyAny>, parts: &FunctionParts<'py>) -> PyResult<()> {
    set_parts(&NewFunction::from(abi(py), function.clone()), parts)
}

fn set_parts<'py>(function: &NewFunction<'py>, parts: &FunctionParts<'py>) -> PyResult<()> {
    let FunctionParts { defaults, keyword_defaults, annotations, closure, annotate } = parts;
    if let Some(closure) = closure {
        function.closure(closure.get().cast::<PyTuple>()?)?;
    }
    if let Some(annotations) = annotations {
        function.annotations(&annotation_dict(annotations)?)?;
    }
    if let Some(annotate) = annotate {
        function.annotate(annotate.get())?;
    }
    if let Some(keyword_defaults) = keyword_defaults {
        function.keyword_defaults(keyword_defaults.get().cast::<PyDict>()?)?;
    }
    if let Some(defaults) = defaults {
        function.defaults(defaults.get().cast::<PyTuple>()?)?;
    }
    Ok(())
}

/// CPython keeps a tuple until somebody looks at `__annotations__`.
fn annotation_dict<'py>(annotations: &Value<'py>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = annotations.get().cast::<PyDict>() {
        return Ok(dict.clone());
    }
    let flat = annotations.get().cast::<PyTuple>()?;
    let dict = PyDict::new(flat.py());
    for index in (0..flat.len()).step_by(2) {
        dict.set_item(flat.get_item(index)?, flat.get_item(index + 1)?)?;
    }
    Ok(dict)
}
