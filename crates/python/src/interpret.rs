//! Runs Python code in the interpreter's concrete mode: CPython's semantics, evaluated by us.

use std::rc::Rc;

use dynamlir_cpython_abi::install;
use dynamlir_interpreter::{Concrete, counts, refilling, reset_counts, with_policy};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyTuple},
};

/// Calls `callable`; the interpreter evaluates all Python code beneath.
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

/// Calls `callable`; each frame beneath is emptied and refilled at each `every`-th instruction, and left to CPython after a while, as
/// frames are between graphs. Nothing is captured.
#[pyfunction]
#[pyo3(signature = (callable, every, /, *args, **kwargs))]
pub fn reenter<'py>(
    callable: &Bound<'py, PyAny>,
    every: u32,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let result = refilling(callable.py(), every, || callable.call(args, kwargs));
    result.map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?
}

/// Returns the reason that frames cannot be evaluated in this process, so that nothing can be captured; None if they can.
#[pyfunction]
pub fn refusal(py: Python<'_>) -> Option<String> {
    install(py).err().map(|refusal| refusal.to_string())
}

/// Returns the number of interpreted frames, and the number of those left to CPython by reason; `reset` starts the next count.
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
