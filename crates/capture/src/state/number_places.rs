//! The decisions about the numbers in existing objects.

use std::cell::RefCell;

use dynamlir_guards::SourceId;

use crate::state::{Mark, UndoMap};

/// The form in which a reader wants the number at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    /// The reader uses what it is given, which may be a stand-in for a number.
    Flexible,
    /// The reader, or C code that it calls, inspects the real object, whose value is guarded.
    Exact,
}

/// The decision about the number at a source for one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// A stand-in represents it.
    Stands,
    /// It is used as it is. Its value is guarded where a decision depends on it.
    Itself,
}

/// The decisions of one capture.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) numbers: RefCell<UndoMap<SourceId, Decided>>,
    /// Containers whose contents are all guarded by value, by the containers' addresses.
    pub(crate) exact: RefCell<UndoMap<usize, ()>>,
}

/// A savepoint of [`Places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacesMark {
    pub(crate) numbers: Mark,
    pub(crate) exact: Mark,
}

impl Places {
    pub(crate) fn mark(&self) -> PlacesMark {
        PlacesMark { numbers: self.numbers.borrow().mark(), exact: self.exact.borrow().mark() }
    }

    pub(crate) fn roll_back(&self, to: PlacesMark) {
        let _ = self.numbers.borrow_mut().roll_back(to.numbers);
        let _ = self.exact.borrow_mut().roll_back(to.exact);
    }
}
