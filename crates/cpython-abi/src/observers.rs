//! Who sees what a thread runs: trace and profile functions, tools of `sys.monitoring`. They are shown what the program does, not what
//! a capture does in its place; and their own code is not part of the program.

use pyo3::{intern, prelude::*};

use crate::{Thread, exception, function::code};

/// How many tools there may be; the two that CPython has besides are its trace and profile functions.
const TOOLS: u8 = 6;

/// Who would see a function run now, or why nobody but CPython may run it; `None` where a capture shows itself to nobody.
pub fn observer(thread: Thread<'_>, function: &Bound<'_, PyAny>) -> Option<&'static str> {
    if thread.is_in_tool() {
        return Some("called by a trace function or an audit hook");
    }
    if thread.is_watched() {
        return Some("traced or profiled");
    }
    let monitored = exception::answer(thread.py(), is_monitored(function)).unwrap_or(true);
    monitored.then_some("a tool of sys.monitoring has events set")
}

/// Whether a tool of `sys.monitoring`, which CPython has from 3.12 on, has events set: for all code, or for this function's.
fn is_monitored(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = function.py();
    let Some(monitoring) = crate::import(py, "sys")?.getattr_opt(intern!(py, "monitoring"))? else { return Ok(false) };
    let code = code(function);
    for tool in 0..TOOLS {
        if monitoring.call_method1(intern!(py, "get_tool"), (tool,))?.is_none() {
            continue;
        }
        if monitoring.call_method1(intern!(py, "get_events"), (tool,))?.is_truthy()? {
            return Ok(true);
        }
        if let Some(code) = &code
            && monitoring.call_method1(intern!(py, "get_local_events"), (tool, code))?.is_truthy()?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
