//! The facts about torch that a capture has guarded.

use std::cell::RefCell;

use dynamlir_cpython_abi::Thread;
use pyo3::prelude::*;

use crate::state::{Mark, UndoMap};

/// Returns true if a caller of the captured function is handling an exception now.
pub(crate) fn handles_an_exception(py: Python<'_>) -> bool {
    Thread::current(py).is_ok_and(|thread| thread.topmost_handled_exception().is_some())
}

/// The facts about torch that a capture has guarded, and the state in which it began.
pub struct Facts {
    /// True if a caller is handling an exception.
    pub(crate) handled: bool,
    /// Guarded methods of tensor classes, by the address of the class.
    pub(crate) members: RefCell<UndoMap<(usize, String), ()>>,
    /// Guarded torch functions, by address.
    pub(crate) leaves: RefCell<UndoMap<usize, ()>>,
    /// Operators whose kernel selection is guarded.
    pub(crate) choices: RefCell<UndoMap<String, ()>>,
}

/// A savepoint of [`Facts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FactsMark {
    pub(crate) members: Mark,
    pub(crate) leaves: Mark,
    pub(crate) choices: Mark,
}

impl Facts {
    /// Creates the facts at the start of a capture.
    pub fn new(py: Python<'_>) -> Self {
        let (members, leaves, choices) = Default::default();
        Self { handled: handles_an_exception(py), members, leaves, choices }
    }

    pub(crate) fn mark(&self) -> FactsMark {
        FactsMark { members: self.members.borrow().mark(), leaves: self.leaves.borrow().mark(), choices: self.choices.borrow().mark() }
    }

    pub(crate) fn roll_back(&self, to: FactsMark) {
        let _ = self.members.borrow_mut().roll_back(to.members);
        let _ = self.leaves.borrow_mut().roll_back(to.leaves);
        let _ = self.choices.borrow_mut().roll_back(to.choices);
    }

    /// Records an operator whose kernels depend on something guarded. Returns true the first time.
    pub(crate) fn note_choices(&self, operator: &str) -> bool {
        !self.choices.borrow().contains(operator) && self.choices.borrow_mut().insert(operator.to_owned(), ())
    }
}
