//! Locations: the lines of the user's Python code. Code objects only have units.

use std::{cell::RefCell, rc::Rc};

use dynamlir_graph::Line;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::{floors::Record, objects::callback_wrapper::is_wrapper};

/// The number of innermost frames in a location: all of them would take quadratic time and memory in recursive functions.
const DEEPEST_LOCATION: usize = 64;

/// The lines of code objects. A rollback keeps them, because a capture does not change code objects.
#[derive(Default)]
pub struct Locations {
    /// First units and lines of code objects, by address, kept alive.
    lines: RefCell<LinesByCode>,
}

/// By the address of a code object, which is kept alive.
type LinesByCode = FxHashMap<usize, (Py<PyAny>, Rc<Lines>)>;

/// The file, the function name, and the lines of a code object's units.
struct Lines {
    file: String,
    function: String,
    ranges: Vec<(u32, u32)>,
}

impl<'py> Record<'py> {
    /// Returns the Python lines being run, innermost first.
    pub fn location(&self) -> Vec<Line> {
        let mut found = Vec::new();
        let mut place = dynamlir_interpreter::here();
        while let Some(at) = place.filter(|_| found.len() < DEEPEST_LOCATION) {
            let lines = self.lines_of(at.code(self.py));
            let before = lines.ranges.partition_point(|(unit, _)| *unit <= at.unit());
            let line = before.checked_sub(1).map_or(0, |index| lines.ranges[index].1);
            found.push((lines.file.clone(), line, lines.function.clone()));
            place = at.outer().cloned();
        }
        found
    }

    fn lines_of(&self, code: &Bound<'py, PyAny>) -> Rc<Lines> {
        if let Some((_, known)) = self.locations.lines.borrow().get(&(code.as_ptr() as usize)) {
            return known.clone();
        }
        let text = |name: &str| code.getattr(name).and_then(|value| value.extract()).unwrap_or_default();
        let ranges = code.call_method0("co_lines").and_then(|lines| {
            let mut ranges = Vec::new();
            for entry in lines.try_iter()? {
                let (start, _, line): (u32, u32, Option<u32>) = entry?.extract()?;
                if let Some(line) = line {
                    ranges.push((start / 2, line));
                }
            }
            Ok(ranges)
        });
        let made = Rc::new(Lines { file: text("co_filename"), function: text("co_name"), ranges: ranges.unwrap_or_default() });
        self.locations.lines.borrow_mut().insert(code.as_ptr() as usize, (code.clone().unbind(), made.clone()));
        made
    }
}

/// Returns the line where a function is defined.
pub(crate) fn defined_at(function: &Bound<'_, PyAny>) -> PyResult<Vec<Line>> {
    let code = function.getattr("__code__")?;
    let text = |name: &str| code.getattr(name)?.extract::<String>();
    Ok(vec![(text("co_filename")?, code.getattr("co_firstlineno")?.extract()?, text("co_name")?)])
}

/// Returns the lines of an exception's traceback, innermost first.
pub(crate) fn raised_at(py: Python<'_>, error: &PyErr) -> PyResult<Vec<Line>> {
    let mut lines = Vec::new();
    let mut entry = error.traceback(py).map(Bound::into_any);
    while let Some(traceback) = entry {
        let code = traceback.getattr("tb_frame")?.getattr("f_code")?;
        let text = |name: &str| code.getattr(name)?.extract::<String>();
        if !is_wrapper(&code)? {
            lines.push((text("co_filename")?, traceback.getattr("tb_lineno")?.extract()?, text("co_name")?));
        }
        entry = Some(traceback.getattr("tb_next")?).filter(|next| !next.is_none());
    }
    lines.reverse();
    Ok(lines)
}
