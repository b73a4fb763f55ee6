//! Calls of modules that were seen, so that equal ones need not be interpreted; see [`crate::repeats`].

use std::cell::{Cell, RefCell};

use super::journal::{Journal, Mark};
use crate::repeats::SeenCalls;

/// What is known of calls of modules.
#[derive(Default)]
pub struct Layers {
    /// Whether calls may be repeated without interpreting them.
    pub(crate) repeat: bool,
    /// Calls, by all that they could be told apart by.
    pub(crate) calls: RefCell<Journal<String, SeenCalls>>,
    /// How often something was done that running the graph's nodes again would not do.
    unrepeatable: Cell<usize>,
}

/// How far [`Layers`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayersMark {
    calls: Mark,
    unrepeatable: usize,
}

impl Layers {
    pub(super) fn new(repeat: bool) -> Self {
        Self { repeat, ..Self::default() }
    }

    /// Says that something is done that running the graph's nodes again would not do.
    pub(crate) fn note_unrepeatable(&self) {
        self.unrepeatable.set(self.unrepeatable.get() + 1);
    }

    /// How often that was said.
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
