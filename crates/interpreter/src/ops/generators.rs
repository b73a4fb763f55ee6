//! Generators: yields are run by CPython, which thereby suspends the frame.

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::exception;
use pyo3::{exceptions::PyStopIteration, prelude::*};

use super::{Done, Flow, exceptions::reraised, target};
use crate::{Activation, Outcome, Sent, Value, concrete};

/// Also used for the instruction that wraps the value of an asynchronous generator: CPython runs both.
pub(crate) fn suspend<'py>(_: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    Ok(Flow::Suspend)
}

/// A generator or coroutine is resumed itself; anything else is iterated over.
pub(crate) fn get_yield_from_iter<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    if !concrete::is_yielded_from_itself(frame.prepared().flags, frame.peek(0).get())? {
        let iterator = frame.policy().iter(frame.peek(0))?;
        frame.replace_top(1, iterator);
    }
    Ok(Flow::Next)
}

/// In 3.11, a return replaces the receiver and jumps.
pub(crate) fn send<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let value = frame.pop();
    match frame.policy().send(frame.peek(0), &value)? {
        Sent::Yielded(result) => {
            frame.push(result);
            Ok(Flow::Next)
        }
        Sent::Returned(result) => {
            frame.replace_top(1, result);
            Ok(Flow::Jump(target(instruction)))
        }
    }
}

/// From 3.12 on, the receiver stays, for `END_SEND`.
pub(crate) fn send_keeping<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    send_below(frame, instruction, 0)
}

/// In 3.15, the second slot that loops need is above the receiver.
pub(crate) fn send_with_place<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    send_below(frame, instruction, 1)
}

fn send_below<'py>(frame: &mut Activation<'py>, instruction: &Instruction, depth: usize) -> Done<'py> {
    let value = frame.pop();
    match frame.policy().send(frame.peek(depth), &value)? {
        Sent::Yielded(result) => {
            frame.push(result);
            Ok(Flow::Next)
        }
        Sent::Returned(result) => {
            frame.push(result);
            Ok(Flow::Jump(target(instruction)))
        }
    }
}

/// Handles an exception thrown in during `yield from`: a `StopIteration` carries the value, anything else propagates.
pub(crate) fn cleanup_throw<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = returned(frame)?;
    frame.drop_top(3);
    frame.push(Value::new(frame.py().None().into_bound(frame.py())));
    frame.push(value);
    Ok(Flow::Next)
}

/// In 3.15, the receiver of `yield from` has a second slot.
pub(crate) fn cleanup_throw_with_place<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = returned(frame)?;
    frame.drop_top(4);
    frame.push(Value::new(frame.py().None().into_bound(frame.py())));
    frame.push(Value::NULL);
    frame.push(value);
    Ok(Flow::Next)
}

/// Returns the value returned by the receiver of `yield from`, taken from the exception on top.
fn returned<'py>(frame: &Activation<'py>) -> Outcome<Bound<'py, PyAny>> {
    let raised = frame.peek(0).get();
    if !exception::matches(raised, frame.py().get_type::<PyStopIteration>().as_any()) {
        return Err(reraised(raised));
    }
    Ok(raised.getattr("value")?)
}
