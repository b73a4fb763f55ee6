//! The wrappers that C code gets in place of Python functions that it calls back.

use dynamlir_cpython_abi::function;
use pyo3::{prelude::*, sync::PyOnceLock, types::PyDict};

pub(crate) const WRAPPER: &std::ffi::CStr = c"lambda function: lambda *args: function(*args)";

/// Returns the function that creates wrappers, and the code of these wrappers.
pub(crate) fn wrapper(py: Python<'_>) -> PyResult<&'static (Py<PyAny>, Py<PyAny>)> {
    static MADE: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    MADE.get_or_try_init(py, || {
        let make = py.eval(WRAPPER, None, Some(&PyDict::new(py)))?;
        let made = dynamlir_interpreter::suspended(|| make.call1((py.None(),)))?;
        Ok((make.unbind(), made.getattr("__code__")?.unbind()))
    })
}

/// Returns true if this is the code of such wrappers, which the program must not see.
pub(crate) fn is_wrapper(code: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(code.is(wrapper(code.py())?.1.bind(code.py())))
}

/// Returns the function inside such a wrapper, which CPython gets when it takes over the frame.
pub(crate) fn unwrapped<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match function::code(object) {
        Some(code) if is_wrapper(&code)? => object.getattr("__closure__")?.get_item(0)?.getattr("cell_contents").map(Some),
        _ => Ok(None),
    }
}
