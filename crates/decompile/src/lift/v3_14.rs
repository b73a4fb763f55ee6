//! Instructions that 3.14 and 3.15 handle differently.

use std::sync::LazyLock;

use super::{Const, Expr, Marker, NONE, Op, Problem, Source, v3_13};
use dynamlir_bytecode::{Instruction, Opcode, SUBSCRIPT};

/// The ints encoded in an argument instead of the constants.
static SMALL_INTS: LazyLock<Vec<Const>> = LazyLock::new(|| (0..256).map(|value| Const::Int(value.to_string())).collect());

static TRUE: Const = Const::Bool(true);
static FALSE: Const = Const::Bool(false);
static EMPTY: Const = Const::Str(String::new());
static MINUS_ONE: LazyLock<Const> = LazyLock::new(|| Const::Int("-1".to_owned()));

/// Lifts an instruction; returns false if it is handled as in other versions.
pub(super) fn lift<'a>(source: &Source<'a>, instruction: &Instruction, out: &mut Vec<Op<'a>>) -> Result<bool, Problem> {
    let arg = instruction.arg;
    let load = |slot: u32| Ok(Op::Push(Expr::Name(source.slot(slot)?)));
    match instruction.opcode {
        Opcode::NotTaken => {}
        Opcode::PopIter => out.push(Op::Pop),
        Opcode::GetIter if source.object.version.facts().iterator_places == 2 => {
            out.extend([Op::Iter, Op::Push(Expr::Marker(Marker::Place))]);
        }
        Opcode::LoadFastBorrow => out.push(load(arg)?),
        Opcode::LoadFastBorrowLoadFastBorrow => out.extend([load(arg >> 4)?, load(arg & 15)?]),
        Opcode::LoadSmallInt => out.push(Op::Push(Expr::Const(SMALL_INTS.get(arg as usize).ok_or(Problem::Malformed)?))),
        Opcode::LoadCommonConstant => {
            out.push(match source.common_constant(arg).ok_or(Problem::Malformed)? {
                "AssertionError" => Op::Push(Expr::AssertionError),
                // Functions that return annotations raise it for unknown formats.
                "NotImplementedError" => Op::Push(Expr::Name("NotImplementedError")),
                "None" => Op::Push(Expr::Const(&NONE)),
                "True" => Op::Push(Expr::Const(&TRUE)),
                "False" => Op::Push(Expr::Const(&FALSE)),
                "''" => Op::Push(Expr::Const(&EMPTY)),
                "-1" => Op::Push(Expr::Const(&MINUS_ONE)),
                _ => Op::Unsupported("LOAD_COMMON_CONSTANT"),
            });
        }
        Opcode::BuildInterpolation => {
            let conversion = *[None, Some('s'), Some('r'), Some('a')].get(arg as usize >> 2).ok_or(Problem::Malformed)?;
            out.push(Op::Interpolation(conversion, arg & 1 == 1));
        }
        Opcode::BuildTemplate => out.push(Op::Template),
        Opcode::BinaryOp if arg as usize == SUBSCRIPT => out.push(Op::Subscript),
        // There is always a stack slot for keywords, which is NULL if there are none.
        Opcode::CallFunctionEx => out.push(Op::CallEx(true)),
        Opcode::LoadConst => match source.constant(arg)? {
            Const::Slice(parts) => {
                let [start, stop, step] = parts.each_ref().map(|part| (*part != Const::None).then(|| Box::new(Expr::Const(part))));
                out.push(Op::Push(Expr::Slice(start, stop, step)));
            }
            value => out.push(Op::Push(Expr::Const(value))),
        },
        _ => return v3_13::lift(source, instruction, out),
    }
    Ok(true)
}
