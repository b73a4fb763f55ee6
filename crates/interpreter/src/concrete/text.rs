//! Format strings.

use dynamlir_cpython_abi::object;
use pyo3::{prelude::*, types::PyTuple};

use crate::{Conversion, Value};

/// `str(value)`, `repr(value)` or `ascii(value)`
pub fn convert<'py>(value: &Bound<'py, PyAny>, conversion: Conversion) -> PyResult<Bound<'py, PyAny>> {
    match conversion {
        Conversion::Str => Ok(value.str()?.into_any()),
        Conversion::Repr => Ok(value.repr()?.into_any()),
        Conversion::Ascii => object::ascii(value),
    }
}

/// `format(value, spec)`
pub fn format<'py>(value: &Bound<'py, PyAny>, spec: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    object::format(value, spec)
}

/// Joins the parts of a format string
pub fn build_string<'py>(py: Python<'py>, parts: &[Value<'py>]) -> PyResult<Bound<'py, PyAny>> {
    object::join(py, PyTuple::new(py, parts.iter().map(Value::get))?.as_any())
}
