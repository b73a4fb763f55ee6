//! Functions and closure cells.

use dynamlir_bytecode::{Instruction, Opcode, Version};
use dynamlir_cpython_abi::{
    cell,
    function::{self, NewFunction},
};
use pyo3::{
    exceptions::PySystemError,
    prelude::*,
    types::{PyDict, PyTuple},
};

use super::abi;
use crate::{Activation, FunctionParts, Value, native, policy::part};

/// A new cell
pub fn cell_new<'py>(py: Python<'py>, content: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    cell::new(abi(py), py, content)
}

/// The content of a cell
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

/// Completes a function under construction
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
        set_annotate(annotate, &function.clone().finish())?;
    }
    if let Some(keyword_defaults) = keyword_defaults {
        function.keyword_defaults(keyword_defaults.get().cast::<PyDict>()?)?;
    }
    if let Some(defaults) = defaults {
        function.defaults(defaults.get().cast::<PyTuple>()?)?;
    }
    Ok(())
}

/// Runs CPython's own instruction, which also names the annotate function after the other.
fn set_annotate<'py>(annotate: &Value<'py>, function: &Bound<'py, PyAny>) -> PyResult<()> {
    let (py, (major, minor)) = (function.py(), abi(function.py()).version());
    let version = Version::of(major.into(), minor.into()).ok_or_else(|| PySystemError::new_err("an unknown version"))?;
    let set = Instruction { opcode: Opcode::SetFunctionAttribute, arg: part::ANNOTATE, unit: 0, start: 0, next: 1, target: None };
    native::run(py, version, &set, &[annotate.clone(), function.clone().into()]).map(drop)
}

/// Converts annotations to a dict. CPython keeps a tuple until `__annotations__` is read.
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
