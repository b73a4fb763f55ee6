//! Raising and matching exceptions.

use dynamlir_cpython_abi::exception;
use pyo3::{
    exceptions::{PyBaseException, PyNameError, PyRuntimeError, PyStopAsyncIteration, PyStopIteration, PyTypeError, PyUnboundLocalError},
    prelude::*,
    types::{PyString, PyTuple},
};

use crate::Unwind;

/// Creates a `NameError` that stores the name, for suggestions.
pub(super) fn name_error(class: &Bound<'_, PyAny>, message: &str, name: &Bound<'_, PyString>) -> PyErr {
    let made = class.call1((message,)).and_then(|error| error.cast_into::<PyBaseException>().map_err(PyErr::from));
    match made {
        Ok(error) => {
            // As in CPython, the error is raised even if its name cannot be set.
            drop(error.setattr("name", name));
            exception::raise(&error)
        }
        Err(error) => error,
    }
}

/// Creates the exception for an unbound local.
pub(crate) fn unbound(py: Python<'_>, name: Option<&Bound<'_, PyString>>, is_free: bool) -> Unwind {
    let shown = name.map_or_else(|| "?".to_owned(), ToString::to_string);
    let error = match name {
        Some(name) if is_free => {
            let message = format!("cannot access free variable '{shown}' where it is not associated with a value in enclosing scope");
            name_error(py.get_type::<PyNameError>().as_any(), &message, name)
        }
        _ => PyUnboundLocalError::new_err(format!("cannot access local variable '{shown}' where it is not associated with a value")),
    };
    Unwind::Raise(error)
}

/// Returns the exception instance to raise: the given exception, or the result of calling the given class.
fn instance<'py>(raised: &Bound<'py, PyAny>, otherwise: &'static str) -> PyResult<Bound<'py, PyBaseException>> {
    if exception::is_class(raised) {
        let made = raised.call0()?;
        return match made.cast_into::<PyBaseException>() {
            Ok(made) => Ok(made),
            Err(error) => {
                let class = error.into_inner().get_type();
                let message =
                    format!("calling {} should have returned an instance of BaseException, not {}", raised.repr()?, class.repr()?);
                Err(PyTypeError::new_err(message))
            }
        };
    }
    raised.cast::<PyBaseException>().cloned().map_err(|_| PyTypeError::new_err(otherwise))
}

/// `raise exception from cause`
pub fn raise(exception: &Bound<'_, PyAny>, cause: Option<&Bound<'_, PyAny>>) -> PyErr {
    prepared(exception, cause).unwrap_or_else(|error| error)
}

fn prepared(raised: &Bound<'_, PyAny>, cause: Option<&Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let value = instance(raised, "exceptions must derive from BaseException")?;
    if let Some(cause) = cause {
        let cause = if cause.is_none() { None } else { Some(instance(cause, "exception causes must derive from BaseException")?) };
        exception::set_cause(&value, cause);
    }
    Ok(exception::raise(&value))
}

/// Checks the operand of `except`: a class, or a tuple of classes.
pub(super) fn check_classes(class: &Bound<'_, PyAny>) -> PyResult<()> {
    let allowed = match class.cast::<PyTuple>() {
        Ok(classes) => classes.iter().all(|class| exception::is_class(&class)),
        Err(_) => exception::is_class(class),
    };
    if allowed { Ok(()) } else { Err(PyTypeError::new_err("catching classes that do not inherit from BaseException is not allowed")) }
}

/// `except class`
pub fn exception_matches(raised: &Bound<'_, PyAny>, class: &Bound<'_, PyAny>) -> PyResult<bool> {
    check_classes(class)?;
    Ok(exception::matches(raised, class))
}

/// Prints the value of an expression statement at the prompt.
pub fn print_expression<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match super::calls::optional(dynamlir_cpython_abi::import(value.py(), "sys")?.getattr("displayhook"))? {
        Some(hook) => hook.call1((value,)),
        None => Err(PyRuntimeError::new_err("lost sys.displayhook")),
    }
}

/// Returns the exception that leaves the body of a generator with these code flags: a `StopIteration` becomes a `RuntimeError`.
pub fn stop_iteration_error<'py>(flags: u32, raised: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    const COROUTINE: u32 = 0x80;
    const ASYNC_GENERATOR: u32 = 0x200;
    let py = raised.py();
    let kind = if flags & ASYNC_GENERATOR != 0 {
        "async generator"
    } else if flags & COROUTINE != 0 {
        "coroutine"
    } else {
        "generator"
    };
    let what = if exception::matches(raised, py.get_type::<PyStopIteration>().as_any()) {
        "StopIteration"
    } else if flags & ASYNC_GENERATOR != 0 && exception::matches(raised, py.get_type::<PyStopAsyncIteration>().as_any()) {
        "StopAsyncIteration"
    } else {
        return Ok(raised.clone());
    };
    let error = py.get_type::<PyRuntimeError>().call1((format!("{kind} raised {what}"),))?.cast_into::<PyBaseException>()?;
    let raised = raised.cast::<PyBaseException>()?;
    exception::set_cause(&error, Some(raised.clone()));
    exception::set_context(&error, Some(raised.clone()));
    Ok(error.into_any())
}
