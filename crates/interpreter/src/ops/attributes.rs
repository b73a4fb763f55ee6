//! Attributes and methods.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::{Activation, Value};

pub(crate) fn load_attr<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let value = frame.policy().load_attr(frame.peek(0), &name)?;
    frame.replace_top(1, value);
    Ok(Flow::Next)
}

/// Pushes a method and its object, or NULL and the attribute's value.
pub(crate) fn load_method<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let method = frame.policy().load_method(frame.peek(0), &name)?;
    frame.drop_top(1);
    if let Some(this) = method.this {
        frame.push(method.callable);
        frame.push(this);
    } else {
        frame.push(Value::NULL);
        frame.push(method.callable);
    }
    Ok(Flow::Next)
}

/// Pushes a method and its object, or the attribute's value and NULL.
fn load_method_null_last<'py>(frame: &mut Activation<'py>, index: u32) -> Done<'py> {
    let name = frame.name(index);
    let method = frame.policy().load_method(frame.peek(0), &name)?;
    frame.drop_top(1);
    frame.push(method.callable);
    frame.push(method.this.unwrap_or(Value::NULL));
    Ok(Flow::Next)
}

/// Returns the instruction with the flag bits removed from its argument.
fn shifted(instruction: &Instruction, bits: u32) -> Instruction {
    Instruction { arg: instruction.arg >> bits, ..*instruction }
}

/// Bit 0 of the argument says that the attribute is a method to be called.
pub(crate) fn load_attr_or_method<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    if instruction.arg & 1 == 1 { load_method(frame, &shifted(instruction, 1)) } else { load_attr(frame, &shifted(instruction, 1)) }
}

/// The same, with the NULL above.
pub(crate) fn load_attr_or_method_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    if instruction.arg & 1 == 1 { load_method_null_last(frame, instruction.arg >> 1) } else { load_attr(frame, &shifted(instruction, 1)) }
}

/// `super().name`: the callable, the class and the object are on the stack. Bit 1 says to pass the latter two.
fn super_attr<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> crate::Outcome<Value<'py>> {
    let name = frame.name(instruction.arg >> 2);
    let [callable, class, this] = frame.top(3) else { unreachable!("three were asked for") };
    let args = (instruction.arg & 2 == 2).then_some([class, this]);
    let value = frame.policy().load_super_attr(callable, args, &name)?;
    frame.drop_top(3);
    Ok(value)
}

pub(crate) fn load_super_attr<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let value = super_attr(frame, instruction)?;
    if instruction.arg & 1 == 1 {
        frame.push(Value::NULL);
    }
    frame.push(value);
    Ok(Flow::Next)
}

pub(crate) fn load_super_attr_null_last<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let value = super_attr(frame, instruction)?;
    frame.push(value);
    if instruction.arg & 1 == 1 {
        frame.push(Value::NULL);
    }
    Ok(Flow::Next)
}

/// The object is on top, the value below it.
pub(crate) fn store_attr<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    let [value, owner] = frame.top(2) else { unreachable!("two were asked for") };
    frame.policy().store_attr(owner, &name, value)?;
    frame.drop_top(2);
    Ok(Flow::Next)
}

pub(crate) fn delete_attr<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let name = frame.name(instruction.arg);
    frame.policy().delete_attr(frame.peek(0), &name)?;
    frame.drop_top(1);
    Ok(Flow::Next)
}
