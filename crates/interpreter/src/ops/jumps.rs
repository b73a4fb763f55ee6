//! Jumps. A backward jump, or one that may be backward, handles pending work.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow, target};
use crate::{Activation, Outcome};

/// Jumps if the condition is true.
fn jump_if<'py>(frame: &Activation<'py>, instruction: &Instruction, condition: bool) -> Done<'py> {
    if !condition {
        return Ok(Flow::Next);
    }
    let to = target(instruction);
    if to <= instruction.unit {
        frame.check_interrupts()?;
    }
    Ok(Flow::Jump(to))
}

/// Pops the top and returns its truth.
fn pop_truth(frame: &mut Activation<'_>) -> Outcome<bool> {
    let value = frame.pop();
    frame.policy().truth(&value)
}

pub(crate) fn always<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    jump_if(frame, instruction, true)
}

/// Used in the loop of `yield from` and `await`: the innermost frame handles interrupts.
pub(crate) fn without_interrupt<'py>(_: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    Ok(Flow::Jump(target(instruction)))
}

pub(crate) fn pop_if_true<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let truth = pop_truth(frame)?;
    jump_if(frame, instruction, truth)
}

pub(crate) fn pop_if_false<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let truth = pop_truth(frame)?;
    jump_if(frame, instruction, !truth)
}

/// Pops the top and returns true if it is `None`.
fn pop_is_none(frame: &mut Activation<'_>) -> Outcome<bool> {
    let value = frame.pop();
    let none = frame.py().None().into_bound(frame.py()).into();
    frame.policy().is_same(&value, &none)
}

pub(crate) fn pop_if_none<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let is_none = pop_is_none(frame)?;
    jump_if(frame, instruction, is_none)
}

pub(crate) fn pop_if_not_none<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let is_none = pop_is_none(frame)?;
    jump_if(frame, instruction, !is_none)
}

/// Jumps and keeps the top, or drops it and continues.
fn keep_if<'py>(frame: &mut Activation<'py>, instruction: &Instruction, kept: bool) -> Done<'py> {
    if frame.policy().truth(frame.peek(0))? == kept {
        return Ok(Flow::Jump(target(instruction)));
    }
    drop(frame.pop());
    Ok(Flow::Next)
}

pub(crate) fn if_true_or_pop<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    keep_if(frame, instruction, true)
}

pub(crate) fn if_false_or_pop<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    keep_if(frame, instruction, false)
}

/// Notifies the policy before a frame returns to another evaluated frame: it drops its variables.
fn let_go(frame: &Activation<'_>) -> Outcome<()> {
    if frame.place().outer().is_none() {
        return Ok(());
    }
    (0..frame.locals_count()).try_for_each(|slot| frame.policy().lets_go(frame, slot))
}

pub(crate) fn return_value<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let_go(frame)?;
    if let Some(value) = frame.policy().returns(frame, frame.peek(0))? {
        frame.drop_top(1);
        frame.push(value);
    }
    Ok(Flow::Return(frame.peek(0).clone()))
}

pub(crate) fn return_const<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let_go(frame)?;
    Ok(Flow::Return(frame.constant(instruction.arg).into()))
}
