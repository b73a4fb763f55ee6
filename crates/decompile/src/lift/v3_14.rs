//! What 3.14 and 3.15 do in their own way. The blocks of `with`, what comes after loops, annotations that are functions, and template strings are
//! not known yet: code that has them is left as disassembly.

use std::sync::LazyLock;

use super::{Const, Expr, NONE, Op, Problem, Source, v3_13};
use dynamlir_bytecode::{Instruction, Opcode, SUBSCRIPT};

/// The ints that stand in an argument, and in no table of constants.
static SMALL_INTS: LazyLock<Vec<Const>> = LazyLock::new(|| (0..256).map(|value| Const::Int(value.to_string())).collect());

static TRUE: Const = Const::Bool(true);
static FALSE: Const = Const::Bool(false);

/// Lifts an instruction, or says that it is nothing special.
pub(super) fn lift<'a>(source: &Source<'a>, instruction: &Instruction, out: &mut Vec<Op<'a>>) -> Result<bool, Problem> {
    let arg = instruction.arg;
    let load = |slot: u32| Ok(Op::Push(Expr::Name(source.slot(slot)?)));
    match instruction.opcode {
        Opcode::NotTaken => {}
        Opcode::LoadFastBorrow => out.push(load(arg)?),
        Opcode::LoadFastBorrowLoadFastBorrow => out.extend([load(arg >> 4)?, load(arg & 15)?]),
        Opcode::LoadSmallInt => out.push(Op::Push(Expr::Const(SMALL_INTS.get(arg as usize).ok_or(Problem::Malformed)?))),
        Opcode::LoadCommonConstant => {
            let known = source.object.version.facts().common_constants;
            out.push(match *known.get(arg as usize).ok_or(Problem::Malformed)? {
                "AssertionError" => Op::Push(Expr::AssertionError),
                "None" => Op::Push(Expr::Const(&NONE)),
                "True" => Op::Push(Expr::Const(&TRUE)),
                "False" => Op::Push(Expr::Const(&FALSE)),
                _ => Op::Unsupported("LOAD_COMMON_CONSTANT"),
            });
        }
        Opcode::BinaryOp if arg as usize == SUBSCRIPT => out.push(Op::Subscript),
        // There is always a place for keywords, which the steps for it do not know.
        Opcode::CallFunctionEx => out.push(Op::Unsupported("CALL_FUNCTION_EX")),
        Opcode::SetFunctionAttribute if arg == 16 => out.push(Op::Unsupported("SET_FUNCTION_ATTRIBUTE 16")),
        _ => return v3_13::lift(source, instruction, out),
    }
    Ok(true)
}
