//! Calls.

use dynamlir_bytecode::{Instruction, Opcode, Version};
use pyo3::{prelude::*, types::PyTuple};

use super::{Done, Flow};
use crate::{Activation, Value};

/// Stores the names of the keyword arguments of the call that follows.
pub(crate) fn kw_names<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    frame.keywords = Some(frame.constant(instruction.arg).cast_into::<PyTuple>().map_err(PyErr::from)?);
    Ok(Flow::Next)
}

/// A call that a frame is making.
pub struct CallSite<'a, 'py> {
    /// The unit of the first of the call's instructions.
    pub start: u32,
    /// The callable.
    pub callable: &'a Value<'py>,
    /// The stack position of the callable. Above it are the arguments, and perhaps a NULL.
    pub place: usize,
    /// The number of topmost values that are not plain arguments: the names of keyword arguments, or values to be spread.
    pub others: usize,
    /// True if these values are spread.
    pub spreads: bool,
}

impl<'py> Activation<'py> {
    /// Returns true if the current call enters a context. Nothing may interrupt between that call and the body: only the body ensures that
    /// the context is left.
    fn is_entering(&self) -> bool {
        let code = &self.prepared().code;
        let at = code.index[self.place().unit() as usize] as usize;
        at > 0 && code.instructions[at - 1].opcode == Opcode::LoadSpecial
    }

    /// Returns the call that the frame's current instruction makes; `None` if it is not a call.
    pub fn call_site(&self) -> Option<CallSite<'_, 'py>> {
        let code = &self.prepared().code;
        let mut at = code.index[self.place().unit() as usize] as usize;
        let instruction = &code.instructions[at];
        let null_last = code.version >= Version::V3_13;
        let (args, others) = match instruction.opcode {
            Opcode::Call => (instruction.arg as usize, 0),
            Opcode::CallKw => (instruction.arg as usize, 1),
            Opcode::CallFunctionEx if code.version >= Version::V3_14 => (0, 2),
            Opcode::CallFunctionEx => (0, 1 + (instruction.arg & 1) as usize),
            _ => return None,
        };
        let spreads = instruction.opcode == Opcode::CallFunctionEx;
        while at > 0 && matches!(code.instructions[at - 1].opcode, Opcode::Precall | Opcode::KwNames) {
            at -= 1;
        }
        let lowest = self.stack().len().checked_sub(2 + args + others)?;
        let place = if null_last || !self.stack()[lowest].is_null() { lowest } else { lowest + 1 };
        Some(CallSite { start: code.instructions[at].start, callable: &self.stack()[place], place, others, spreads })
    }
}

/// Returns the callable and its arguments. `slots` are two slots for the callable, then the arguments. With `NULL_LAST`, a second slot that
/// is not NULL is the first argument. Otherwise, the first slot is the callable unless it is NULL.
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
    if !frame.is_entering() {
        frame.check_interrupts()?;
    }
    Ok(Flow::Next)
}

pub(crate) fn call<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let keywords = frame.keywords.take();
    call_with::<false>(frame, instruction.arg as usize, keywords.as_ref())
}

/// In 3.13, the slot for the object is above the callable.
pub(crate) fn call_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    call_with::<true>(frame, instruction.arg as usize, None)
}

/// In 3.13, the names of the keyword arguments are on top.
pub(crate) fn call_kw<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let count = instruction.arg as usize + 3;
    let slots = frame.top(count);
    let keywords = slots[count - 1].get().cast::<PyTuple>().map_err(PyErr::from)?.clone();
    let (callable, args) = parts::<true>(&slots[..count - 1]);
    let result = frame.policy().call(callable, args, Some(&keywords))?;
    frame.replace_top(count, result);
    frame.check_interrupts()?;
    Ok(Flow::Next)
}

/// From 3.14 on, there is always a slot for the keywords above the positional arguments; it is NULL if there are none.
pub(crate) fn call_ex_with_place<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [callable, _, args, kwargs] = frame.top(4) else { unreachable!("four were asked for") };
    let kwargs = if kwargs.is_null() { None } else { Some(frame.policy().spread_keywords(callable, kwargs)?) };
    let args = frame.policy().spread(callable, args)?;
    let result = frame.policy().call_ex(callable, &args, kwargs.as_ref())?;
    drop((args, kwargs));
    frame.replace_top(4, result);
    frame.check_interrupts()?;
    Ok(Flow::Next)
}

/// `callable(*args, **kwargs)`; a NULL is below or above the callable.
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
