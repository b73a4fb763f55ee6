//! The answers to programs that ask whether they are compiled.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashSet;

/// The effects on a capture of telling the program that it is compiled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryAnswers {
    /// True if the program has asked.
    pub(crate) asked: bool,
    /// The places where exceptions have reached handlers since: the code's address, and the unit.
    pub(crate) met: Vec<(usize, u32)>,
}

/// The answers of a capture to code that asks whether it is compiled, and their consequences.
#[derive(Default)]
pub(crate) struct Answers {
    /// True if the answer is no.
    pub(crate) denies: bool,
    /// The first instruction that asked.
    pub(crate) asked: Cell<Option<usize>>,
    /// The frames that were running when an answer was given, callers included, by the addresses of their places.
    pub(crate) told: RefCell<FxHashSet<usize>>,
    /// The places where exceptions have reached a handler in such a frame, or have left it: the code's address, and the unit.
    pub(crate) met: RefCell<Vec<(usize, u32)>>,
}

impl Answers {
    pub fn new(denies: bool) -> Self {
        Self { denies, ..Self::default() }
    }

    /// Returns the first instruction that asked.
    pub fn asked(&self) -> Option<usize> {
        self.asked.get()
    }

    /// Notes that a frame has ended, given the address of its place.
    pub fn frame_ended(&self, place: usize) {
        self.told.borrow_mut().remove(&place);
    }
}
