//! Calls, methods, iterators.

use std::cell::Cell;

use dynamlir_cpython_abi::{call as raw, kind, mapping, object, types};
use pyo3::{
    exceptions::{PyAttributeError, PyTypeError},
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use super::{abi, class_name};
use crate::{Method, Outcome, Sent, Value, names::interned};

thread_local! {
    /// True if bytecode calls the next frame: CPython would not go through C for it.
    static DIRECT: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if bytecode calls the next frame. Must be called once for each frame.
pub fn take_direct() -> bool {
    DIRECT.replace(false)
}

/// Runs a call; `direct` says that CPython would make it without going through C.
pub fn directly<R>(direct: bool, call: impl FnOnce() -> R) -> R {
    DIRECT.set(direct);
    let result = call();
    DIRECT.set(false);
    result
}

/// Calls `callable` with `args`, the last of them named by `keywords`.
pub fn call<'py>(callable: &Bound<'py, PyAny>, args: &[Value<'py>], keywords: Option<&Bound<'py, PyTuple>>) -> PyResult<Bound<'py, PyAny>> {
    let direct = kind::is_function(callable) || kind::is_method(callable);
    directly(direct, || raw::vectorcall(abi(callable.py()), callable, args.iter().map(Value::get), keywords))
}

/// `callable(*args, **kwargs)`: a tuple, and a dict or nothing
pub fn call_ex<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyAny>,
    kwargs: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let args = args.cast::<PyTuple>()?;
    directly(kind::is_function(callable), || raw::call_ex(callable, args, kwargs))
}

/// Returns the callable's name as it appears in error messages: `module.name()`.
fn shown(callable: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = callable.py();
    let names = interned(py);
    let Some(qualname) = optional(callable.getattr(names.qualname.bind(py)))? else {
        return Ok(callable.str()?.to_string());
    };
    let module = optional(callable.getattr(names.module.bind(py)))?.filter(|module| !module.is_none());
    match module {
        Some(module) if !module.eq("builtins")? => Ok(format!("{}.{}()", module.str()?, qualname.str()?)),
        _ => Ok(format!("{}()", qualname.str()?)),
    }
}

/// Converts a missing attribute to `None`.
pub(super) fn optional<T>(found: PyResult<T>) -> PyResult<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => Python::attach(|py| if error.is_instance_of::<PyAttributeError>(py) { Ok(None) } else { Err(error) }),
    }
}

/// Returns the value of `*args` as a tuple.
pub fn argument_tuple<'py>(callable: &Bound<'py, PyAny>, args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if args.is_exact_instance_of::<PyTuple>() {
        return Ok(args.clone());
    }
    if !types::has_slot(&args.get_type(), types::slots::Py_tp_iter) && !object::is_sequence(args) {
        return Err(not_spread(callable, &format!("after * must be an iterable, not {}", types::name(args))));
    }
    object::tuple(args)
}

/// Returns the value of `**kwargs` as a dict.
pub fn keyword_dict<'py>(callable: &Bound<'py, PyAny>, kwargs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if kwargs.is_exact_instance_of::<PyDict>() {
        return Ok(kwargs.clone());
    }
    let dict = PyDict::new(kwargs.py());
    merge_keywords(callable, &dict, kwargs)?;
    Ok(dict.into_any())
}

/// Returns the error for a value that cannot be spread in a call. Up to 3.14 it names the callable.
fn not_spread(callable: &Bound<'_, PyAny>, words: &str) -> PyErr {
    if abi(callable.py()).version() >= (3, 15) {
        return PyTypeError::new_err(format!("Value {words}"));
    }
    shown(callable).map_or_else(|error| error, |shown| PyTypeError::new_err(format!("{shown} argument {words}")))
}

/// Returns true if merging failed because a value has no `keys`. From 3.15 on, an error raised by `keys` itself is kept as it is.
///
/// # Errors
/// Returns the exception raised by looking up `keys`.
pub(super) fn is_no_mapping(value: &Bound<'_, PyAny>, error: &PyErr) -> PyResult<bool> {
    let py = value.py();
    Ok(error.is_instance_of::<PyAttributeError>(py) && (abi(py).version() < (3, 15) || !value.hasattr(interned(py).keys.bind(py))?))
}

/// Adds keyword arguments to the existing ones; none may be given twice.
pub(super) fn merge_keywords<'py>(callable: &Bound<'py, PyAny>, dict: &Bound<'py, PyDict>, kwargs: &Bound<'py, PyAny>) -> PyResult<()> {
    match mapping::merge_unique(abi(dict.py()), dict, kwargs) {
        Ok(None) => Ok(()),
        Ok(Some(key)) => {
            let message = format!("{} got multiple values for keyword argument '{}'", shown(callable)?, key.str()?);
            Err(PyTypeError::new_err(message))
        }
        Err(error) if is_no_mapping(kwargs, &error)? => {
            Err(not_spread(callable, &format!("after ** must be a mapping, not {}", class_name(kwargs)?)))
        }
        Err(error) => Err(error),
    }
}

/// `owner.name`, to be called at once
pub fn load_method<'py>(owner: &Value<'py>, name: &Bound<'py, PyString>) -> Outcome<Method<'py>> {
    Ok(match raw::method(abi(name.py()), owner.get(), name)? {
        raw::Method::Unbound(function) => Method { callable: function.into(), this: Some(owner.clone()) },
        raw::Method::Attribute(attribute) => Method { callable: attribute.into(), this: None },
    })
}

/// A special method, looked up in the class and bound
pub fn load_special<'py>(owner: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    types::lookup_special(abi(owner.py()), owner, name)
}

/// The next item of an iterator; `None` at its end
pub fn next<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    directly(kind::is_generator(iterator), || raw::next(iterator))
}

/// Resumes the object that is yielded from or awaited
pub fn send<'py>(receiver: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Sent<'py>> {
    let direct = kind::is_generator(receiver) || kind::is_coroutine(receiver);
    Ok(match directly(direct, || raw::send(receiver, value))? {
        raw::Sent::Yielded(value) => Sent::Yielded(value.into()),
        raw::Sent::Returned(value) => Sent::Returned(value.into()),
    })
}
