//! Running Python code in the interpreter's concrete mode: CPython's semantics, evaluated by us.

use std::rc::Rc;

use dynamlir_cpython_abi::install;
use dynamlir_interpreter::{Concrete, counts, reset_counts, with_policy};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyTuple},
};

/// Calls `callable`; all Python code beneath is evaluated by the interpreter.
#[pyfunction]
#[pyo3(signature = (callable, /, *args, **kwargs))]
pub fn interpret<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let finished = with_policy(callable.py(), Rc::new(Concrete), || callable.call(args, kwargs));
    finished.map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?.result
}

/// Why frames cannot be evaluated in this process, so that nothing can be captured; None where they can.
#[pyfunction]
pub fn refusal(py: Python<'_>) -> Option<String> {
    install(py).err().map(|refusal| refusal.to_string())
}

/// How many frames were interpreted, and how many were left to CPython by reason; `reset` starts the next count.
#[pyfunction]
#[pyo3(signature = (*, reset=false))]
pub fn interpreter_counts(py: Python<'_>, reset: bool) -> PyResult<Bound<'_, PyDict>> {
    let counts = counts();
    if reset {
        reset_counts();
    }
    let dict = PyDict::new(py);
    dict.set_item("interpreted", counts.interpreted)?;
    dict.set_item("made_generators", counts.made_generators)?;
    dict.set_item("left", counts.left)?;
    Ok(dict)
}
