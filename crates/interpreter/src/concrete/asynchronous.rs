//! Awaiting, and asynchronous iteration.

use dynamlir_cpython_abi::{
    exception, kind, object,
    types::{self, slots},
};
use pyo3::{
    exceptions::{PyBaseException, PyRuntimeError, PyTypeError},
    prelude::*,
};

use super::{abi, class_name};

/// `CO_COROUTINE`
const COROUTINE: u32 = 0x80;
/// `CO_ITERABLE_COROUTINE`: a generator made awaitable by `types.coroutine`.
const ITERABLE_COROUTINE: u32 = 0x100;

/// Returns true if a generator is awaitable.
fn is_awaitable_generator(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !kind::is_generator(object) {
        return Ok(false);
    }
    let flags: u32 = object.getattr("gi_code")?.getattr("co_flags")?.extract()?;
    Ok(flags & ITERABLE_COROUTINE != 0)
}

/// Returns the iterator that awaiting an object resumes.
fn awaitable_iterator<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if kind::is_coroutine(object) || is_awaitable_generator(object)? {
        return Ok(object.clone());
    }
    let Some(iterator) = types::call_unary_slot(object, slots::Py_am_await) else {
        let class = types::name(object);
        let newer = abi(object.py()).version() >= (3, 14);
        let words = if newer {
            format!("'{class}' object can't be awaited")
        } else {
            format!("object {class} can't be used in 'await' expression")
        };
        return Err(PyTypeError::new_err(words));
    };
    let iterator = iterator?;
    let newest = abi(object.py()).version() >= (3, 15);
    if kind::is_coroutine(&iterator) || is_awaitable_generator(&iterator)? {
        return Err(PyTypeError::new_err(if newest {
            format!("{}.__await__() must return an iterator, not coroutine", class_name(object)?)
        } else {
            "__await__() returned a coroutine".to_owned()
        }));
    }
    if !object::is_iterator(&iterator) {
        return Err(PyTypeError::new_err(if newest {
            format!("{}.__await__() must return an iterator, not {}", class_name(object)?, class_name(&iterator)?)
        } else {
            format!("__await__() returned non-iterator of type '{}'", types::name(&iterator))
        }));
    }
    Ok(iterator)
}

/// Returns the object that `await` resumes. `origin` is 1 if `object` was returned by `__aenter__`, 2 if by `__aexit__`.
pub fn awaitable<'py>(object: &Bound<'py, PyAny>, origin: u32) -> PyResult<Bound<'py, PyAny>> {
    let iterator = awaitable_iterator(object).map_err(|error| {
        let method = match origin {
            1 => "__aenter__",
            2 => "__aexit__",
            _ => return error,
        };
        if types::has_slot(&object.get_type(), slots::Py_am_await) {
            return error;
        }
        PyTypeError::new_err(format!(
            "'async with' received an object from {method} that does not implement __await__: {}",
            types::name(object)
        ))
    })?;
    if kind::is_coroutine(&iterator) && !iterator.getattr("cr_await")?.is_none() {
        return Err(PyRuntimeError::new_err("coroutine is being awaited already"));
    }
    Ok(iterator)
}

/// Returns the asynchronous iterator of `async for`.
pub fn aiter<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Some(iterator) = types::call_unary_slot(object, slots::Py_am_aiter) else {
        return Err(PyTypeError::new_err(format!("'async for' requires an object with __aiter__ method, got {}", types::name(object))));
    };
    let iterator = iterator?;
    if !types::has_slot(&iterator.get_type(), slots::Py_am_anext) {
        let message =
            format!("'async for' received an object from __aiter__ that does not implement __anext__: {}", types::name(&iterator));
        return Err(PyTypeError::new_err(message));
    }
    Ok(iterator)
}

/// Returns the object that `async for` awaits for the next item.
pub fn anext<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Some(next) = types::call_unary_slot(iterator, slots::Py_am_anext) else {
        return Err(PyTypeError::new_err(format!("'async for' requires an iterator with __anext__ method, got {}", types::name(iterator))));
    };
    let next = next?;
    if kind::is_async_generator(iterator) {
        return Ok(next);
    }
    awaitable_iterator(&next).map_err(|error| from_cause(&next, error))
}

/// Returns an error about an object, caused by another error.
fn from_cause(next: &Bound<'_, PyAny>, cause: PyErr) -> PyErr {
    let py = next.py();
    let message = format!("'async for' received an invalid object from __anext__: {}", types::name(next));
    let error = PyTypeError::new_err(message);
    let made = (|| {
        let cause = exception::value(py, cause);
        let error = exception::value(py, error).cast_into::<PyBaseException>()?;
        exception::set_cause(&error, Some(cause.clone()));
        exception::set_context(&error, Some(cause));
        Ok::<_, PyErr>(error)
    })();
    made.map_or_else(|error| error, |error| PyErr::from_value(error.into_any()))
}

/// Returns true if `yield from` resumes an object itself, in code with these flags. If false, it iterates over the object.
pub fn is_yielded_from_itself(flags: u32, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if kind::is_coroutine(object) {
        if flags & (COROUTINE | ITERABLE_COROUTINE) == 0 {
            return Err(PyTypeError::new_err("cannot 'yield from' a coroutine object in a non-coroutine generator"));
        }
        return Ok(true);
    }
    Ok(kind::is_generator(object))
}
