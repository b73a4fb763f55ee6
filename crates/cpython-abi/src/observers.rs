//! Observers of a thread's execution: trace and profile functions, tools of `sys.monitoring`. They must see what the program does, not what
//! a capture does in its place; and their own code is not part of the program.

use pyo3::{intern, prelude::*};

use crate::{Thread, exception, function::code};

/// The number of tool ids available to tools; CPython's own two serve its trace and profile functions.
const TOOLS: u8 = 6;

/// Returns the observer that would see a function run now, or the reason why only CPython may run it; `None` if a capture would be
/// invisible.
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

/// Returns true if a tool of `sys.monitoring` (from CPython 3.12 on) has events set for all code, or for this function's code.
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
