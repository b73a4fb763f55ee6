//! Imports.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::Activation;

pub(crate) fn name<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let [level, fromlist] = frame.top(2) else { unreachable!("two were asked for") };
    let module = frame.policy().import_name(frame, &name, fromlist, level)?;
    frame.replace_top(2, module);
    Ok(Flow::Next)
}

pub(crate) fn from<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let value = frame.policy().import_from(frame.peek(0), &name)?;
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn star<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let module = frame.pop();
    frame.policy().import_star(frame, &module)?;
    Ok(Flow::Next)
}
