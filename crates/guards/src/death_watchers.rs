//! Detects whether the death of an object is observed: by a finalizer, or through a weak reference.
//!
//! A call that replaces an object does so only after its graph has run. If the death is unobserved, this delay makes no difference.

use dynamlir_cpython_abi::{abi, import, types};
use dynamlir_trails::is_pin;
use pyo3::{
    exceptions::PyRuntimeError,
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyDict, PyFrozenSet, PyFunction, PyList, PySet, PyTuple},
};

use crate::identity_pins::is_leaf;

/// The maximum number of objects inspected within containers that die.
const MOST: usize = 4096;

/// Returns true if the death of an object, or of an object that dies with a container, may be observed. Tensors never count, since torch
/// itself holds weak references to them.
///
/// # Errors
/// Returns an exception raised by Python.
pub fn is_watched(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static DEQUE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let mut waiting = vec![object.clone()];
    let mut seen = 0;
    while let Some(object) = waiting.pop() {
        if object.is_none() || is_leaf(&object) || object.is_exact_instance_of::<PyBool>() {
            continue;
        }
        seen += 1;
        if seen > MOST {
            return Ok(true);
        }
        if let Ok(items) = object.cast_exact::<PyList>() {
            waiting.extend(items.iter());
        } else if let Ok(items) = object.cast_exact::<PyTuple>() {
            waiting.extend(items.iter());
        } else if let Ok(items) = object.cast_exact::<PyDict>() {
            waiting.extend(items.values().iter());
        } else if object.get_type().is(&found(&DEQUE, object.py(), "collections", "deque")?) {
            waiting.extend(object.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        } else if is_noticed(&object)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the death of the object alone may be observed.
fn is_noticed(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static TENSOR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static COUNT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static LIST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let class = object.get_type();
    let is_set = object.is_exact_instance_of::<PySet>() || object.is_exact_instance_of::<PyFrozenSet>();
    if !is_set && class.is_subclass(&found(&TENSOR, py, "torch", "Tensor")?)? {
        return Ok(false);
    }
    let abi = abi(py).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
    if types::lookup(abi, &class, intern!(py, "__del__")).is_some() {
        return Ok(true);
    }
    if found(&COUNT, py, "_weakref", "getweakrefcount")?.call1((object,))?.extract::<usize>()? == 0 {
        return Ok(false);
    }
    for reference in found(&LIST, py, "_weakref", "getweakrefs")?.call1((object,))?.cast::<PyList>()? {
        if !is_bookkeeping(&reference)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a weak reference does not belong to the program: a guard's, one by which torch recognizes tensors, or one that calls
/// torch's code, such as that of `TorchDynamo`, which records each module from its first use.
///
/// # Errors
/// Returns an exception raised by Python.
pub fn is_bookkeeping(reference: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = reference.py();
    let module = intern!(py, "__module__");
    if is_pin(reference)? || reference.get_type().getattr(module)?.eq(intern!(py, "torch.utils.weak"))? {
        return Ok(true);
    }
    let callback = reference.getattr(intern!(py, "__callback__"))?;
    if !callback.is_exact_instance_of::<PyFunction>() {
        return Ok(false);
    }
    let home = callback.getattr(module)?;
    Ok(home.extract::<&str>().is_ok_and(|home| home == "torch" || home.starts_with("torch.")))
}

fn found<'py>(kept: &PyOnceLock<Py<PyAny>>, py: Python<'py>, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok(kept.get_or_try_init(py, || import(py, module)?.getattr(name).map(Bound::unbind))?.bind(py).clone())
}
