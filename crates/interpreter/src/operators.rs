//! Operators by their names in Python's `operator`, and the operators that code uses.

use std::collections::BTreeSet;

use dynamlir_bytecode::comparison;
use dynamlir_cpython_abi::abi;
use pyo3::prelude::*;

use crate::{BinaryOp, Comparison, Instruction, Opcode, prepared, versions::version_table};

/// Returns the name in `operator` of a binary operator.
pub const fn operator_name(op: BinaryOp, in_place: bool) -> &'static str {
    match (op, in_place) {
        (BinaryOp::Add, false) => "add",
        (BinaryOp::And, false) => "and_",
        (BinaryOp::FloorDivide, false) => "floordiv",
        (BinaryOp::LeftShift, false) => "lshift",
        (BinaryOp::MatrixMultiply, false) => "matmul",
        (BinaryOp::Multiply, false) => "mul",
        (BinaryOp::Remainder, false) => "mod",
        (BinaryOp::Or, false) => "or_",
        (BinaryOp::Power, false) => "pow",
        (BinaryOp::RightShift, false) => "rshift",
        (BinaryOp::Subtract, false) => "sub",
        (BinaryOp::TrueDivide, false) => "truediv",
        (BinaryOp::Xor, false) => "xor",
        (BinaryOp::Add, true) => "iadd",
        (BinaryOp::And, true) => "iand",
        (BinaryOp::FloorDivide, true) => "ifloordiv",
        (BinaryOp::LeftShift, true) => "ilshift",
        (BinaryOp::MatrixMultiply, true) => "imatmul",
        (BinaryOp::Multiply, true) => "imul",
        (BinaryOp::Remainder, true) => "imod",
        (BinaryOp::Or, true) => "ior",
        (BinaryOp::Power, true) => "ipow",
        (BinaryOp::RightShift, true) => "irshift",
        (BinaryOp::Subtract, true) => "isub",
        (BinaryOp::TrueDivide, true) => "itruediv",
        (BinaryOp::Xor, true) => "ixor",
    }
}

/// Returns the name in `operator` of a comparison.
pub const fn comparison_name(op: Comparison) -> &'static str {
    match op {
        Comparison::Lt => "lt",
        Comparison::Le => "le",
        Comparison::Eq => "eq",
        Comparison::Ne => "ne",
        Comparison::Gt => "gt",
        Comparison::Ge => "ge",
    }
}

/// Returns the operators that code uses, except truth and iteration; empty if the code cannot be read.
pub fn operators(code: &Bound<'_, PyAny>) -> BTreeSet<&'static str> {
    let Ok(abi) = abi(code.py()) else { return BTreeSet::new() };
    let Some(table) = version_table(abi.version()) else { return BTreeSet::new() };
    let preparation = prepared::prepare(abi, table, code);
    let Ok(prepared) = &*preparation else { return BTreeSet::new() };
    prepared.code.instructions.iter().filter_map(|instruction| operator(prepared.code.version, instruction)).collect()
}

fn operator(version: dynamlir_bytecode::Version, instruction: &Instruction) -> Option<&'static str> {
    const COMPARISONS: [&str; 6] = ["lt", "le", "eq", "ne", "gt", "ge"];
    let count = BinaryOp::ALL.len();
    match instruction.opcode {
        Opcode::BinaryOp => {
            let number = instruction.arg as usize;
            BinaryOp::ALL.get(number % count).map(|op| operator_name(*op, number >= count))
        }
        Opcode::CompareOp => COMPARISONS.get(comparison(version, instruction.arg)).copied(),
        Opcode::UnaryNegative => Some("neg"),
        Opcode::UnaryInvert => Some("invert"),
        Opcode::BinarySubscr | Opcode::BinarySlice => Some("getitem"),
        Opcode::StoreSubscr | Opcode::StoreSlice => Some("setitem"),
        Opcode::ContainsOp => Some("contains"),
        _ => None,
    }
}
