//! Functions: their creation, and access to fields where reading the attribute would have side effects.

use std::ffi::c_int;

use pyo3::{
    ffi::PyObject,
    prelude::*,
    types::{PyCFunction, PyDict, PyTuple},
};

use crate::{Abi, abi::has_lock, kind, offsets};

// Exported by every supported CPython, though it is not in the stable ABI.
unsafe extern "C" {
    /// Borrows; returns a new reference.
    fn PyInstanceMethod_New(function: *mut PyObject) -> *mut PyObject;
}

/// A function under construction.
#[derive(Clone)]
pub struct NewFunction<'py> {
    abi: &'static Abi,
    function: Bound<'py, PyAny>,
}

/// Creates a function from a code object. Borrows both.
pub fn new<'py>(abi: &'static Abi, code: &Bound<'py, PyAny>, globals: &Bound<'py, PyAny>) -> PyResult<NewFunction<'py>> {
    // SAFETY: code and globals are alive. The function checks neither, but both come from a running frame. The result is a new reference.
    let function = unsafe { Bound::from_owned_ptr_or_err(code.py(), (abi.symbols.function_new)(code.as_ptr(), globals.as_ptr()))? };
    Ok(NewFunction { abi, function })
}

impl<'py> NewFunction<'py> {
    /// Continues with an existing function.
    pub fn from(abi: &'static Abi, function: Bound<'py, PyAny>) -> Self {
        Self { abi, function }
    }

    fn set(&self, setter: unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> c_int, value: &Bound<'py, PyAny>) -> PyResult<()> {
        // SAFETY: both are alive; the setters check that the first is a function and the second of the right type.
        let status = unsafe { setter(self.function.as_ptr(), value.as_ptr()) };
        if status < 0 { Err(PyErr::fetch(self.function.py())) } else { Ok(()) }
    }

    /// `__closure__`: a tuple of cells.
    pub fn closure(&self, cells: &Bound<'py, PyTuple>) -> PyResult<()> {
        self.set(self.abi.symbols.function_set_closure, cells)
    }

    /// `__defaults__`.
    pub fn defaults(&self, values: &Bound<'py, PyTuple>) -> PyResult<()> {
        self.set(self.abi.symbols.function_set_defaults, values)
    }

    /// `__kwdefaults__`.
    pub fn keyword_defaults(&self, values: &Bound<'py, PyDict>) -> PyResult<()> {
        self.set(self.abi.symbols.function_set_kwdefaults, values)
    }

    /// `__annotations__`.
    pub fn annotations(&self, values: &Bound<'py, PyDict>) -> PyResult<()> {
        self.set(self.abi.symbols.function_set_annotations, values)
    }

    /// Returns the function.
    pub fn finish(self) -> Bound<'py, PyAny> {
        self.function
    }
}

/// Returns the address of a Python function's code; `None` for any other object.
#[inline]
pub fn code_address(function: &Bound<'_, PyAny>) -> Option<usize> {
    if !kind::is_function(function) {
        return None;
    }
    if !has_lock() {
        // The function keeps it alive.
        return function.getattr(pyo3::intern!(function.py(), "__code__")).ok().map(|code| code.as_ptr() as usize);
    }
    // SAFETY: all functions have their code there, in every supported version.
    Some(unsafe { function.as_ptr().byte_add(offsets::FUNCTION_CODE).cast::<usize>().read() })
}

/// Returns a Python function's code; `None` for any other object. Reading `__code__` would run audit hooks, which are Python code, so that
/// a signal handler could raise there.
#[must_use]
pub fn code<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let code = code_address(function)? as *mut PyObject;
    // SAFETY: the function is alive and holds its code, which is never NULL.
    Some(unsafe { Bound::from_borrowed_ptr(function.py(), code) })
}

/// Returns true for a Python function whose annotations have not been computed yet, from CPython 3.14 on: its `__annotate__` would compute
/// them, and may raise.
#[must_use]
pub fn has_annotations_to_compute(function: &Bound<'_, PyAny>) -> bool {
    // SAFETY: all functions of these versions have their annotations there, or NULL.
    crate::abi(function.py()).is_ok_and(|abi| abi.version() >= (3, 14))
        && kind::is_function(function)
        && unsafe { function.as_ptr().byte_add(offsets::FUNCTION_ANNOTATIONS).cast::<usize>().read() } == 0
}

/// Returns true for a Python function whose annotations were computed by its `__annotate__`, from CPython 3.14 on: setting either of the
/// two removes the other.
///
/// # Errors
/// If it does not have `__annotate__`, which all functions of these versions have.
pub fn has_computed_annotations(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let known = crate::abi(function.py()).is_ok_and(|abi| abi.version() >= (3, 14)) && kind::is_function(function);
    Ok(known && !has_annotations_to_compute(function) && !function.getattr(pyo3::intern!(function.py(), "__annotate__"))?.is_none())
}

/// Returns a C function that binds to an instance when a class has it as an attribute. Python functions do this; C functions do not.
///
/// # Errors
/// If Python is out of memory.
pub fn bindable<'py>(function: &Bound<'py, PyCFunction>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the function is alive, and is borrowed; the result is a new reference.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), PyInstanceMethod_New(function.as_ptr())) }
}
