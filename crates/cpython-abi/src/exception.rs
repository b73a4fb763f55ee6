//! Raising, matching and chaining exceptions as the interpreter does.

use pyo3::{exceptions::PyBaseException, ffi, prelude::*, types::PyTraceback};

/// Raises an instance: the exception being handled becomes its context. Borrows it.
pub fn raise(exception: &Bound<'_, PyBaseException>) -> PyErr {
    let py = exception.py();
    // SAFETY: class and instance are alive; the function takes references of its own.
    unsafe { ffi::PyErr_SetObject(exception.get_type().as_ptr(), exception.as_ptr()) };
    PyErr::fetch(py)
}

/// Whether an object may stand in `except`: a class derived from `BaseException`.
pub fn is_class(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::PyExceptionClass_Check(object.as_ptr()) != 0 }
}

/// Whether `except class` catches the exception; `class` may be a tuple. Borrows both.
pub fn matches(exception: &Bound<'_, PyAny>, class: &Bound<'_, PyAny>) -> bool {
    // SAFETY: both are alive.
    unsafe { ffi::PyErr_GivenExceptionMatches(exception.as_ptr(), class.as_ptr()) != 0 }
}

/// `exception.__cause__ = cause`, past any `__setattr__`.
pub fn set_cause<'py>(exception: &Bound<'py, PyBaseException>, cause: Option<Bound<'py, PyBaseException>>) {
    let cause = cause.map_or(std::ptr::null_mut(), Bound::into_ptr);
    // SAFETY: the exception is alive; the function takes the cause over.
    unsafe { ffi::PyException_SetCause(exception.as_ptr(), cause) };
}

/// `exception.__context__ = context`, past any `__setattr__`.
pub fn set_context<'py>(exception: &Bound<'py, PyBaseException>, context: Option<Bound<'py, PyBaseException>>) {
    let context = context.map_or(std::ptr::null_mut(), Bound::into_ptr);
    // SAFETY: the exception is alive; the function takes the context over.
    unsafe { ffi::PyException_SetContext(exception.as_ptr(), context) };
}

/// `exception.__traceback__`, past any `__getattribute__`. A new reference.
pub fn traceback<'py>(exception: &Bound<'py, PyBaseException>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the exception is alive; the result is a new reference, or NULL if there is none.
    unsafe { Bound::from_owned_ptr_or_opt(exception.py(), ffi::PyException_GetTraceback(exception.as_ptr())) }
}

/// The exception of an error, its traceback in place.
pub fn value(py: Python<'_>, error: PyErr) -> Bound<'_, PyBaseException> {
    let without = error.traceback(py).is_none();
    let value = error.into_value(py).into_bound(py);
    if without {
        // SAFETY: the exception is alive, and `None` is allowed.
        unsafe { ffi::PyException_SetTraceback(value.as_ptr(), ffi::Py_None()) };
    }
    value
}

/// An error without the outermost entry of its traceback: that of a helper nobody should see.
pub(crate) fn without_first_entry(py: Python<'_>, error: PyErr) -> PyErr {
    let rest = error.traceback(py).and_then(|entry| entry.getattr("tb_next").ok());
    error.set_traceback(py, rest.and_then(|rest| rest.cast_into::<PyTraceback>().ok()));
    error
}
