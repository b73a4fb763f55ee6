//! The numbered intrinsic functions from 3.12 on.

use dynamlir_bytecode::{Instruction, Opcode};

use super::{Done, Flow, Op, arithmetic, containers, generators, imports};
use crate::{Activation, Value, concrete, native};

/// The names by `CALL_INTRINSIC_1`'s argument.
const UNARY: [&str; 12] = [
    "invalid",
    "print",
    "import_star",
    "stopiteration_error",
    "async_gen_wrap",
    "unary_positive",
    "list_to_tuple",
    "typevar",
    "paramspec",
    "typevartuple",
    "subscript_generic",
    "typealias",
];

/// The names by `CALL_INTRINSIC_2`'s argument.
const BINARY: [&str; 6] =
    ["invalid", "prep_reraise_star", "typevar_with_bound", "typevar_with_constraints", "set_function_type_params", "set_typeparam_default"];

/// Returns the name of the instruction's intrinsic.
pub(crate) fn name(instruction: &Instruction) -> Option<&'static str> {
    match instruction.opcode {
        Opcode::CallIntrinsic1 => UNARY.get(instruction.arg as usize).copied(),
        Opcode::CallIntrinsic2 => BINARY.get(instruction.arg as usize).copied(),
        _ => None,
    }
}

/// Returns the implementation of the instruction.
pub(crate) fn op(instruction: &Instruction) -> Option<Op> {
    Some(match name(instruction)? {
        "print" => print,
        "import_star" => import_star,
        "stopiteration_error" => stop_iteration_error,
        "async_gen_wrap" => generators::suspend,
        "unary_positive" => arithmetic::positive,
        "list_to_tuple" => containers::list_to_tuple,
        "invalid" => return None,
        // Type parameters, and the end of `except*`.
        _ => native,
    })
}

/// Returns true if CPython runs it together with the yield that follows.
pub(crate) fn wraps_yield(instruction: &Instruction) -> bool {
    name(instruction) == Some("async_gen_wrap")
}

/// Lets CPython run an instruction that takes its operands from the stack, pushes one result, and makes no call worth intercepting.
pub(crate) fn native<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let count = match instruction.opcode {
        Opcode::CallIntrinsic1 => 1,
        // The lowest bit says that the format specification is on the stack.
        Opcode::BuildInterpolation => 2 + (instruction.arg & 1) as usize,
        _ => 2,
    };
    if matches!(name(instruction), Some("set_function_type_params" | "set_typeparam_default")) {
        frame.policy().complete(frame.peek(1))?;
    }
    crate::escape_each(frame.policy(), frame.top(count))?;
    let result = native::run(frame.py(), frame.evaluator.table.version, instruction, frame.top(count))?;
    frame.replace_top(count, result);
    Ok(Flow::Next)
}

/// Prints the value of an expression statement at the prompt. 3.11 has an opcode for it that pushes nothing.
fn print<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let result = concrete::print_expression(frame.peek(0).get())?;
    frame.replace_top(1, result);
    Ok(Flow::Next)
}

fn import_star<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    imports::star(frame, instruction)?;
    frame.push(Value::new(frame.py().None().into_bound(frame.py())));
    Ok(Flow::Next)
}

/// A `StopIteration` must not leave a generator's body.
fn stop_iteration_error<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let error = concrete::stop_iteration_error(frame.prepared().flags, frame.peek(0).get())?;
    frame.replace_top(1, error);
    Ok(Flow::Next)
}

/// 3.11's `PRINT_EXPR`.
pub(crate) fn print_expr<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.pop();
    concrete::print_expression(value.get())?;
    Ok(Flow::Next)
}
