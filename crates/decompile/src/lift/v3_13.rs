//! Instructions introduced by 3.13, or handled differently there.

use super::{Expr, NullAt, Op, Problem, Scope, Source, attribute, global, intrinsic_1, super_attribute};
use dynamlir_bytecode::{Instruction, Opcode};

/// Lifts an instruction; returns false if it is handled as in other versions.
pub(super) fn lift<'a>(source: &Source<'a>, instruction: &Instruction, out: &mut Vec<Op<'a>>) -> Result<bool, Problem> {
    let arg = instruction.arg;
    let load = |slot: u32| Ok(Op::Push(Expr::Name(source.slot(slot)?)));
    let store = |slot: u32| Ok(Op::Store(Scope::Local, source.slot(slot)?));
    match instruction.opcode {
        Opcode::LoadGlobal => global(source, instruction, NullAt::Above, out)?,
        Opcode::LoadAttr => out.push(attribute(source, instruction, NullAt::Above)?),
        Opcode::LoadSuperAttr => out.push(super_attribute(source, instruction, NullAt::Above)?),
        Opcode::CallIntrinsic1 => intrinsic_1(arg, out),
        Opcode::CallKw => out.push(Op::CallKeywords(arg as usize)),
        Opcode::ReturnConst => out.extend([Op::Push(Expr::Const(source.constant(arg)?)), Op::Return]),
        Opcode::LoadFastLoadFast => out.extend([load(arg >> 4)?, load(arg & 15)?]),
        Opcode::StoreFastLoadFast => out.extend([store(arg >> 4)?, load(arg & 15)?]),
        Opcode::StoreFastStoreFast => out.extend([store(arg >> 4)?, store(arg & 15)?]),
        Opcode::MakeFunction => out.push(Op::Function(0)),
        Opcode::SetFunctionAttribute => out.push(Op::FunctionAttribute(arg)),
        Opcode::ConvertValue => out.push(Op::Convert(*['s', 'r', 'a'].get((arg as usize).wrapping_sub(1)).ok_or(Problem::Malformed)?)),
        Opcode::FormatSimple => out.push(Op::Format(None, false)),
        Opcode::FormatWithSpec => out.push(Op::Format(None, true)),
        _ => return Ok(false),
    }
    Ok(true)
}
