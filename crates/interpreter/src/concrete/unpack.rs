//! Unpacking.

use dynamlir_cpython_abi::{object, types};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyIterator, PyList, PyTuple},
};

use super::abi;
use crate::Value;

fn iterator<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    value.try_iter().map_err(|error| not_unpacked(value, error))
}

/// Returns the unpacking error for an object whose iteration failed. An error raised by its own `__iter__` is returned unchanged.
pub fn not_unpacked(value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let iterable = types::has_slot(&value.get_type(), types::slots::Py_tp_iter) || object::is_sequence(value);
    if error.is_instance_of::<PyTypeError>(value.py()) && !iterable {
        return PyTypeError::new_err(format!("cannot unpack non-iterable {} object", types::name(value)));
    }
    error
}

/// Takes the next `count` items. `expected` describes the total number of values, for the error message.
fn take<'py>(iterator: &mut Bound<'py, PyIterator>, count: usize, expected: &str) -> PyResult<Vec<Value<'py>>> {
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        match iterator.next() {
            Some(item) => values.push(item?.into()),
            None => return Err(PyValueError::new_err(format!("not enough values to unpack (expected {expected}, got {})", values.len()))),
        }
    }
    Ok(values)
}

/// `a, b = value`
pub fn unpack<'py>(value: &Bound<'py, PyAny>, count: usize) -> PyResult<Vec<Value<'py>>> {
    let mut iterator = iterator(value)?;
    let values = take(&mut iterator, count, &count.to_string())?;
    match iterator.next() {
        None => Ok(values),
        Some(item) => {
            drop(item?);
            // From 3.14 on, the message includes the number of values, if it is known.
            let known =
                [value.is_exact_instance_of::<PyList>(), value.is_exact_instance_of::<PyTuple>(), value.is_exact_instance_of::<PyDict>()];
            let says = abi(value.py()).version() >= (3, 14) && known.contains(&true);
            let found = if says { format!(", got {}", value.len()?) } else { String::new() };
            Err(PyValueError::new_err(format!("too many values to unpack (expected {count}{found})")))
        }
    }
}

/// `a, *b, c = value`
pub fn unpack_ex<'py>(value: &Bound<'py, PyAny>, before: usize, after: usize) -> PyResult<Vec<Value<'py>>> {
    let mut iterator = iterator(value)?;
    let mut values = take(&mut iterator, before, &format!("at least {}", before + after))?;
    let list = object::list(iterator.as_any())?.cast_into::<PyList>()?;
    let found = list.len();
    let Some(middle) = found.checked_sub(after) else {
        let message = format!("not enough values to unpack (expected at least {}, got {})", before + after, before + found);
        return Err(PyValueError::new_err(message));
    };
    let last = (middle..found).map(|index| list.get_item(index)).collect::<PyResult<Vec<_>>>()?;
    list.del_slice(middle, found)?;
    values.push(list.into_any().into());
    values.extend(last.into_iter().map(Value::new));
    Ok(values)
}
