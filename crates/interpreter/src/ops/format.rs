//! Format strings.

use dynamlir_bytecode::Instruction;
use pyo3::{prelude::*, types::PyString};

use super::{Done, Flow};
use crate::{Activation, Conversion, Outcome, Value};

/// Returns the conversion with number `FVC_STR` and so on; 0 means no conversion.
fn conversion(number: u32) -> Option<Conversion> {
    [None, Some(Conversion::Str), Some(Conversion::Repr), Some(Conversion::Ascii)][(number & 3) as usize]
}

/// Formats a value. A string without a specification needs no formatting.
fn formatted<'py>(frame: &Activation<'py>, value: Value<'py>, spec: Option<&Value<'py>>) -> Outcome<Value<'py>> {
    if spec.is_none() && value.get().is_exact_instance_of::<PyString>() { Ok(value) } else { frame.policy().format(&value, spec) }
}

/// Bits 0 and 1 of the argument are the conversion; bit 2 says that a specification is present.
pub(crate) fn value<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let spec = (instruction.arg & 4 != 0).then(|| frame.pop());
    let mut value = frame.pop();
    if let Some(conversion) = conversion(instruction.arg) {
        value = frame.policy().convert(&value, conversion)?;
    }
    let result = formatted(frame, value, spec.as_ref())?;
    frame.push(result);
    Ok(Flow::Next)
}

pub(crate) fn convert<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    if let Some(conversion) = conversion(instruction.arg) {
        let value = frame.policy().convert(frame.peek(0), conversion)?;
        frame.replace_top(1, value);
    }
    Ok(Flow::Next)
}

pub(crate) fn simple<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.pop();
    let result = formatted(frame, value, None)?;
    frame.push(result);
    Ok(Flow::Next)
}

pub(crate) fn with_spec<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [value, spec] = frame.top(2) else { unreachable!("two were asked for") };
    let result = frame.policy().format(value, Some(spec))?;
    frame.replace_top(2, result);
    Ok(Flow::Next)
}

pub(crate) fn build_string<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let count = instruction.arg as usize;
    let result = frame.policy().build_string(frame.py(), frame.top(count))?;
    frame.replace_top(count, result);
    Ok(Flow::Next)
}
