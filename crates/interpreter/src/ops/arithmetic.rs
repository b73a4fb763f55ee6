//! Arithmetic, comparisons, truth.

use dynamlir_bytecode::{Instruction, SUBSCRIPT};
use pyo3::{exceptions::PySystemError, prelude::*, types::PyBool};

use super::{Done, Flow, items};
use crate::{Activation, BinaryOp, Comparison, Outcome, UnaryOp, Value};

/// Returns a Python bool.
pub(crate) fn bool_value(py: Python<'_>, value: bool) -> Value<'_> {
    PyBool::new(py, value).to_owned().into_any().into()
}

fn unary<'py>(frame: &mut Activation<'py>, op: UnaryOp) -> Done<'py> {
    let result = frame.policy().unary_op(op, frame.peek(0))?;
    frame.replace_top(1, result);
    Ok(Flow::Next)
}

pub(crate) fn negative<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    unary(frame, UnaryOp::Negative)
}

pub(crate) fn positive<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    unary(frame, UnaryOp::Positive)
}

pub(crate) fn invert<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    unary(frame, UnaryOp::Invert)
}

pub(crate) fn not<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let truth = frame.policy().truth(frame.peek(0))?;
    let result = bool_value(frame.py(), !truth);
    frame.replace_top(1, result);
    Ok(Flow::Next)
}

pub(crate) fn to_bool<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let truth = frame.policy().truth(frame.peek(0))?;
    let result = bool_value(frame.py(), truth);
    frame.replace_top(1, result);
    Ok(Flow::Next)
}

/// The argument numbers the operations: first the plain ones, then the in-place ones.
pub(crate) fn binary<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let number = instruction.arg as usize;
    let count = BinaryOp::ALL.len();
    let Some(&op) = BinaryOp::ALL.get(number % count).filter(|_| number < 2 * count) else {
        return Err(PySystemError::new_err("bad BINARY_OP").into());
    };
    let [lhs, rhs] = frame.top(2) else { unreachable!("two were asked for") };
    let result = frame.policy().binary_op(op, number >= count, lhs, rhs)?;
    frame.replace_top(2, result);
    Ok(Flow::Next)
}

/// From 3.14 on, the number after the in-place operations is a subscript.
pub(crate) fn binary_or_item<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    if instruction.arg as usize == SUBSCRIPT { items::get(frame, instruction) } else { binary(frame, instruction) }
}

fn compare_with<'py>(frame: &mut Activation<'py>, number: u32) -> Outcome<Value<'py>> {
    const COMPARISONS: [Comparison; 6] = [Comparison::Lt, Comparison::Le, Comparison::Eq, Comparison::Ne, Comparison::Gt, Comparison::Ge];
    let Some(&op) = COMPARISONS.get(number as usize) else {
        return Err(PySystemError::new_err("bad COMPARE_OP").into());
    };
    let [lhs, rhs] = frame.top(2) else { unreachable!("two were asked for") };
    frame.policy().compare(op, lhs, rhs)
}

/// In 3.11 the argument is the comparison.
pub(crate) fn compare<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let result = compare_with(frame, instruction.arg)?;
    frame.replace_top(2, result);
    Ok(Flow::Next)
}

/// In 3.12 the argument's low bits help specialisation.
pub(crate) fn compare_shifted_4<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let result = compare_with(frame, instruction.arg >> 4)?;
    frame.replace_top(2, result);
    Ok(Flow::Next)
}

/// 3.13 has one more bit, which requests a bool.
pub(crate) fn compare_shifted_5<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let mut result = compare_with(frame, instruction.arg >> 5)?;
    if instruction.arg & 16 != 0 {
        result = bool_value(frame.py(), frame.policy().truth(&result)?);
    }
    frame.replace_top(2, result);
    Ok(Flow::Next)
}

pub(crate) fn is<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let [lhs, rhs] = frame.top(2) else { unreachable!("two were asked for") };
    let same = frame.policy().is_same(lhs, rhs)?;
    let result = bool_value(frame.py(), same != (instruction.arg == 1));
    frame.replace_top(2, result);
    Ok(Flow::Next)
}

pub(crate) fn contains<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let [item, container] = frame.top(2) else { unreachable!("two were asked for") };
    let found = frame.policy().contains(container, item)?;
    let result = bool_value(frame.py(), found != (instruction.arg == 1));
    frame.replace_top(2, result);
    Ok(Flow::Next)
}
