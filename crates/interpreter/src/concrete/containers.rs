//! Tuples, lists, sets, dicts, slices.

use dynamlir_cpython_abi::{mapping, object, types};
use pyo3::{
    exceptions::{PySystemError, PyTypeError},
    prelude::*,
    types::{PyDict, PyList, PySet, PyTuple},
};

use super::{
    abi,
    calls::{is_no_mapping, merge_keywords},
    class_name,
};
use crate::Value;

/// `{a, b}`
pub fn build_set<'py>(py: Python<'py>, items: &[Value<'py>]) -> PyResult<Bound<'py, PyAny>> {
    let set = PySet::empty(py)?;
    items.iter().try_for_each(|item| set.add(item.get()))?;
    Ok(set.into_any())
}

/// `{key: value}`
pub fn build_map<'a, 'py: 'a>(
    py: Python<'py>,
    items: impl IntoIterator<Item = (&'a Bound<'py, PyAny>, &'a Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    items.into_iter().try_for_each(|(key, value)| dict.set_item(key, value))?;
    Ok(dict.into_any())
}

/// `{"name": value}` with the keys in a tuple
pub fn build_const_key_map<'py>(keys: &Bound<'py, PyAny>, values: &[Value<'py>]) -> PyResult<Bound<'py, PyAny>> {
    let keys = keys.cast::<PyTuple>()?;
    if keys.len() != values.len() {
        return Err(PySystemError::new_err("bad BUILD_CONST_KEY_MAP keys argument"));
    }
    let dict = PyDict::new(keys.py());
    keys.iter().zip(values).try_for_each(|(key, value)| dict.set_item(key, value.get()))?;
    Ok(dict.into_any())
}

/// `start:stop:step`
pub fn build_slice<'py>(
    start: &Bound<'py, PyAny>,
    stop: &Bound<'py, PyAny>,
    step: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    object::slice(start, stop, step)
}

/// Appends to a list that is being built
pub fn list_append(list: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>) -> PyResult<()> {
    list.cast::<PyList>()?.append(item)
}

/// Adds to a set that is being built
pub fn set_add(set: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>) -> PyResult<()> {
    set.cast::<PySet>()?.add(item)
}

/// Sets a key of a dict that is being built
pub fn map_add<'py>(map: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
    map.cast::<PyDict>()?.set_item(key, value)
}

/// `[*list, *iterable]`
pub fn list_extend<'py>(list: &Bound<'py, PyAny>, iterable: &Bound<'py, PyAny>) -> PyResult<()> {
    let py = list.py();
    let Err(error) = list.cast::<PyList>()?.call_method1("extend", (iterable,)) else { return Ok(()) };
    let is_iterable = types::has_slot(&iterable.get_type(), types::slots::Py_tp_iter) || object::is_sequence(iterable);
    if error.is_instance_of::<PyTypeError>(py) && !is_iterable {
        return Err(PyTypeError::new_err(format!("Value after * must be an iterable, not {}", types::name(iterable))));
    }
    Err(error)
}

/// `{*set, *iterable}`
pub fn set_update<'py>(set: &Bound<'py, PyAny>, iterable: &Bound<'py, PyAny>) -> PyResult<()> {
    mapping::update_set(abi(set.py()), set.cast::<PySet>()?, iterable)
}

/// `{**dict, **update}`
pub fn dict_update<'py>(dict: &Bound<'py, PyAny>, update: &Bound<'py, PyAny>) -> PyResult<()> {
    let Err(error) = mapping::update(dict.cast::<PyDict>()?, update) else { return Ok(()) };
    if is_no_mapping(update, &error)? {
        return Err(PyTypeError::new_err(format!("'{}' object is not a mapping", class_name(update)?)));
    }
    Err(error)
}

/// `callable(**dict, **update)`: a key twice is an error
pub fn dict_merge<'py>(callable: &Bound<'py, PyAny>, dict: &Bound<'py, PyAny>, update: &Bound<'py, PyAny>) -> PyResult<()> {
    merge_keywords(callable, dict.cast::<PyDict>()?, update)
}

/// `tuple(list)`, of a list that was just built
pub fn list_to_tuple<'py>(list: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object::tuple(list.cast::<PyList>()?)
}
