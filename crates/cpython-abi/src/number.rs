//! Arithmetic through the number protocol, in place or not.

use pyo3::{ffi, prelude::*};

/// A binary operation, in the order of `BINARY_OP`'s arguments; the in-place forms follow in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a & b`
    And,
    /// `a // b`
    FloorDivide,
    /// `a << b`
    LeftShift,
    /// `a @ b`
    MatrixMultiply,
    /// `a * b`
    Multiply,
    /// `a % b`
    Remainder,
    /// `a | b`
    Or,
    /// `a ** b`
    Power,
    /// `a >> b`
    RightShift,
    /// `a - b`
    Subtract,
    /// `a / b`
    TrueDivide,
    /// `a ^ b`
    Xor,
}

impl BinaryOp {
    /// All operations, in order.
    pub const ALL: [Self; 13] = [
        Self::Add,
        Self::And,
        Self::FloorDivide,
        Self::LeftShift,
        Self::MatrixMultiply,
        Self::Multiply,
        Self::Remainder,
        Self::Or,
        Self::Power,
        Self::RightShift,
        Self::Subtract,
        Self::TrueDivide,
        Self::Xor,
    ];

    /// Returns the operator's symbol.
    pub const fn symbol(self) -> &'static str {
        ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"][self as usize]
    }
}

/// A unary operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-a`
    Negative,
    /// `+a`
    Positive,
    /// `~a`
    Invert,
}

impl UnaryOp {
    /// Returns the operator's symbol.
    pub const fn symbol(self) -> &'static str {
        ["-", "+", "~"][self as usize]
    }
}

/// `lhs op rhs`, or `lhs op= rhs`. Borrows both; returns a new reference.
pub fn binary<'py>(op: BinaryOp, in_place: bool, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = lhs.py();
    let (a, b) = (lhs.as_ptr(), rhs.as_ptr());
    // SAFETY: both operands are alive and the GIL is held; each function returns a new reference, or NULL with an exception.
    unsafe {
        let none = ffi::Py_None();
        let result = match (op, in_place) {
            (BinaryOp::Add, false) => ffi::PyNumber_Add(a, b),
            (BinaryOp::And, false) => ffi::PyNumber_And(a, b),
            (BinaryOp::FloorDivide, false) => ffi::PyNumber_FloorDivide(a, b),
            (BinaryOp::LeftShift, false) => ffi::PyNumber_Lshift(a, b),
            (BinaryOp::MatrixMultiply, false) => ffi::PyNumber_MatrixMultiply(a, b),
            (BinaryOp::Multiply, false) => ffi::PyNumber_Multiply(a, b),
            (BinaryOp::Remainder, false) => ffi::PyNumber_Remainder(a, b),
            (BinaryOp::Or, false) => ffi::PyNumber_Or(a, b),
            (BinaryOp::Power, false) => ffi::PyNumber_Power(a, b, none),
            (BinaryOp::RightShift, false) => ffi::PyNumber_Rshift(a, b),
            (BinaryOp::Subtract, false) => ffi::PyNumber_Subtract(a, b),
            (BinaryOp::TrueDivide, false) => ffi::PyNumber_TrueDivide(a, b),
            (BinaryOp::Xor, false) => ffi::PyNumber_Xor(a, b),
            (BinaryOp::Add, true) => ffi::PyNumber_InPlaceAdd(a, b),
            (BinaryOp::And, true) => ffi::PyNumber_InPlaceAnd(a, b),
            (BinaryOp::FloorDivide, true) => ffi::PyNumber_InPlaceFloorDivide(a, b),
            (BinaryOp::LeftShift, true) => ffi::PyNumber_InPlaceLshift(a, b),
            (BinaryOp::MatrixMultiply, true) => ffi::PyNumber_InPlaceMatrixMultiply(a, b),
            (BinaryOp::Multiply, true) => ffi::PyNumber_InPlaceMultiply(a, b),
            (BinaryOp::Remainder, true) => ffi::PyNumber_InPlaceRemainder(a, b),
            (BinaryOp::Or, true) => ffi::PyNumber_InPlaceOr(a, b),
            (BinaryOp::Power, true) => ffi::PyNumber_InPlacePower(a, b, none),
            (BinaryOp::RightShift, true) => ffi::PyNumber_InPlaceRshift(a, b),
            (BinaryOp::Subtract, true) => ffi::PyNumber_InPlaceSubtract(a, b),
            (BinaryOp::TrueDivide, true) => ffi::PyNumber_InPlaceTrueDivide(a, b),
            (BinaryOp::Xor, true) => ffi::PyNumber_InPlaceXor(a, b),
        };
        Bound::from_owned_ptr_or_err(py, result)
    }
}

/// `op a`. Borrows the operand; returns a new reference.
pub fn unary<'py>(op: UnaryOp, operand: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: as in `binary`.
    unsafe {
        let result = match op {
            UnaryOp::Negative => ffi::PyNumber_Negative(operand.as_ptr()),
            UnaryOp::Positive => ffi::PyNumber_Positive(operand.as_ptr()),
            UnaryOp::Invert => ffi::PyNumber_Invert(operand.as_ptr()),
        };
        Bound::from_owned_ptr_or_err(operand.py(), result)
    }
}
