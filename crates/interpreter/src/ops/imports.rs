//! Imports.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::{Activation, concrete};

pub(crate) fn name<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let [level, fromlist] = frame.top(2) else { unreachable!("two were asked for") };
    let module = frame.policy().import_name(frame, &name, fromlist, level)?;
    frame.replace_top(2, module);
    Ok(Flow::Next)
}

/// In 3.15, the lowest two bits say that an import is lazy or eager. With neither, which only modules have, the process decides.
pub(crate) fn name_with_flags<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    const LAZY: u32 = 1;
    const EAGER: u32 = 2;
    let name = frame.name(instruction.arg >> 2);
    let [level, fromlist] = frame.top(2) else { unreachable!("two were asked for") };
    let module = if instruction.arg & EAGER == 0 {
        frame.policy().import_lazily(frame, &name, fromlist, level, instruction.arg & LAZY != 0)?
    } else {
        frame.policy().import_name(frame, &name, fromlist, level)?
    };
    frame.replace_top(2, module);
    Ok(Flow::Next)
}

pub(crate) fn from<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let value = frame.policy().import_from(frame.peek(0), &name)?;
    frame.push(value);
    Ok(Flow::Next)
}

/// In 3.15, the module that is imported from may not be loaded yet.
pub(crate) fn from_placeholder<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    match concrete::import_from_placeholder(frame, frame.peek(0).get(), &name)? {
        Some(placeholder) => {
            frame.push(placeholder);
            Ok(Flow::Next)
        }
        None => from(frame, instruction),
    }
}

pub(crate) fn star<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let module = frame.pop();
    frame.policy().import_star(frame, &module)?;
    Ok(Flow::Next)
}
