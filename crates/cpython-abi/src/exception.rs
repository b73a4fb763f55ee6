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
    /// The address of an exception that came instead of the one that was to be made, until somebody handles it. Never read.
    static IN_PLACE: Cell<usize> = const { Cell::new(0) };
}

/// The error that a call of C code left.
///
/// CPython 3.11 lets C code set a class and arguments, and makes the exception when somebody looks at it. By then the frame
/// that made the call stands in the traceback. Should the class raise instead, that exception takes the place, with a
/// traceback of its own that lacks the frame, unless it has none; `came_in_place` knows it.
pub(crate) fn fetch(py: Python<'_>) -> PyErr {
    // SAFETY: borrows the class from the thread, or is NULL; we take a reference of our own.
    let class = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyErr_Occurred()) };
    let error = PyErr::fetch(py);
    let made = class.is_none_or(|class| matches(error.value(py).as_any(), &class));
    let own = !made && error.traceback(py).is_some();
    IN_PLACE.set(if own { error.value(py).as_ptr() as usize } else { 0 });
    error
}

/// Whether an error is the one that the last call left in the place of another. Says so once.
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

/// Whether an exception that came out of C code may be a signal handler's: what C code raises by itself comes without lines of Python.
pub fn may_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.traceback(py).is_some() || error.is_instance_of::<PyKeyboardInterrupt>(py)
}

/// The value, or `None` for an exception of C code that means "no". What a signal handler has raised means nothing of the kind: it is
/// raised once more where the interpreter next looks for signals.
pub fn answer<T>(py: Python<'_>, result: PyResult<T>) -> Option<T> {
    result
        .inspect_err(|error| {
            if may_interrupt(py, error) {
                postpone(py, error.clone_ref(py));
            }
        })
        .ok()
}

/// Raises an exception where the main thread next looks for signals.
fn postpone(py: Python<'_>, error: PyErr) {
    /// Takes over a `PyErr` in a box. The interpreter calls this with its lock held, and not before it is attached.
    extern "C" fn raise(error: *mut c_void) -> c_int {
        // SAFETY: the one pointer that was made below, which comes back once.
        let error = unsafe { Box::from_raw(error.cast::<PyErr>()) };
        Python::attach(|py| error.restore(py));
        -1
    }
    let error = Box::into_raw(Box::new(error));
    // SAFETY: the function may be called at any time.
    if unsafe { ffi::Py_AddPendingCall(Some(raise), error.cast()) } != 0 {
        // SAFETY: nobody has taken it over: the queue was full.
        unsafe { Box::from_raw(error) }.write_unraisable(py, None);
    }
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
