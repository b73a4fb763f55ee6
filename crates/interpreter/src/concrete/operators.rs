//! Operators.

use dynamlir_cpython_abi::number;
use pyo3::{basic::CompareOp, prelude::*, types::PyInt};

use crate::{BinaryOp, Comparison, UnaryOp};

/// `lhs op rhs`, `lhs op= rhs`
pub fn binary_op<'py>(op: BinaryOp, in_place: bool, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    number::binary(op, in_place, lhs, rhs)
}

/// `op operand`
pub fn unary_op<'py>(op: UnaryOp, operand: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    number::unary(op, operand)
}

/// `lhs < rhs` and the like
pub fn compare<'py>(op: Comparison, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let op = match op {
        Comparison::Lt => CompareOp::Lt,
        Comparison::Le => CompareOp::Le,
        Comparison::Eq => CompareOp::Eq,
        Comparison::Ne => CompareOp::Ne,
        Comparison::Gt => CompareOp::Gt,
        Comparison::Ge => CompareOp::Ge,
    };
    lhs.rich_compare(rhs, op)
}

/// `bool(value)`
pub fn truth(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.is_truthy()
}

/// `len(value)`
pub fn length<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyInt::new(value.py(), value.len()?).into_any())
}
