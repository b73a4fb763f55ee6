//! The implementations of the instructions, one file per group. [`crate::versions`] lists the instructions of each version.

pub(crate) mod arithmetic;
pub(crate) mod asynchronous;
pub(crate) mod attributes;
pub(crate) mod calls;
pub(crate) mod containers;
pub(crate) mod exceptions;
pub(crate) mod format;
pub(crate) mod functions;
pub(crate) mod generators;
pub(crate) mod imports;
pub(crate) mod intrinsics;
pub(crate) mod items;
pub(crate) mod iteration;
pub(crate) mod jumps;
pub(crate) mod locals;
pub(crate) mod matching;
pub(crate) mod names;
pub(crate) mod stack;
pub(crate) mod with;

pub use calls::CallSite;
use dynamlir_bytecode::Instruction;

use crate::{Activation, Outcome, Value};

/// The way in which the frame continues after an instruction.
pub(crate) enum Flow<'py> {
    /// Continue with the next instruction.
    Next,
    /// Continue with the instruction that starts at this unit.
    Jump(u32),
    /// End: CPython runs this instruction, which returns the value.
    Return(Value<'py>),
    /// Suspend: CPython runs this instruction, which yields the value on top.
    Suspend,
}

/// The implementation of an instruction.
///
/// An instruction that fails may leave its operands on the stack: the handler's depth removes them. One that re-raises an exception must
/// leave them, since CPython runs it again if no handler is found.
pub(crate) type Op = for<'a, 'py> fn(&'a mut Activation<'py>, &Instruction) -> Outcome<Flow<'py>>;

/// The result of an instruction that only falls through.
pub(crate) type Done<'py> = Outcome<Flow<'py>>;

/// Returns the target of a jump.
pub(crate) fn target(instruction: &Instruction) -> u32 {
    instruction.target.expect("jumps have targets")
}
