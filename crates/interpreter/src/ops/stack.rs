//! The value stack itself: constants, copies, drops.

use dynamlir_bytecode::Instruction;
use pyo3::{
    exceptions::{PyAssertionError, PyNotImplementedError, PySystemError},
    types::{PyBool, PyInt, PyList, PySet, PyTuple},
};

use super::{Done, Flow};
use crate::{Activation, Value, native};

/// Does nothing.
pub(crate) fn nop<'py>(_: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    Ok(Flow::Next)
}

/// The start of a function, or the instruction after a yield or an await.
pub(crate) fn resume<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    // Inside `yield from` and `await`, the innermost frame handles interrupts.
    if instruction.arg & 0x3 < 2 {
        frame.check_interrupts()?;
    }
    Ok(Flow::Next)
}

pub(crate) fn load_const<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let constant = frame.constant(instruction.arg);
    frame.push(constant);
    Ok(Flow::Next)
}

/// The argument is the int.
pub(crate) fn load_small_int<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let constant = PyInt::new(frame.py(), instruction.arg).into_any();
    frame.push(constant);
    Ok(Flow::Next)
}

/// The argument selects the constant. A constant that programs can rebind has its value from interpreter startup.
pub(crate) fn load_common_constant<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let py = frame.py();
    let known = frame.evaluator.table.version.facts().common_constants.get(instruction.arg as usize);
    let constant = match known.copied() {
        Some("AssertionError") => py.get_type::<PyAssertionError>().into_any(),
        Some("NotImplementedError") => py.get_type::<PyNotImplementedError>().into_any(),
        Some("tuple") => py.get_type::<PyTuple>().into_any(),
        Some("list") => py.get_type::<PyList>().into_any(),
        Some("set") => py.get_type::<PySet>().into_any(),
        Some("None") => py.None().into_bound(py),
        Some("True") => PyBool::new(py, true).to_owned().into_any(),
        Some("False") => PyBool::new(py, false).to_owned().into_any(),
        Some("-1") => PyInt::new(py, -1).into_any(),
        Some(_) => native::run(py, frame.evaluator.table.version, instruction, &[])?,
        None => return Err(PySystemError::new_err("bad LOAD_COMMON_CONSTANT").into()),
    };
    frame.push(constant);
    Ok(Flow::Next)
}

pub(crate) fn pop_top<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    drop(frame.pop());
    Ok(Flow::Next)
}

/// Drops two values, the topmost first.
pub(crate) fn pop_two<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    drop(frame.pop());
    drop(frame.pop());
    Ok(Flow::Next)
}

/// Drops the value under the top.
pub(crate) fn pop_second<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let top = frame.pop();
    drop(frame.pop());
    frame.push(top);
    Ok(Flow::Next)
}

/// Drops the two values under the top.
pub(crate) fn pop_second_and_third<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let top = frame.pop();
    drop(frame.pop());
    drop(frame.pop());
    frame.push(top);
    Ok(Flow::Next)
}

pub(crate) fn push_null<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    frame.push(Value::NULL);
    Ok(Flow::Next)
}

pub(crate) fn copy<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let value = frame.peek(instruction.arg as usize - 1).clone();
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn swap<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let top = frame.stack.len() - 1;
    frame.stack.swap(top, top + 1 - instruction.arg as usize);
    Ok(Flow::Next)
}
