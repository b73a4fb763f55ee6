//! Calls.

use dynamlir_bytecode::Instruction;
use pyo3::{prelude::*, types::PyTuple};

use super::{Done, Flow};
use crate::{Activation, Value};

/// The names of the keyword arguments of the call that follows.
pub(crate) fn kw_names<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    frame.keywords = Some(frame.constant(instruction.arg).cast_into::<PyTuple>().map_err(PyErr::from)?);
    Ok(Flow::Next)
}

/// What is called, and its arguments: `slots` are two for the callable, then the arguments. Where the second is a value it is
/// the first argument, if `NULL_LAST`; else the first of the two is the callable unless it is NULL.
fn parts<'a, 'py, const NULL_LAST: bool>(slots: &'a [Value<'py>]) -> (&'a Value<'py>, &'a [Value<'py>]) {
    match (NULL_LAST, slots[0].is_null(), slots[1].is_null()) {
        (false, true, _) => (&slots[1], &slots[2..]),
        (true, _, true) => (&slots[0], &slots[2..]),
        _ => (&slots[0], &slots[1..]),
    }
}

fn call_with<'py, const NULL_LAST: bool>(frame: &mut Activation<'py>, count: usize, keywords: Option<&Bound<'py, PyTuple>>) -> Done<'py> {
    let (callable, args) = parts::<NULL_LAST>(frame.top(count + 2));
    let result = frame.policy().call(callable, args, keywords)?;
    frame.replace_top(count + 2, result);
    frame.check_interrupts()?;
    Ok(Flow::Next)
}

pub(crate) fn call<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let keywords = frame.keywords.take();
    call_with::<false>(frame, instruction.arg as usize, keywords.as_ref())
}

/// In 3.13 the place for the object is above the callable.
pub(crate) fn call_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    call_with::<true>(frame, instruction.arg as usize, None)
}

/// In 3.13 the names of the keyword arguments are on top.
pub(crate) fn call_kw<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let keywords = frame.pop().into_object().cast_into::<PyTuple>().map_err(PyErr::from)?;
    call_with::<true>(frame, instruction.arg as usize, Some(&keywords))
}

/// `callable(*args, **kwargs)`; a NULL lies below or above the callable.
fn call_ex_with<'py, const NULL_LAST: bool>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let has_kwargs = instruction.arg & 1 == 1;
    let count = 3 + usize::from(has_kwargs);
    let slots = frame.top(count);
    let callable = if NULL_LAST { &slots[0] } else { &slots[1] };
    let kwargs = match slots.get(3) {
        Some(kwargs) => Some(frame.policy().spread_keywords(callable, kwargs)?),
        None => None,
    };
    let args = frame.policy().spread(callable, &slots[2])?;
    let result = frame.policy().call_ex(callable, &args, kwargs.as_ref())?;
    drop((args, kwargs));
    frame.replace_top(count, result);
    frame.check_interrupts()?;
    Ok(Flow::Next)
}

pub(crate) fn call_ex<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    call_ex_with::<false>(frame, instruction)
}

pub(crate) fn call_ex_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    call_ex_with::<true>(frame, instruction)
}
