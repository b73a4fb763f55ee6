//! The stack effect of instructions, as `dis.stack_effect` reports it.

use crate::{Opcode, Version};

/// Returns the change of the stack's depth when the instruction jumps, or when it does not. `None` if the version lacks the opcode.
///
/// These are the formal effects, under which the depths agree where branches meet: from 3.12 on, an exhausted `FOR_ITER` leaves the
/// iterator and a value to an `END_FOR`, which the interpreter itself skips. `RETURN_GENERATOR` follows `dis`: only 3.13 counts the value
/// that the first `send` pushes.
pub fn stack_effect(version: Version, opcode: Opcode, arg: u32, jump: bool) -> Option<i32> {
    opcode.caches(version)?;
    let own = match version {
        Version::V3_11 => effect_3_11(opcode, jump),
        Version::V3_12 => effect_3_12(opcode, arg),
        Version::V3_13 => effect_3_13(opcode, arg),
        Version::V3_14 => effect_3_14(opcode, arg),
        Version::V3_15 => effect_3_15(opcode, arg),
    };
    own.or_else(|| common(opcode, arg, jump))
}

fn effect_3_11(opcode: Opcode, jump: bool) -> Option<i32> {
    use Opcode as Op;
    Some(match opcode {
        // PRECALL has counted the arguments.
        Op::Call => -1,
        Op::Send if jump => -1,
        Op::LoadAttr | Op::ReturnGenerator | Op::Send => 0,
        Op::ForIter => {
            if jump {
                -1
            } else {
                1
            }
        }
        _ => return None,
    })
}

fn effect_3_12(opcode: Opcode, arg: u32) -> Option<i32> {
    use Opcode as Op;
    Some(match opcode {
        Op::Call => -1 - arg.min(1 << 28) as i32,
        Op::EndFor => -2,
        Op::ForIter => 1,
        Op::LoadAttr => (arg & 1) as i32,
        Op::ReturnGenerator | Op::Send => 0,
        _ => return None,
    })
}

fn effect_3_13(opcode: Opcode, arg: u32) -> Option<i32> {
    use Opcode as Op;
    Some(match opcode {
        Op::EndFor => -1,
        Op::MakeFunction => 0,
        Op::ReturnGenerator => 1,
        _ => return effect_3_12(opcode, arg),
    })
}

fn effect_3_14(opcode: Opcode, arg: u32) -> Option<i32> {
    use Opcode as Op;
    Some(match opcode {
        // There is always a stack slot for keywords.
        Op::CallFunctionEx => -3,
        // The stack effect includes the value that the caller receives.
        Op::ReturnValue => 0,
        Op::BuildSlice => 1 - arg.min(1 << 28) as i32,
        _ => return effect_3_13(opcode, arg),
    })
}

fn effect_3_15(opcode: Opcode, arg: u32) -> Option<i32> {
    use Opcode as Op;
    Some(match opcode {
        // An iterator has a second stack slot: the position reached in a list or tuple.
        Op::GetIter => 1,
        Op::EndSend | Op::PopIter => -2,
        _ => return effect_3_14(opcode, arg),
    })
}

