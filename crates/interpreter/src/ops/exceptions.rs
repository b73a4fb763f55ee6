//! Raising and handling exceptions.

use dynamlir_bytecode::Instruction;
use pyo3::{
    exceptions::{PyBaseException, PyRuntimeError, PyStopAsyncIteration, PySystemError},
    prelude::*,
};

use dynamlir_cpython_abi::{exception, unit_of};

use super::{Done, Flow, arithmetic::bool_value};
use crate::{Activation, Unwind};

/// Returns the [`Unwind`] that re-raises an exception that already has its traceback entry.
pub(crate) fn reraised(value: &Bound<'_, PyAny>) -> Unwind {
    match value.cast::<PyBaseException>() {
        Ok(_) => Unwind::Reraise(PyErr::from_value(value.clone())),
        Err(error) => Unwind::Raise(error.into()),
    }
}

pub(crate) fn raise<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let unwind = match frame.top(instruction.arg as usize) {
        [exception, cause] => frame.policy().raise(exception, Some(cause)),
        [exception] => frame.policy().raise(exception, None),
        [] => {
            let handled = frame.thread.topmost_handled_exception();
            frame.policy().raise_again(handled.as_ref())?;
            match handled {
                Some(exception) => reraised(&exception),
                None => PyRuntimeError::new_err("No active exception to reraise").into(),
            }
        }
        _ => PySystemError::new_err("bad RAISE_VARARGS oparg").into(),
    };
    Err(unwind)
}

/// A nonzero argument is the stack position of the unit that first raised the exception.
pub(crate) fn reraise<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    if instruction.arg > 0 {
        let unit = unit_of(frame.peek(instruction.arg as usize).get())?;
        frame.frame.set_unit(unit.max(0) as u32);
    }
    Err(reraised(frame.peek(0).get()))
}

/// Makes the exception on top the one being handled, and keeps the previous one below it.
pub(crate) fn push_exc_info<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.pop();
    let former = frame.thread.replace_handled_exception(Some(value.get().clone()));
    let former = former.unwrap_or_else(|| frame.py().None().into_bound(frame.py()));
    frame.push(former);
    frame.push(value);
    Ok(Flow::Next)
}

/// Makes the exception on top the one being handled again.
pub(crate) fn pop_except<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.pop();
    drop(frame.thread.replace_handled_exception(value.object));
    Ok(Flow::Next)
}

/// In 3.13, `None` means no exception.
pub(crate) fn pop_except_none<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.pop().object.filter(|value| !value.is_none());
    drop(frame.thread.replace_handled_exception(value));
    Ok(Flow::Next)
}

pub(crate) fn check_match<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [exception, class] = frame.top(2) else { unreachable!("two were asked for") };
    let matches = frame.policy().exception_matches(exception, class)?;
    let result = bool_value(frame.py(), matches);
    frame.replace_top(1, result);
    Ok(Flow::Next)
}

/// `except* class`: splits the group on the stack into the part that the class matches, on top, and the rest.
pub(crate) fn check_group_match<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [group, class] = frame.top(2) else { unreachable!("two were asked for") };
    let (matched, rest) = frame.policy().group_match(group, class)?;
    // Without a match, the group stays as it is and is the rest.
    if matched.is_none() {
        let rest = frame.stack[frame.stack.len() - 2].clone();
        frame.drop_top(2);
        frame.push(rest);
    } else {
        drop(frame.thread.replace_handled_exception(Some(matched.clone())));
        frame.drop_top(2);
        frame.push(rest);
    }
    frame.push(matched);
    Ok(Flow::Next)
}

/// The end of `async for`: its iterator is below the exception.
pub(crate) fn end_async_for<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.peek(0).get();
    if !exception::matches(value, frame.py().get_type::<PyStopAsyncIteration>().as_any()) {
        return Err(reraised(value));
    }
    frame.drop_top(2);
    Ok(Flow::Next)
}
