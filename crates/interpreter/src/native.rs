//! Single instructions that CPython runs for us, in a small function whose body is that instruction.
//!
//! This is for instructions whose implementation CPython does not export, that run no Python code worth intercepting, and that a policy
//! does not need: type parameters, the end of `except*`, template strings.

use std::{collections::HashMap, sync::Mutex, sync::PoisonError};

use dynamlir_bytecode::{Instruction, Opcode, Version, number_of};
use pyo3::{
    exceptions::PySystemError,
    prelude::*,
    types::{PyBytes, PyDict, PyTraceback, PyTuple},
};

use crate::{Value, evaluator::suspended};

/// The functions created so far, by opcode number and argument.
type Functions = HashMap<(u8, u32), Py<PyAny>>;

static FUNCTIONS: Mutex<Option<Functions>> = Mutex::new(None);

/// Runs an instruction that takes up to three operands and leaves one result.
pub(crate) fn run<'py>(
    py: Python<'py>,
    version: Version,
    instruction: &Instruction,
    operands: &[Value<'py>],
) -> PyResult<Bound<'py, PyAny>> {
    let function = function(py, version, instruction, operands.len())?;
    suspended(|| function.call1(PyTuple::new(py, operands.iter().map(Value::get))?)).inspect_err(|error| {
        // Hides the function from the traceback: it is an implementation detail.
        let rest = error.traceback(py).and_then(|entry| entry.getattr("tb_next").ok());
        error.set_traceback(py, rest.and_then(|rest| rest.cast_into::<PyTraceback>().ok()));
    })
}

fn function<'py>(py: Python<'py>, version: Version, instruction: &Instruction, operands: usize) -> PyResult<Bound<'py, PyAny>> {
    let unknown = || PySystemError::new_err(format!("no {} in this version", instruction.opcode));
    let number = number_of(version, instruction.opcode).ok_or_else(unknown)?;
    let key = (number, instruction.arg);
    let known = FUNCTIONS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .and_then(|known| known.get(&key).map(|known| known.clone_ref(py)));
    if let Some(known) = known {
        return Ok(known.into_bound(py));
    }
    // The instruction that is replaced takes as many operands, and has no inline cache either.
    let (template, place) = match operands {
        0 => (c"lambda: ()", Opcode::LoadConst),
        1 => (c"lambda a: (a,)", Opcode::BuildTuple),
        2 => (c"lambda a, b: (a, b)", Opcode::BuildTuple),
        _ => (c"lambda a, b, c: (a, b, c)", Opcode::BuildTuple),
    };
    let template = py.eval(template, None, None)?;
    let code = template.getattr("__code__")?;
    let mut bytes = code.getattr("co_code")?.cast_into::<PyBytes>()?.as_bytes().to_vec();
    let place = number_of(version, place).ok_or_else(unknown)?;
    let unit = bytes.chunks_exact_mut(2).find(|unit| unit[0] == place).ok_or_else(unknown)?;
    unit.copy_from_slice(&[number, u8::try_from(instruction.arg).map_err(|_| unknown())?]);
    let changes = PyDict::new(py);
    changes.set_item("co_code", PyBytes::new(py, &bytes))?;
    template.setattr("__code__", code.call_method("replace", (), Some(&changes))?)?;
    FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(key, template.clone().unbind());
    Ok(template)
}
