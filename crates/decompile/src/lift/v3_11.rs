//! What only 3.11 does, or does in its own way.

use super::{NullAt, Op, Problem, Source, global};
use dynamlir_bytecode::{Instruction, Opcode};

/// Lifts an instruction, or says that it is nothing special.
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
