//! Locals and closure cells: the slots of the frame.

use dynamlir_bytecode::Instruction;
use pyo3::types::{PyTuple, PyTupleMethods};

use super::{Done, Flow};
use crate::{Activation, Outcome, Value, concrete};
use pyo3::prelude::*;

fn load(frame: &mut Activation<'_>, slot: usize) -> Outcome<()> {
    let value = frame.local(slot);
    if value.is_null() {
        return Err(frame.unbound(slot));
    }
    frame.push(value);
    Ok(())
}

fn store(frame: &mut Activation<'_>, slot: usize) -> Outcome<()> {
    frame.policy().lets_go(frame, slot)?;
    let value = frame.pop();
    frame.policy().store_local(frame, slot, &value);
    drop(frame.set_local(slot, value));
    Ok(())
}

/// Returns the two slots of a paired instruction of 3.13.
fn pair(instruction: &Instruction) -> (usize, usize) {
    (instruction.arg as usize >> 4, instruction.arg as usize & 15)
}

pub(crate) fn load_fast<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    load(frame, instruction.arg as usize)?;
    Ok(Flow::Next)
}

pub(crate) fn load_fast_and_clear<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let slot = instruction.arg as usize;
    let value = frame.local(slot);
    drop(frame.set_local(slot, Value::NULL));
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn store_fast<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    store(frame, instruction.arg as usize)?;
    Ok(Flow::Next)
}

pub(crate) fn delete_fast<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let slot = instruction.arg as usize;
    frame.policy().lets_go(frame, slot)?;
    match frame.set_local(slot, Value::NULL) {
        Some(former) => drop(former),
        None => return Err(frame.unbound(slot)),
    }
    Ok(Flow::Next)
}

pub(crate) fn load_fast_load_fast<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let (first, second) = pair(instruction);
    load(frame, first)?;
    load(frame, second)?;
    Ok(Flow::Next)
}

pub(crate) fn store_fast_load_fast<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let (first, second) = pair(instruction);
    store(frame, first)?;
    load(frame, second)?;
    Ok(Flow::Next)
}

pub(crate) fn store_fast_store_fast<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let (first, second) = pair(instruction);
    store(frame, first)?;
    store(frame, second)?;
    Ok(Flow::Next)
}

/// Moves a local into a new cell.
pub(crate) fn make_cell<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let slot = instruction.arg as usize;
    let content = frame.local(slot);
    crate::escape_each(frame.policy(), [&content])?;
    let cell = concrete::cell_new(frame.py(), content.object.as_ref())?;
    drop(frame.set_local(slot, cell.into()));
    Ok(Flow::Next)
}

/// Copies the cells of the function's closure into the frame.
pub(crate) fn copy_free_vars<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let count = instruction.arg as usize;
    let first = frame.locals_count() - count;
    let closure =
        frame.function().and_then(|function| function.getattr("__closure__").ok()).and_then(|closure| closure.cast_into::<PyTuple>().ok());
    let Some(closure) = closure.filter(|closure| closure.len() == count) else {
        return Err(pyo3::exceptions::PySystemError::new_err("a frame without its closure").into());
    };
    for (index, cell) in closure.iter().enumerate() {
        drop(frame.set_local(first + index, cell.into()));
    }
    Ok(Flow::Next)
}

/// Returns the cell in a slot.
fn cell<'py>(frame: &Activation<'py>, slot: usize) -> Outcome<Bound<'py, PyAny>> {
    frame.local(slot).object.ok_or_else(|| frame.unbound(slot))
}

pub(crate) fn load_deref<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let slot = instruction.arg as usize;
    let cell = cell(frame, slot)?;
    let value = frame.policy().load_deref(frame, slot, &cell)?.ok_or_else(|| frame.unbound(slot))?;
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn store_deref<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let slot = instruction.arg as usize;
    let value = frame.pop();
    let cell = cell(frame, slot)?;
    frame.policy().store_deref(frame, slot, &cell, Some(&value))?;
    Ok(Flow::Next)
}

pub(crate) fn delete_deref<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let slot = instruction.arg as usize;
    let cell = cell(frame, slot)?;
    if frame.policy().load_deref(frame, slot, &cell)?.is_none() {
        return Err(frame.unbound(slot));
    }
    frame.policy().store_deref(frame, slot, &cell, None)?;
    Ok(Flow::Next)
}

/// Loads a name of a class body that may also be a variable of the enclosing function: it is looked up in a mapping first.
fn load_from_mapping_or_deref<'py>(frame: &Activation<'py>, mapping: &Bound<'py, PyAny>, slot: usize) -> Outcome<Value<'py>> {
    let name = frame.prepared().local_name(frame.py(), slot).expect("cells have names").clone();
    if let Some(found) = concrete::lookup(mapping, &name)? {
        return Ok(found.into());
    }
    let cell = cell(frame, slot)?;
    frame.policy().load_deref(frame, slot, &cell)?.ok_or_else(|| frame.unbound(slot))
}

/// In 3.11, the mapping is the namespace.
pub(crate) fn load_classderef<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let namespace = concrete::namespace(frame, "no locals")?;
    let value = load_from_mapping_or_deref(frame, &namespace, instruction.arg as usize)?;
    frame.push(value);
    Ok(Flow::Next)
}

/// From 3.12 on, the mapping is on the stack.
pub(crate) fn load_from_dict_or_deref<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let mapping = frame.pop();
    let value = load_from_mapping_or_deref(frame, mapping.get(), instruction.arg as usize)?;
    frame.push(value);
    Ok(Flow::Next)
}
