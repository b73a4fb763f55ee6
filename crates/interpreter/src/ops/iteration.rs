//! Loops over iterators, and unpacking.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow, generators, target};
use crate::{Activation, Value};

pub(crate) fn get_iter<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let iterator = frame.policy().iter(frame.peek(0))?;
    frame.replace_top(1, iterator);
    Ok(Flow::Next)
}

/// In 3.15, an iterator has a second slot above it, for the index reached in a list or tuple. It is NULL here, since loops in this crate
/// always use an iterator. A nonzero argument requests the receiver of a `yield from`.
pub(crate) fn get_iter_with_place<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let flow = if instruction.arg == 0 { get_iter(frame, instruction) } else { generators::get_yield_from_iter(frame, instruction) }?;
    frame.push(Value::NULL);
    Ok(flow)
}

/// In 3.11, the end of the loop drops the iterator and jumps.
pub(crate) fn for_iter<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    if let Some(item) = frame.policy().next(frame.peek(0))? {
        frame.push(item);
        Ok(Flow::Next)
    } else {
        frame.drop_top(1);
        Ok(Flow::Jump(target(instruction)))
    }
}

/// In 3.12, it also jumps over the `END_FOR` at the target.
pub(crate) fn for_iter_over_end<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let flow = for_iter(frame, instruction)?;
    Ok(if let Flow::Jump(unit) = flow { Flow::Jump(unit + 1) } else { flow })
}

/// In 3.13, it jumps over an `END_FOR` and a `POP_TOP`.
pub(crate) fn for_iter_over_end_and_pop<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let flow = for_iter(frame, instruction)?;
    Ok(if let Flow::Jump(unit) = flow { Flow::Jump(unit + 2) } else { flow })
}

/// From 3.14 on, the iterator stays, for a `POP_ITER` after the `END_FOR`.
pub(crate) fn for_iter_keeping<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    for_iter_below(frame, instruction, 0)
}

/// In 3.15, the NULL slot is above the iterator.
pub(crate) fn for_iter_with_place<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    for_iter_below(frame, instruction, 1)
}

fn for_iter_below<'py>(frame: &mut Activation<'py>, instruction: &Instruction, depth: usize) -> Done<'py> {
    match frame.policy().next(frame.peek(depth))? {
        Some(item) => {
            frame.push(item);
            Ok(Flow::Next)
        }
        None => Ok(Flow::Jump(target(instruction) + 1)),
    }
}

/// The first value ends up on top.
pub(crate) fn unpack_sequence<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let values = frame.policy().unpack(frame.peek(0), instruction.arg as usize)?;
    frame.drop_top(1);
    frame.stack.extend(values.into_iter().rev());
    Ok(Flow::Next)
}

/// The low byte is the number of values before the starred one; the rest is the number after it.
pub(crate) fn unpack_ex<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let (before, after) = (instruction.arg & 0xff, instruction.arg >> 8);
    let values = frame.policy().unpack_ex(frame.peek(0), before as usize, after as usize)?;
    frame.drop_top(1);
    frame.stack.extend(values.into_iter().rev());
    Ok(Flow::Next)
}
