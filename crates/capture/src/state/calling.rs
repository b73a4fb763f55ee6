//! The call that is being made: of Python code by the frame, or of C code, and what that has started.

use std::cell::{Cell, RefCell};

use dynamlir_guards::SourceId;
use pyo3::prelude::*;

use crate::beneath::Native;

/// A function by its address, and sources by slot.
pub(crate) type Carried = (usize, Vec<(usize, SourceId)>);

/// Calls in progress.
#[derive(Default)]
pub struct Calling {
    /// The address of the function that a call of the frame's is about to start; 0 for none.
    pub(crate) entering: Cell<usize>,
    /// The address of the function that is about to start, and the sources of the numbers that it is given, by slot.
    pub(crate) carried: RefCell<Option<Carried>>,
    /// The address of the function with arguments that C code has started last, if that is not `entering`; else 0.
    pub(crate) called_back: Cell<usize>,
    /// Whether C code looks for an attribute that a module may lack.
    pub(crate) asks_a_module: Cell<bool>,
    /// The C code that runs: who calls it puts back what ran before.
    pub(crate) native: RefCell<Option<Native>>,
}

/// How [`Calling`] was, but for the C code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallingMark {
    entering: usize,
    called_back: usize,
    asks_a_module: bool,
}

impl Calling {
    pub(super) fn mark(&self) -> CallingMark {
        CallingMark { entering: self.entering.get(), called_back: self.called_back.get(), asks_a_module: self.asks_a_module.get() }
    }

    /// The sources of what a function that starts is given; none if another one was about to start.
    pub(crate) fn take_carried(&self, function: &Bound<'_, PyAny>) -> Vec<(usize, SourceId)> {
        let address = function.as_ptr() as usize;
        let own = self.carried.borrow().as_ref().is_some_and(|(starts, _)| *starts == address);
        if own { self.carried.take().map(|(_, sources)| sources).unwrap_or_default() } else { Vec::new() }
    }

    pub(super) fn roll_back(&self, to: CallingMark) {
        self.entering.set(to.entering);
        self.called_back.set(to.called_back);
        self.asks_a_module.set(to.asks_a_module);
    }
}
