//! Instructions that only 3.11 has, or that it handles differently.

use super::{NullAt, Op, Problem, Source, global};
use dynamlir_bytecode::{Instruction, Opcode};

/// Lifts an instruction; returns false if it is handled as in other versions.
pub(super) fn lift<'a>(source: &Source<'a>, instruction: &Instruction, out: &mut Vec<Op<'a>>) -> Result<bool, Problem> {
    match instruction.opcode {
        Opcode::Precall | Opcode::AsyncGenWrap => {}
        Opcode::LoadGlobal => global(source, instruction, NullAt::Below, out)?,
        Opcode::LoadAttr => out.push(Op::Attribute(source.name(instruction)?)),
        Opcode::LoadMethod => out.push(Op::Method(source.name(instruction)?, NullAt::Below)),
        Opcode::ImportStar => out.push(Op::ImportStar),
        _ => return Ok(false),
    }
    Ok(true)
}
