//! Structural pattern matching.

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::types;
use pyo3::prelude::*;

use super::{Done, Flow, arithmetic::bool_value};
use crate::Activation;

pub(crate) fn length<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let length = frame.policy().length(frame.peek(0))?;
    frame.push(length);
    Ok(Flow::Next)
}

fn has_flag<'py>(frame: &mut Activation<'py>, flag: std::ffi::c_ulong) -> Done<'py> {
    frame.policy().match_kind(frame.peek(0))?;
    let class = frame.peek(0).get().get_type();
    let result = bool_value(frame.py(), types::flags(&class) & flag != 0);
    frame.push(result);
    Ok(Flow::Next)
}

pub(crate) fn mapping<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    has_flag(frame, types::MAPPING)
}

pub(crate) fn sequence<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    has_flag(frame, types::SEQUENCE)
}

pub(crate) fn keys<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let [subject, keys] = frame.top(2) else { unreachable!("two were asked for") };
    let values = frame.policy().match_keys(subject, keys)?;
    frame.push(values);
    Ok(Flow::Next)
}

/// The names of keyword patterns are on top, then the class, then the subject.
pub(crate) fn class<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let [subject, class, names] = frame.top(3) else { unreachable!("three were asked for") };
    let attributes = frame.policy().match_class(subject, class, instruction.arg as usize, names)?;
    frame.replace_top(3, attributes);
    Ok(Flow::Next)
}
