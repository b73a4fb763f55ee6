//! Columns as people count them. CPython counts the UTF-8 bytes before an expression; editors, and we, count characters from 1.
//!
//! The difference is in the source, which is looked up without running Python code: that would become a part of what is captured.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PyString},
};
use rustc_hash::FxHashMap;

/// The size of a file, and the time when it was written.
type Stamp = (u64, SystemTime);

/// The files that were read. Captures ask for the same ones again and again, among them large ones of torch.
static READ: Mutex<Option<FxHashMap<String, (Stamp, Columns)>>> = Mutex::new(None);

/// Gives columns in a source: the lines that are not ASCII, by number. In the others each byte is a character.
#[derive(Clone, Default)]
pub(super) struct Columns(Arc<FxHashMap<u32, Box<str>>>);

impl Columns {
    /// Returns the columns of a file. Where no source is known, all bytes count.
    pub(super) fn of(py: Python<'_>, file: &str) -> Self {
        Self::on_disk(file).or_else(|| Self::in_memory(py, file)).unwrap_or_default()
    }

    /// Returns the column of the expression behind these bytes of a line. If they end within a character, the source is not the one that was
    /// compiled.
    pub(super) fn at(&self, line: u32, bytes: u32) -> u32 {
        let before = self.0.get(&line).and_then(|text| text.get(..bytes as usize));
        before.map_or(bytes, |before| before.chars().count() as u32) + 1
    }

    /// Returns the columns of a file in UTF-8.
    fn on_disk(file: &str) -> Option<Self> {
        let found = fs::metadata(file).ok()?;
        let stamp = (found.len(), found.modified().ok()?);
        let files = || READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = files().as_ref().and_then(|files| files.get(file)).filter(|(known, _)| *known == stamp) {
            return Some(known.clone());
        }
        let made = Self::in_text(&String::from_utf8(fs::read(file).ok()?).ok()?);
        files().get_or_insert_default().insert(file.to_owned(), (stamp, made.clone()));
        Some(made)
    }

    /// Returns the columns of what tracebacks would show: the cell of a notebook, or a file in another encoding that was shown before.
    fn in_memory(py: Python<'_>, file: &str) -> Option<Self> {
        static CACHE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
        let cache = dynamlir_interpreter::suspended(|| dynamlir_cpython_abi::import_once(py, &CACHE, "linecache", "cache")).ok()?;
        // Its size, its time, its lines, its name.
        let lines = cache.get_item(file).ok()??.get_item(2).ok()?.cast_into::<PyList>().ok()?;
        let lines: Vec<_> = lines.iter().filter_map(|line| line.cast_into::<PyString>().ok()).collect();
        Some(Self::in_lines(lines.iter().map(|line| line.to_str().unwrap_or_default())))
    }

    fn in_text(text: &str) -> Self {
        if text.is_ascii() {
            return Self::default();
        }
        // The compiler reads neither the mark of UTF-8 nor the ends of lines of other systems.
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
        Self::in_lines(text.split('\n'))
    }

    fn in_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        Self(Arc::new((1..).zip(lines).filter(|(_, text)| !text.is_ascii()).map(|(line, text)| (line, text.into())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::Columns;

    #[test]
    fn bytes_become_characters() {
        let columns = Columns::in_text("\u{feff}é = y\r\nx = y + z\ré = '…' + z\n");
        assert_eq!((columns.at(1, 5), columns.at(2, 4), columns.at(3, 13)), (5, 5, 11));
        // Within a character, behind the end, in a line that is not there.
        assert_eq!((columns.at(1, 1), columns.at(1, 70), columns.at(9, 2)), (2, 71, 3));
    }
}
