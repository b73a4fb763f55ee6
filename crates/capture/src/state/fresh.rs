//! Objects that the frame itself has created.

use std::cell::RefCell;

use dynamlir_cpython_abi::Births;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;

use crate::{
    floors::Record,
    state::undo_map::{Mark, UndoMap},
};

/// A token that `variable.set` has returned.
pub(crate) struct Token {
    /// The token object, kept alive so that its address stays taken.
    pub(crate) object: Py<PyAny>,
    pub(crate) variable: Py<PyAny>,
    /// The value that the variable had before, with its source; None if it had none.
    pub(crate) before: Option<(Py<PyAny>, Option<SourceId>)>,
}

/// By the address of a function.
type Functions = UndoMap<usize, (Py<PyAny>, Option<SourceId>)>;

/// The frame's own objects.
#[derive(Default)]
pub struct Own {
    /// All objects that it has created; `None` if the frames of this CPython version are not supported. A rollback does not change which
    /// are new.
    pub(crate) births: Option<Births>,
    /// Functions, by address, kept alive, with the existing function whose globals they share; `None` for the captured function.
    functions: RefCell<Functions>,
    /// Cells of existing functions that were passed to the frame's functions, by address, kept alive.
    cells: RefCell<UndoMap<usize, (Py<PyAny>, SourceId)>>,
    /// Tokens of the context variables that the frame has set and not reset.
    pub(crate) tokens: RefCell<Vec<Token>>,
}

/// A savepoint of [`Own`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnMark {
    functions: Mark,
    cells: Mark,
}

impl Own {
    /// Starts tracking at the beginning of a capture.
    pub(crate) fn begin(py: Python<'_>) -> Self {
        Self { births: dynamlir_cpython_abi::abi(py).ok().map(|abi| Births::begin(py, abi)), ..Self::default() }
    }

    pub(crate) fn mark(&self) -> OwnMark {
        OwnMark { functions: self.functions.borrow().mark(), cells: self.cells.borrow().mark() }
    }

    pub(crate) fn roll_back(&self, to: OwnMark) {
        let functions = self.functions.borrow_mut().roll_back(to.functions);
        let cells = self.cells.borrow_mut().roll_back(to.cells);
        drop((functions, cells));
    }

    /// Returns the number of cells of existing functions that were passed on.
    pub(crate) fn cell_count(&self) -> usize {
        self.cells.borrow().len()
    }
}

impl<'py> Record<'py> {
    /// Records that the frame created this function, under the existing function at `owner`.
    pub fn note_made(&self, function: &Bound<'py, PyAny>, owner: Option<SourceId>) {
        self.own.functions.borrow_mut().insert(function.as_ptr() as usize, (function.clone().unbind(), owner));
    }

    /// Returns the existing function whose globals a function created by the frame shares; `None` for the captured function.
    pub fn made_beneath(&self, function: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.own.functions.borrow().get(&(function.as_ptr() as usize)).and_then(|(_, owner)| *owner)
    }

    /// Returns true if the frame created this function.
    pub fn is_made(&self, function: &Bound<'py, PyAny>) -> bool {
        self.own.functions.borrow().contains(&(function.as_ptr() as usize))
    }

    /// Returns the source of a cell that was passed to one of the frame's functions.
    pub(crate) fn handed_cell(&self, cell: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.own.cells.borrow().get(&(cell.as_ptr() as usize)).map(|(_, source)| *source)
    }

    /// Records the source of a cell that is passed to one of the frame's functions.
    pub(crate) fn hand_cell(&self, cell: Bound<'py, PyAny>, source: SourceId) {
        self.own.cells.borrow_mut().insert(cell.as_ptr() as usize, (cell.unbind(), source));
    }
}
