//! Instructions that only 3.12 has, or that it handles differently.

use super::{Expr, NullAt, Op, Problem, Source, attribute, global, intrinsic_1, super_attribute};
use dynamlir_bytecode::{Instruction, Opcode};

/// Lifts an instruction; returns false if it is handled as in other versions.
pub(super) fn lift<'a>(source: &Source<'a>, instruction: &Instruction, out: &mut Vec<Op<'a>>) -> Result<bool, Problem> {
    match instruction.opcode {
        Opcode::LoadGlobal => global(source, instruction, NullAt::Below, out)?,
        Opcode::LoadAttr => out.push(attribute(source, instruction, NullAt::Below)?),
        Opcode::LoadSuperAttr => out.push(super_attribute(source, instruction, NullAt::Below)?),
        Opcode::CallIntrinsic1 => intrinsic_1(instruction.arg, out),
        Opcode::ReturnConst => out.extend([Op::Push(Expr::Const(source.constant(instruction.arg)?)), Op::Return]),
        // Pops the iterator, which FOR_ITER already does here.
        Opcode::EndFor => {}
        _ => return Ok(false),
    }
    Ok(true)
}
