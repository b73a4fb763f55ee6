//! The wrappers that C code gets in place of Python functions that it calls back.

use std::ffi::CStr;

use dynamlir_cpython_abi::function;
use pyo3::{prelude::*, sync::PyOnceLock, types::PyDict};

pub(crate) const WRAPPER: &CStr = c"lambda function: lambda *args: function(*args)";

/// The same for functions whose results C code compares, with the function that notes this. (A global name would be guarded as one of the
/// program's.)
const NOTING: &CStr = c"lambda noted: lambda function: lambda *args: noted(function(*args))";

/// Creates wrappers of one form.
pub(crate) struct Wrapper {
    make: Py<PyAny>,
    /// The code of these wrappers.
    code: Py<PyAny>,
}

impl Wrapper {
    /// Returns a wrapper around a function.
    pub(crate) fn around<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        dynamlir_interpreter::suspended(|| self.make.bind(function.py()).call1((function,)))
    }
}

/// Returns wrappers that only call the function.
pub(crate) fn plain(py: Python<'_>) -> PyResult<&'static Wrapper> {
    static MADE: PyOnceLock<Wrapper> = PyOnceLock::new();
    MADE.get_or_try_init(py, || made(py.eval(WRAPPER, None, Some(&PyDict::new(py)))?))
}

/// Returns wrappers that also note that the results are compared.
pub(crate) fn compared(py: Python<'_>) -> PyResult<&'static Wrapper> {
    static MADE: PyOnceLock<Wrapper> = PyOnceLock::new();
    MADE.get_or_try_init(py, || noting(py, "compared"))
}

/// Returns wrappers that also note that the hash of the results matters.
pub(crate) fn addressed(py: Python<'_>) -> PyResult<&'static Wrapper> {
    static MADE: PyOnceLock<Wrapper> = PyOnceLock::new();
    MADE.get_or_try_init(py, || noting(py, "addressed"))
}

/// Returns the module of the functions that note something.
pub(crate) fn keys(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    dynamlir_cpython_abi::import(py, "dynamlir.capture.keys")
}

fn noting(py: Python<'_>, name: &str) -> PyResult<Wrapper> {
    let make = py.eval(NOTING, None, Some(&PyDict::new(py)))?;
    let noted = keys(py)?.getattr(name)?;
    made(dynamlir_interpreter::suspended(|| make.call1((noted,)))?)
}

fn made(make: Bound<'_, PyAny>) -> PyResult<Wrapper> {
    let wrapper = dynamlir_interpreter::suspended(|| make.call1((make.py().None(),)))?;
    Ok(Wrapper { code: wrapper.getattr("__code__")?.unbind(), make: make.unbind() })
}

/// Returns true if this is the code of such wrappers, which the program must not see.
pub(crate) fn is_wrapper(code: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = code.py();
    for wrapper in [plain(py)?, compared(py)?, addressed(py)?] {
        if code.is(wrapper.code.bind(py)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the function inside such a wrapper, which CPython gets when it takes over the frame.
pub(crate) fn unwrapped<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match function::code(object) {
        Some(code) if is_wrapper(&code)? => object.getattr("__closure__")?.get_item(0)?.getattr("cell_contents").map(Some),
        _ => Ok(None),
    }
}
