//! Items and slices.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::Activation;

pub(crate) fn get<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [container, key] = frame.top(2) else { unreachable!("two were asked for") };
    let value = frame.policy().get_item(container, key)?;
    frame.replace_top(2, value);
    Ok(Flow::Next)
}

pub(crate) fn set<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [value, container, key] = frame.top(3) else { unreachable!("three were asked for") };
    frame.policy().set_item(container, key, value)?;
    frame.drop_top(3);
    Ok(Flow::Next)
}

pub(crate) fn delete<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [container, key] = frame.top(2) else { unreachable!("two were asked for") };
    frame.policy().delete_item(container, key)?;
    frame.drop_top(2);
    Ok(Flow::Next)
}

pub(crate) fn build_slice<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let count = instruction.arg as usize;
    let [start, stop, step @ ..] = frame.top(count) else { unreachable!("slices have two or three parts") };
    let slice = frame.policy().build_slice(start, stop, step.first())?;
    frame.replace_top(count, slice);
    Ok(Flow::Next)
}

/// `container[start:stop]`
pub(crate) fn get_slice<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [container, start, stop] = frame.top(3) else { unreachable!("three were asked for") };
    let slice = frame.policy().build_slice(start, stop, None)?;
    let value = frame.policy().get_item(container, &slice)?;
    frame.replace_top(3, value);
    Ok(Flow::Next)
}

/// `container[start:stop] = value`
pub(crate) fn set_slice<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [value, container, start, stop] = frame.top(4) else { unreachable!("four were asked for") };
    let slice = frame.policy().build_slice(start, stop, None)?;
    frame.policy().set_item(container, &slice, value)?;
    frame.drop_top(4);
    Ok(Flow::Next)
}
