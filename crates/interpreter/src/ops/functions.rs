//! Creation of functions.

use dynamlir_bytecode::Instruction;

use super::{Done, Flow};
use crate::{Activation, FunctionParts, policy::part};

/// The code object is on top. Below it are the parts that the argument lists, the last of them topmost.
pub(crate) fn make_function_with_parts<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let code = frame.pop();
    let has = |flag: u32| instruction.arg & flag != 0;
    let closure = has(part::CLOSURE).then(|| frame.pop());
    let annotations = has(part::ANNOTATIONS).then(|| frame.pop());
    let keyword_defaults = has(part::KEYWORD_DEFAULTS).then(|| frame.pop());
    let defaults = has(part::DEFAULTS).then(|| frame.pop());
    let function =
        frame.policy().make_function(frame, &code, FunctionParts { defaults, keyword_defaults, annotations, closure, annotate: None })?;
    frame.push(function);
    Ok(Flow::Next)
}

/// In 3.13, the parts follow with [`set_attribute`].
pub(crate) fn make_function<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let function = frame.policy().make_function(frame, frame.peek(0), FunctionParts::default())?;
    frame.replace_top(1, function);
    Ok(Flow::Next)
}

/// The function is on top, the part below it.
pub(crate) fn set_attribute<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let function = frame.pop();
    let value = frame.pop();
    let value = Some(value);
    let parts = match instruction.arg {
        part::DEFAULTS => FunctionParts { defaults: value, ..FunctionParts::default() },
        part::KEYWORD_DEFAULTS => FunctionParts { keyword_defaults: value, ..FunctionParts::default() },
        part::ANNOTATIONS => FunctionParts { annotations: value, ..FunctionParts::default() },
        part::CLOSURE => FunctionParts { closure: value, ..FunctionParts::default() },
        part::ANNOTATE => FunctionParts { annotate: value, ..FunctionParts::default() },
        _ => return Err(pyo3::exceptions::PySystemError::new_err("bad SET_FUNCTION_ATTRIBUTE").into()),
    };
    frame.policy().set_function_part(&function, parts)?;
    frame.push(function);
    Ok(Flow::Next)
}
