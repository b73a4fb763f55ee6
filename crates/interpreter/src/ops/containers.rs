//! Building tuples, lists, sets, dicts.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::{Activation, Outcome, Policy, Value};

/// Replaces the topmost values with the object built from them.
fn build<'py>(
    frame: &mut Activation<'py>,
    count: usize,
    built: impl FnOnce(&dyn Policy, &[Value<'py>]) -> Outcome<Value<'py>>,
) -> Done<'py> {
    let value = built(frame.policy(), frame.top(count))?;
    frame.replace_top(count, value);
    Ok(Flow::Next)
}

pub(crate) fn tuple<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let py = frame.py();
    build(frame, instruction.arg as usize, |policy, items| policy.build_tuple(py, items))
}

pub(crate) fn list<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let py = frame.py();
    build(frame, instruction.arg as usize, |policy, items| policy.build_list(py, items))
}

pub(crate) fn set<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let py = frame.py();
    build(frame, instruction.arg as usize, |policy, items| policy.build_set(py, items))
}

pub(crate) fn map<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let py = frame.py();
    build(frame, 2 * instruction.arg as usize, |policy, items| policy.build_map(py, items))
}

/// The tuple of keys is on top, the values below it.
pub(crate) fn const_key_map<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    build(frame, instruction.arg as usize + 1, |policy, slots| {
        let (keys, values) = slots.split_last().expect("there are keys");
        policy.build_const_key_map(keys, values)
    })
}

/// Pops the top and puts it into the container `depth` below the new top, counted from 1.
fn put<'py>(
    frame: &mut Activation<'py>,
    depth: usize,
    put: impl FnOnce(&dyn Policy, &Value<'py>, &Value<'py>) -> Outcome<()>,
) -> Done<'py> {
    put(frame.policy(), frame.peek(depth), frame.peek(0))?;
    frame.drop_top(1);
    Ok(Flow::Next)
}

pub(crate) fn list_append<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    put(frame, instruction.arg as usize, |policy, list, item| policy.list_append(list, item))
}

pub(crate) fn list_extend<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    put(frame, instruction.arg as usize, |policy, list, iterable| policy.list_extend(list, iterable))
}

pub(crate) fn set_add<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    put(frame, instruction.arg as usize, |policy, set, item| policy.set_add(set, item))
}

pub(crate) fn set_update<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    put(frame, instruction.arg as usize, |policy, set, iterable| policy.set_update(set, iterable))
}

pub(crate) fn dict_update<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    put(frame, instruction.arg as usize, |policy, dict, mapping| policy.dict_update(dict, mapping))
}

pub(crate) fn map_add<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let map = frame.peek(instruction.arg as usize + 1);
    frame.policy().map_add(map, frame.peek(1), frame.peek(0))?;
    frame.drop_top(2);
    Ok(Flow::Next)
}

/// `f(**mapping)`: the callable is `below` the dict, for the error message.
fn merge<'py>(frame: &mut Activation<'py>, instruction: &Instruction, below: usize) -> Done<'py> {
    let depth = instruction.arg as usize;
    frame.policy().dict_merge(frame.peek(depth + below), frame.peek(depth), frame.peek(0))?;
    frame.drop_top(1);
    Ok(Flow::Next)
}

pub(crate) fn dict_merge<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    merge(frame, instruction, 2)
}

/// In 3.13, there is a NULL between the callable and the positional arguments.
pub(crate) fn dict_merge_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    merge(frame, instruction, 3)
}

pub(crate) fn list_to_tuple<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    build(frame, 1, |policy, slots| policy.list_to_tuple(&slots[0]))
}