/// Returns the effect of opcodes that have the same effect in every version.
fn common(opcode: Opcode, arg: u32, jump: bool) -> Option<i32> {
    use Opcode as Op;
    let flag = |bit: u32| i32::from(arg & bit != 0);
    // A real stack is never that deep; this only keeps the arithmetic in range.
    let count = arg.min(1 << 28) as i32;
    Some(match opcode {
        Op::AsyncGenWrap
        | Op::CallIntrinsic1
        | Op::CheckEgMatch
        | Op::CheckExcMatch
        | Op::ConvertValue
        | Op::CopyFreeVars
        | Op::DeleteDeref
        | Op::DeleteFast
        | Op::DeleteGlobal
        | Op::DeleteName
        | Op::ExtendedArg
        | Op::FormatSimple
        | Op::GetAiter
        | Op::GetAwaitable
        | Op::GetIter
        | Op::GetYieldFromIter
        | Op::JumpBackward
        | Op::JumpBackwardNoInterrupt
        | Op::JumpForward
        | Op::KwNames
        | Op::ListToTuple
        | Op::LoadFromDictOrDeref
        | Op::LoadFromDictOrGlobals
        | Op::MakeCell
        | Op::Nop
        | Op::NotTaken
        | Op::Resume
        | Op::ReturnConst
        | Op::SetupAnnotations
        | Op::StoreFastLoadFast
        | Op::Swap
        | Op::ToBool
        | Op::UnaryInvert
        | Op::UnaryNegative
        | Op::UnaryNot
        | Op::UnaryPositive
        | Op::YieldValue => 0,
        Op::BeforeAsyncWith
        | Op::BeforeWith
        | Op::Copy
        | Op::GetAnext
        | Op::GetLen
        | Op::ImportFrom
        | Op::LoadAssertionError
        | Op::LoadBuildClass
        | Op::LoadClassderef
        | Op::LoadClosure
        | Op::LoadCommonConstant
        | Op::LoadConst
        | Op::LoadDeref
        | Op::LoadFast
        | Op::LoadFastAndClear
        | Op::LoadFastBorrow
        | Op::LoadFastCheck
        | Op::LoadLocals
        | Op::LoadMethod
        | Op::LoadName
        | Op::LoadSmallInt
        | Op::LoadSpecial
        | Op::MatchKeys
        | Op::MatchMapping
        | Op::MatchSequence
        | Op::PushExcInfo
        | Op::PushNull
        | Op::WithExceptStart => 1,
        Op::BinaryOp
        | Op::BinarySubscr
        | Op::BuildTemplate
        | Op::CallIntrinsic2
        | Op::CleanupThrow
        | Op::CompareOp
        | Op::ContainsOp
        | Op::DeleteAttr
        | Op::DictMerge
        | Op::DictUpdate
        | Op::EndSend
        | Op::FormatWithSpec
        | Op::ImportName
        | Op::ImportStar
        | Op::IsOp
        | Op::ListAppend
        | Op::ListExtend
        | Op::PopExcept
        | Op::PopIter
        | Op::PopJumpBackwardIfFalse
        | Op::PopJumpBackwardIfNone
        | Op::PopJumpBackwardIfNotNone
        | Op::PopJumpBackwardIfTrue
        | Op::PopJumpForwardIfFalse
        | Op::PopJumpForwardIfNone
        | Op::PopJumpForwardIfNotNone
        | Op::PopJumpForwardIfTrue
        | Op::PopJumpIfFalse
        | Op::PopJumpIfNone
        | Op::PopJumpIfNotNone
        | Op::PopJumpIfTrue
        | Op::PopTop
        | Op::PrepReraiseStar
        | Op::PrintExpr
        | Op::Reraise
        | Op::ReturnValue
        | Op::SetAdd
        | Op::SetFunctionAttribute
        | Op::SetUpdate
        | Op::StoreDeref
        | Op::StoreFast
        | Op::StoreGlobal
        | Op::StoreName => -1,
        Op::BinarySlice | Op::DeleteSubscr | Op::EndAsyncFor | Op::MapAdd | Op::MatchClass | Op::StoreAttr | Op::StoreFastStoreFast => -2,
        Op::StoreSubscr => -3,
        Op::StoreSlice => -4,
        Op::LoadFastBorrowLoadFastBorrow | Op::LoadFastLoadFast => 2,
        // The lowest bit says that the format specification is on the stack.
        Op::BuildInterpolation => -1 - flag(1),
        Op::JumpIfFalseOrPop | Op::JumpIfTrueOrPop => -i32::from(!jump),
        Op::BuildConstKeyMap | Op::Precall | Op::RaiseVarargs => -count,
        Op::BuildList | Op::BuildSet | Op::BuildString | Op::BuildTuple => 1 - count,
        Op::BuildMap => 1 - 2 * count,
        Op::BuildSlice => {
            if arg == 3 {
                -2
            } else {
                -1
            }
        }
        Op::CallFunctionEx => -2 - flag(1),
        Op::CallKw => -2 - count,
        // Bit 2 says that the format specification is on the stack.
        Op::FormatValue => -i32::from(arg & 4 == 4),
        Op::LoadGlobal => 1 + flag(1),
        Op::LoadSuperAttr => -2 + flag(1),
        Op::MakeFunction => -flag(1) - flag(2) - flag(4) - flag(8),
        Op::UnpackEx => (arg & 0xff) as i32 + (arg >> 8) as i32,
        Op::UnpackSequence => count - 1,
        // Opcodes whose effect depends on the version; handled above.
        Op::Call | Op::EndFor | Op::ForIter | Op::LoadAttr | Op::ReturnGenerator | Op::Send => return None,
    })
}
