//! What the frame itself has made.

use std::cell::RefCell;

use dynamlir_cpython_abi::Births;
use dynamlir_guards::SourceId;
use pyo3::prelude::*;

use super::{
    Capture,
    journal::{Journal, Mark},
};
use crate::contexts::Token;

/// By the address of a function.
type Functions = Journal<usize, (Py<PyAny>, Option<SourceId>)>;

/// Objects that are the frame's own.
#[derive(Default)]
pub struct Own {
    /// All that it has made; None where frames of this CPython are not known. What was made stays new where something is rolled back.
    pub(crate) births: Option<Births>,
    /// Functions, by address, kept alive; with the existing function whose globals they share, None for the one that is captured.
    functions: RefCell<Functions>,
    /// Cells of existing functions that were handed to functions of the frame's, by address, kept alive.
    cells: RefCell<Journal<usize, (Py<PyAny>, SourceId)>>,
    /// Tokens of the context variables that it has set and not reset.
    pub(crate) tokens: RefCell<Vec<Token>>,
}

/// How far [`Own`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnMark {
    functions: Mark,
    cells: Mark,
}

impl Own {
    /// As a capture begins.
    pub(super) fn begin(py: Python<'_>) -> Self {
        Self { births: dynamlir_cpython_abi::abi(py).ok().map(|abi| Births::begin(py, abi)), ..Self::default() }
    }

    pub(super) fn mark(&self) -> OwnMark {
        OwnMark { functions: self.functions.borrow().mark(), cells: self.cells.borrow().mark() }
    }

    pub(super) fn roll_back(&self, to: OwnMark) {
        let functions = self.functions.borrow_mut().roll_back(to.functions);
        let cells = self.cells.borrow_mut().roll_back(to.cells);
        drop((functions, cells));
    }

    /// How many cells of existing functions were handed on.
    pub(crate) fn cell_count(&self) -> usize {
        self.cells.borrow().len()
    }
}

impl<'py> Capture<'py> {
    /// Says that the frame made this function, beneath the existing function at `owner`.
    pub fn note_made(&self, function: &Bound<'py, PyAny>, owner: Option<SourceId>) {
        self.own.functions.borrow_mut().insert(function.as_ptr() as usize, (function.clone().unbind(), owner));
    }

    /// The existing function whose globals a function that the frame made shares; None for the one that is captured.
    pub fn made_beneath(&self, function: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.own.functions.borrow().get(&(function.as_ptr() as usize)).and_then(|(_, owner)| *owner)
    }

    /// Whether the frame made this function.
    pub fn is_made(&self, function: &Bound<'py, PyAny>) -> bool {
        self.own.functions.borrow().contains(&(function.as_ptr() as usize))
    }

    /// Where a cell was reached that was handed to a function of the frame's.
    pub(crate) fn handed_cell(&self, cell: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.own.cells.borrow().get(&(cell.as_ptr() as usize)).map(|(_, source)| *source)
    }

    /// Says where a cell is reached that is handed to a function of the frame's.
    pub(crate) fn hand_cell(&self, cell: Bound<'py, PyAny>, source: SourceId) {
        self.own.cells.borrow_mut().insert(cell.as_ptr() as usize, (cell.unbind(), source));
    }
}
