//! Globals, builtins and namespaces.

use pyo3::{
    exceptions::{PyKeyError, PyNameError, PySystemError},
    prelude::*,
    types::{PyDict, PyString},
};

use dynamlir_cpython_abi::lazy;

use crate::{Activation, names::interned};

/// Returns a mapping's value for a name, if any.
pub fn lookup<'py>(mapping: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(dict) = mapping.cast_exact::<PyDict>() {
        return dict.get_item(name);
    }
    match mapping.get_item(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_instance_of::<PyKeyError>(name.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the object with a name in a namespace, if any. A deferred import is performed now.
pub fn loaded<'py>(namespace: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match lookup(namespace, name)? {
        Some(found) => lazy::resolved(found, name, namespace).map(Some),
        None => Ok(None),
    }
}

/// Returns the error for an undefined name.
fn undefined(name: &Bound<'_, PyString>) -> PyErr {
    super::exceptions::name_error(name.py().get_type::<PyNameError>().as_any(), &format!("name '{name}' is not defined"), name)
}

/// Returns the namespace of a module's or class's body.
pub fn namespace<'py>(frame: &Activation<'py>, missing: &str) -> PyResult<Bound<'py, PyAny>> {
    frame.namespace().ok_or_else(|| PySystemError::new_err(missing.to_owned()))
}

/// A global or builtin name
pub fn load_global<'py>(frame: &Activation<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    if let Some(found) = loaded(&frame.globals(), name)? {
        return Ok(found);
    }
    loaded(&frame.builtins(), name)?.ok_or_else(|| undefined(name))
}

/// `global name; name = value`
pub fn store_global<'py>(frame: &Activation<'py>, name: &Bound<'py, PyString>, value: &Bound<'py, PyAny>) -> PyResult<()> {
    // Bypasses any `__setitem__` of a subclass.
    frame.globals().cast::<PyDict>()?.set_item(name, value)
}

/// `global name; del name`
pub fn delete_global<'py>(frame: &Activation<'py>, name: &Bound<'py, PyString>) -> PyResult<()> {
    match frame.globals().cast::<PyDict>()?.del_item(name) {
        Err(error) if error.is_instance_of::<PyKeyError>(name.py()) => Err(undefined(name)),
        result => result,
    }
}

/// A name in the body of a module or class
pub fn load_name<'py>(frame: &Activation<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let namespace = namespace(frame, "no locals found")?;
    if let Some(found) = loaded(&namespace, name)? {
        return Ok(found);
    }
    // Unlike in functions, this bypasses any `__getitem__` of a subclass.
    let globals = frame.globals();
    if let Some(found) = globals.cast::<PyDict>()?.get_item(name)? {
        return lazy::resolved(found, name, &globals);
    }
    loaded(&frame.builtins(), name)?.ok_or_else(|| undefined(name))
}

/// `name = value` in the body of a module or class
pub fn store_name<'py>(frame: &Activation<'py>, name: &Bound<'py, PyString>, value: &Bound<'py, PyAny>) -> PyResult<()> {
    match frame.namespace() {
        Some(namespace) => namespace.set_item(name, value),
        None => Err(PySystemError::new_err(format!("no locals found when storing {}", name.repr()?))),
    }
}

/// `del name` in the body of a module or class
pub fn delete_name<'py>(frame: &Activation<'py>, name: &Bound<'py, PyString>) -> PyResult<()> {
    match frame.namespace() {
        // CPython does this for any error.
        Some(namespace) => namespace.del_item(name).map_err(|_| undefined(name)),
        None => Err(PySystemError::new_err(format!("no locals when deleting {}", name.repr()?))),
    }
}

/// `__build_class__`
pub fn load_build_class<'py>(frame: &Activation<'py>) -> PyResult<Bound<'py, PyAny>> {
    let name = interned(frame.py()).build_class.bind(frame.py());
    lookup(&frame.builtins(), name)?.ok_or_else(|| PyNameError::new_err("__build_class__ not found"))
}

/// Creates `__annotations__` unless the namespace has it.
pub fn setup_annotations(frame: &Activation<'_>) -> PyResult<()> {
    let name = interned(frame.py()).annotations.bind(frame.py());
    let namespace = namespace(frame, "no locals found when setting up annotations")?;
    match lookup(&namespace, name)? {
        Some(_) => Ok(()),
        None => namespace.set_item(name, PyDict::new(frame.py())),
    }
}
