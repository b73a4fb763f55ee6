//! What the instructions do, one file per group. Which version has which is in [`crate::versions`].

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

/// How the frame goes on after an instruction.
pub(crate) enum Flow<'py> {
    /// With the next instruction.
    Next,
    /// With the instruction that starts at a unit.
    Jump(u32),
    /// Not: CPython runs this instruction, which returns the value.
    Return(Value<'py>),
    /// Not now: CPython runs this instruction, which yields the value on top.
    Suspend,
}

/// What an instruction does.
///
/// An instruction that fails may leave its operands on the stack: the handler's depth takes them off. One that raises an
/// exception again must leave them, since CPython runs it once more if no handler is found.
pub(crate) type Op = for<'a, 'py> fn(&'a mut Activation<'py>, &Instruction) -> Outcome<Flow<'py>>;

/// The result of an instruction that only falls through.
pub(crate) type Done<'py> = Outcome<Flow<'py>>;

/// The jump target of a jump.
pub(crate) fn target(instruction: &Instruction) -> u32 {
    instruction.target.expect("jumps have targets")
}
