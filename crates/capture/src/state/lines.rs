//! Locations: the lines and columns of the user's Python code. Code objects only have units.

use std::{cell::RefCell, rc::Rc};

use dynamlir_bytecode::runs;
use dynamlir_graph::Line;
use pyo3::{prelude::*, types::PyBytes};
use rustc_hash::FxHashMap;

use crate::{floors::Record, objects::callback_wrapper::is_wrapper, state::columns::Columns};

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
    places: Vec<Place>,
}

/// The position of the units from one on. The column counts characters from 1; 0 if it is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    unit: u32,
    line: u32,
    column: u32,
}

impl<'py> Record<'py> {
    /// Returns the Python lines being run, innermost first.
    pub fn location(&self) -> Vec<Line> {
        let mut found = Vec::new();
        let mut place = dynamlir_interpreter::here();
        while let Some(at) = place.filter(|_| found.len() < DEEPEST_LOCATION) {
            found.push(self.lines_of(at.code(self.py)).at(at.unit()));
            place = at.outer().cloned();
        }
        found
    }

    fn lines_of(&self, code: &Bound<'py, PyAny>) -> Rc<Lines> {
        if let Some((_, known)) = self.locations.lines.borrow().get(&(code.as_ptr() as usize)) {
            return known.clone();
        }
        let made = Rc::new(Lines::of(code));
        self.locations.lines.borrow_mut().insert(code.as_ptr() as usize, (code.clone().unbind(), made.clone()));
        made
    }
}

impl Lines {
    fn of(code: &Bound<'_, PyAny>) -> Self {
        let text = |name: &str| code.getattr(name).and_then(|value| value.extract()).unwrap_or_default();
        let file: String = text("co_filename");
        let table = code.getattr("co_linetable").and_then(|table| Ok(table.cast_into::<PyBytes>()?));
        let places = table.and_then(|table| {
            let first_line = code.getattr("co_firstlineno")?.extract()?;
            let columns = Columns::of(code.py(), &file);
            Ok(places(table.as_bytes(), first_line, |line, bytes| columns.at(line, bytes)))
        });
        Self { file, function: text("co_name"), places: places.unwrap_or_default() }
    }

    /// Returns the line and column of a unit.
    fn at(&self, unit: u32) -> Line {
        let before = self.places.partition_point(|place| place.unit <= unit);
        let place = before.checked_sub(1).map(|index| self.places[index]);
        let (line, column) = place.map_or((0, 0), |place| (place.line, place.column));
        (self.file.clone(), line, self.function.clone(), column)
    }
}

/// Returns the positions of a code object's units, by a function from lines and bytes to columns. Units without a line have that of the units
/// in front of them.
fn places(table: &[u8], first_line: u32, column: impl Fn(u32, u32) -> u32) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let mut unit = 0;
    // A table that cannot be read ends where the error is.
    for (position, units) in runs(table, first_line).map_while(Result::ok) {
        if let Some(line) = position.line {
            let column = position.column.map_or(0, |bytes| column(line, bytes));
            if places.last().is_none_or(|last| (last.line, last.column) != (line, column)) {
                places.push(Place { unit, line, column });
            }
        }
        unit += units;
    }
    places
}

/// Returns the line where a function is defined.
pub(crate) fn defined_at(function: &Bound<'_, PyAny>) -> PyResult<Vec<Line>> {
    let code = function.getattr("__code__")?;
    let text = |name: &str| code.getattr(name)?.extract::<String>();
    Ok(vec![(text("co_filename")?, code.getattr("co_firstlineno")?.extract()?, text("co_name")?, 0)])
}

/// Returns the lines of an exception's traceback, innermost first.
pub(crate) fn raised_at(py: Python<'_>, error: &PyErr) -> PyResult<Vec<Line>> {
    let mut lines = Vec::new();
    let mut entry = error.traceback(py).map(Bound::into_any);
    while let Some(traceback) = entry {
        let code = traceback.getattr("tb_frame")?.getattr("f_code")?;
        if !is_wrapper(&code)? {
            let byte: u32 = traceback.getattr("tb_lasti")?.extract().unwrap_or_default();
            lines.push(Lines::of(&code).at(byte / 2));
        }
        entry = Some(traceback.getattr("tb_next")?).filter(|next| !next.is_none());
    }
    lines.reverse();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{Place, places};

    #[test]
    fn a_table_gives_lines_and_columns() {
        // Line 5, bytes 4 to 9; no line; line 6, bytes 4 to 90; line 8 without columns, as under `-X no_debug_ranges`.
        let table = [0x80, 0x45, 0xf9, 0xd8, 4, 90, 0xe8 | 1, 4];
        let column = |line, bytes| if line == 6 { bytes } else { bytes + 1 };
        let at = |unit, line, column| Place { unit, line, column };
        assert_eq!(places(&table, 5, column), [at(0, 5, 5), at(3, 6, 4), at(4, 8, 0)]);
        assert_eq!(places(&table[..4], 5, column), [at(0, 5, 5)], "cut");
    }
}
