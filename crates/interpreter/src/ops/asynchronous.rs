//! `await`, `async for`.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::{Activation, concrete};

/// The argument says where the awaitable came from, for the error message: 1 is `__aenter__`, 2 is `__aexit__`.
pub(crate) fn get_awaitable<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let iterator = concrete::awaitable(frame.peek(0).get(), instruction.arg)?;
    frame.replace_top(1, iterator);
    Ok(Flow::Next)
}

pub(crate) fn get_aiter<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let iterator = concrete::aiter(frame.peek(0).get())?;
    frame.replace_top(1, iterator);
    Ok(Flow::Next)
}

pub(crate) fn get_anext<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let awaitable = concrete::anext(frame.peek(0).get())?;
    frame.push(awaitable);
    Ok(Flow::Next)
}
