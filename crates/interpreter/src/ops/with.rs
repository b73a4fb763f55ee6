//! `with`: entering and leaving context managers.

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::{exception, types};
use pyo3::{
    exceptions::{PyBaseException, PySystemError, PyTypeError},
    prelude::*,
    types::PyString,
};

use super::{Done, Flow};
use crate::{Activation, Value, concrete, names::interned};

/// Looks up both methods before calling one, and leaves the second on the stack.
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

/// From 3.14 on, each method is looked up separately. It is bound here, so the slot of its object, which is above it, is NULL.
pub(crate) fn load_special<'py>(frame: &mut Activation<'py>, instruction: &Instruction) -> Done<'py> {
    let names = interned(frame.py());
    let py = frame.py();
    let [enter, exit, aenter, aexit] = [&names.enter, &names.exit, &names.aenter, &names.aexit].map(|name| name.bind(py));
    let (name, others, kind, other, statement) = match instruction.arg {
        0 => (enter, [aenter, aexit], "context manager", "asynchronous context manager", "async with"),
        1 => (exit, [aenter, aexit], "context manager", "asynchronous context manager", "async with"),
        2 => (aenter, [enter, exit], "asynchronous context manager", "context manager", "with"),
        3 => (aexit, [enter, exit], "asynchronous context manager", "context manager", "with"),
        _ => return Err(PySystemError::new_err("bad LOAD_SPECIAL").into()),
    };
    let manager = frame.peek(0);
    let Some(method) = frame.policy().load_special(manager, name)? else {
        let class = manager.get().get_type();
        let abi = concrete::abi(py);
        let helps = others.iter().all(|other| types::lookup(abi, &class, other.as_any()).is_some());
        let hint = if helps { format!(" but it supports the {other} protocol. Did you mean to use '{statement}'?") } else { String::new() };
        let class = class.fully_qualified_name()?;
        let message = format!("'{class}' object does not support the {kind} protocol (missed {name} method){hint}");
        return Err(PyTypeError::new_err(message).into());
    };
    frame.replace_top(1, method);
    frame.push(Value::NULL);
    Ok(Flow::Next)
}

/// Calls the exit method, the fourth from the top, with the exception on top.
pub(crate) fn except_start<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    leave(frame, &frame.peek(3).clone(), None)
}

/// From 3.14 on, it is the fifth, and the object that it is bound to is above it.
pub(crate) fn except_start_with_object<'py>(frame: &mut Activation<'py>, _: &Instruction) -> Done<'py> {
    let object = frame.peek(3).clone();
    leave(frame, &frame.peek(4).clone(), (!object.is_null()).then_some(object))
}

fn leave<'py>(frame: &mut Activation<'py>, exit: &Value<'py>, object: Option<Value<'py>>) -> Done<'py> {
    let value = frame.peek(0);
    let raised = value.get().cast::<PyBaseException>().map_err(PyErr::from)?;
    let traceback = exception::traceback(raised).unwrap_or_else(|| frame.py().None().into_bound(frame.py()));
    let what = [raised.get_type().into_any().into(), Value::new(value.get().clone()), traceback.into()];
    let args: Vec<Value<'py>> = object.into_iter().chain(what).collect();
    let result = frame.policy().call(exit, &args, None)?;
    frame.push(result);
    Ok(Flow::Next)
}
