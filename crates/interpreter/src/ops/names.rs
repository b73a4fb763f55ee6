//! Globals, builtins, and the names of modules and class bodies.

use dynamlir_bytecode::Instruction;
use pyo3::exceptions::PyAssertionError;

use super::{Done, Flow};
use crate::{Activation, Value, concrete};

pub(crate) fn load_name<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let value = frame.policy().load_name(frame, &name)?;
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn store_name<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let value = frame.pop();
    frame.policy().store_name(frame, &name, &value)?;
    Ok(Flow::Next)
}

pub(crate) fn delete_name<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    frame.policy().delete_name(frame, &name)?;
    Ok(Flow::Next)
}

/// Bit 0 of the argument requests a NULL below the value, for a call that follows.
pub(crate) fn load_global<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg >> 1);
    let value = frame.policy().load_global(frame, &name)?;
    if instruction.arg & 1 == 1 {
        frame.push(Value::NULL);
    }
    frame.push(value);
    Ok(Flow::Next)
}

/// The same, with the NULL above the value.
pub(crate) fn load_global_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg >> 1);
    let value = frame.policy().load_global(frame, &name)?;
    frame.push(value);
    if instruction.arg & 1 == 1 {
        frame.push(Value::NULL);
    }
    Ok(Flow::Next)
}

pub(crate) fn store_global<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let value = frame.pop();
    frame.policy().store_global(frame, &name, &value)?;
    Ok(Flow::Next)
}

pub(crate) fn delete_global<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    frame.policy().delete_global(frame, &name)?;
    Ok(Flow::Next)
}

/// Pushes the namespace itself.
pub(crate) fn load_locals<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let namespace = concrete::namespace(frame, "no locals found")?;
    frame.push(namespace);
    Ok(Flow::Next)
}

/// Loads a name from the mapping on the stack, or else a global or builtin.
pub(crate) fn load_from_dict_or_globals<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let mapping = frame.pop();
    let value = match concrete::loaded(mapping.get(), &name)? {
        Some(found) => found.into(),
        None => frame.policy().load_global(frame, &name)?,
    };
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn load_build_class<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = concrete::load_build_class(frame)?;
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn load_assertion_error<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let class = frame.py().get_type::<PyAssertionError>();
    frame.push(class.into_any());
    Ok(Flow::Next)
}

pub(crate) fn setup_annotations<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    concrete::setup_annotations(frame)?;
    Ok(Flow::Next)
}
