//! `with`: entering and leaving context managers.

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::{exception, types};
use pyo3::{
    exceptions::{PyBaseException, PyTypeError},
    prelude::*,
    types::PyString,
};

use super::{Done, Flow};
use crate::{Activation, Value, names::interned};

/// Looks both methods up before one is called, and leaves the second on the stack.
fn enter<'py>(frame: &mut Activation<'py>, enter: &Bound<'py, PyString>, exit: &Bound<'py, PyString>, kind: &str) -> Done<'py> {
    let manager = frame.peek(0);
    let missing = |detail: String| {
        let class = types::name(manager.get());
        PyTypeError::new_err(format!("'{class}' object does not support the {kind} protocol{detail}"))
    };
    let enter = frame.policy().load_special(manager, enter)?.ok_or_else(|| missing(String::new()))?;
    let found = frame.policy().load_special(manager, exit)?;
    let exit = found.ok_or_else(|| missing(format!(" (missed {exit} method)")))?;
    frame.replace_top(1, exit);
    let result = frame.policy().call(&enter, &[], None)?;
    drop(enter);
    frame.push(result);
    Ok(Flow::Next)
}

pub(crate) fn before<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let names = interned(frame.py());
    enter(frame, names.enter.bind(frame.py()), names.exit.bind(frame.py()), "context manager")
}

pub(crate) fn before_async<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let names = interned(frame.py());
    enter(frame, names.aenter.bind(frame.py()), names.aexit.bind(frame.py()), "asynchronous context manager")
}

/// Calls the exit method, the fourth from the top, with the exception on top.
pub(crate) fn except_start<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let value = frame.peek(0);
    let raised = value.get().cast::<PyBaseException>().map_err(PyErr::from)?;
    let traceback = exception::traceback(raised).unwrap_or_else(|| frame.py().None().into_bound(frame.py()));
    let args = [raised.get_type().into_any().into(), Value::new(value.get().clone()), traceback.into()];
    let result = frame.policy().call(frame.peek(3), &args, None)?;
    frame.push(result);
    Ok(Flow::Next)
}
