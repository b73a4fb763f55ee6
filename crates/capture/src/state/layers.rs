//! Module calls seen so far, so that equal ones need not be interpreted; see [`crate::repeated_layers`].

use std::cell::{Cell, RefCell};

use super::undo_map::{Mark, UndoMap};
use crate::repeated_layers::SeenCalls;

/// The module calls of a capture.
#[derive(Default)]
pub struct Layers {
    /// True if calls may be repeated without interpreting them.
    pub(crate) repeat: bool,
    /// Calls, by everything that distinguishes them.
    pub(crate) calls: RefCell<UndoMap<String, SeenCalls>>,
    /// The number of actions that running the graph's nodes again would not repeat.
    unrepeatable: Cell<usize>,
}

/// A savepoint of [`Layers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayersMark {
    calls: Mark,
    unrepeatable: usize,
}

impl Layers {
    pub(super) fn new(repeat: bool) -> Self {
        Self { repeat, ..Self::default() }
    }

    /// Records an action that running the graph's nodes again would not repeat.
    pub(crate) fn note_unrepeatable(&self) {
        self.unrepeatable.set(self.unrepeatable.get() + 1);
    }

    /// Returns the number of recorded actions.
    pub(crate) fn unrepeatable(&self) -> usize {
        self.unrepeatable.get()
    }

    pub(super) fn mark(&self) -> LayersMark {
        LayersMark { calls: self.calls.borrow().mark(), unrepeatable: self.unrepeatable.get() }
    }

    pub(super) fn roll_back(&self, to: LayersMark) {
        let calls = self.calls.borrow_mut().roll_back(to.calls);
        self.unrepeatable.set(to.unrepeatable);
        drop(calls);
    }
}
