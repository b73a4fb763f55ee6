//! Raising, matching and chaining exceptions as the interpreter does.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
};

use pyo3::{
    exceptions::{PyBaseException, PyKeyboardInterrupt},
    ffi,
    prelude::*,
    types::PyTraceback,
};

thread_local! {
    /// The address of an exception that was raised instead of the intended one, until it is handled. Never dereferenced.
    static IN_PLACE: Cell<usize> = const { Cell::new(0) };
}

/// Takes the error set by a call of C code.
///
/// CPython 3.11 lets C code set a class and arguments, and creates the exception instance later, when it is needed. By then the calling
/// frame is in the traceback. If the class raises instead, that exception replaces the intended one. It has its own traceback, which lacks
/// the frame (unless it has no traceback at all); `came_in_place` detects this case.
pub(crate) fn fetch(py: Python<'_>) -> PyErr {
    // SAFETY: borrows the class from the thread, or is NULL; we take a reference of our own.
    let class = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyErr_Occurred()) };
    let error = PyErr::fetch(py);
    let made = class.is_none_or(|class| matches(error.value(py).as_any(), &class));
    let own = !made && error.traceback(py).is_some();
    IN_PLACE.set(if own { error.value(py).as_ptr() as usize } else { 0 });
    error
}

/// Returns true if the last call raised this error in place of another. Returns true only once.
pub(crate) fn came_in_place(py: Python<'_>, error: &PyErr) -> bool {
    IN_PLACE.take() == error.value(py).as_ptr() as usize
}

/// Raises an instance: the exception being handled becomes its context. Borrows it.
pub fn raise(exception: &Bound<'_, PyBaseException>) -> PyErr {
    let py = exception.py();
    // SAFETY: class and instance are alive; the function takes references of its own.
    unsafe { ffi::PyErr_SetObject(exception.get_type().as_ptr(), exception.as_ptr()) };
    PyErr::fetch(py)
}

/// Returns true if an exception from C code may come from a signal handler: exceptions raised by C code itself do not have a Python
/// traceback.
pub fn may_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.traceback(py).is_some() || error.is_instance_of::<PyKeyboardInterrupt>(py)
}

/// Returns the value, or `None` if C code answered "no" by an exception. An exception of a signal handler is not such an answer: it is
/// raised again where the interpreter next checks for signals.
pub fn answer<T>(py: Python<'_>, result: PyResult<T>) -> Option<T> {
    result
        .inspect_err(|error| {
            if may_interrupt(py, error) {
                postpone(py, error.clone_ref(py));
            }
        })
        .ok()
}

/// Raises an exception where the main thread next checks for signals.
fn postpone(py: Python<'_>, error: PyErr) {
    /// Takes ownership of a boxed `PyErr`. The interpreter calls this with the GIL held, on an attached thread.
    extern "C" fn raise(error: *mut c_void) -> c_int {
        // SAFETY: this is the pointer created below, which is passed back exactly once.
        let error = unsafe { Box::from_raw(error.cast::<PyErr>()) };
        Python::attach(|py| error.restore(py));
        -1
    }
    let error = Box::into_raw(Box::new(error));
    // SAFETY: the function may be called at any time.
    if unsafe { ffi::Py_AddPendingCall(Some(raise), error.cast()) } != 0 {
        // SAFETY: the function did not take ownership: the queue was full.
        unsafe { Box::from_raw(error) }.write_unraisable(py, None);
    }
}

/// Returns true if an object is allowed in `except`: a class derived from `BaseException`.
pub fn is_class(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::PyExceptionClass_Check(object.as_ptr()) != 0 }
}

/// Returns true if `except class` catches the exception; `class` may be a tuple. Borrows both.
pub fn matches(exception: &Bound<'_, PyAny>, class: &Bound<'_, PyAny>) -> bool {
    // SAFETY: both are alive.
    unsafe { ffi::PyErr_GivenExceptionMatches(exception.as_ptr(), class.as_ptr()) != 0 }
}

/// `exception.__cause__ = cause`, bypassing any `__setattr__`.
pub fn set_cause<'py>(exception: &Bound<'py, PyBaseException>, cause: Option<Bound<'py, PyBaseException>>) {
    let cause = cause.map_or(std::ptr::null_mut(), Bound::into_ptr);
    // SAFETY: the exception is alive; the function takes ownership of the cause.
    unsafe { ffi::PyException_SetCause(exception.as_ptr(), cause) };
}

/// `exception.__context__ = context`, bypassing any `__setattr__`.
pub fn set_context<'py>(exception: &Bound<'py, PyBaseException>, context: Option<Bound<'py, PyBaseException>>) {
    let context = context.map_or(std::ptr::null_mut(), Bound::into_ptr);
    // SAFETY: the exception is alive; the function takes ownership of the context.
    unsafe { ffi::PyException_SetContext(exception.as_ptr(), context) };
}

/// `exception.__traceback__`, bypassing any `__getattribute__`. A new reference.
pub fn traceback<'py>(exception: &Bound<'py, PyBaseException>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the exception is alive; the result is a new reference, or NULL if there is none.
    unsafe { Bound::from_owned_ptr_or_opt(exception.py(), ffi::PyException_GetTraceback(exception.as_ptr())) }
}

/// Returns the exception of an error, with its traceback set.
pub fn value(py: Python<'_>, error: PyErr) -> Bound<'_, PyBaseException> {
    let without = error.traceback(py).is_none();
    let value = error.into_value(py).into_bound(py);
    if without {
        // SAFETY: the exception is alive, and `None` is allowed.
        unsafe { ffi::PyException_SetTraceback(value.as_ptr(), ffi::Py_None()) };
    }
    value
}

/// Returns an error without the outermost entry of its traceback: that of an internal helper.
pub(crate) fn without_first_entry(py: Python<'_>, error: PyErr) -> PyErr {
    let rest = error.traceback(py).and_then(|entry| entry.getattr("tb_next").ok());
    error.set_traceback(py, rest.and_then(|rest| rest.cast_into::<PyTraceback>().ok()));
    error
}
