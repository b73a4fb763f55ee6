//! The current call, of Python code by the frame, or of C code, and the function that it has started.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use dynamlir_guards::SourceId;
use dynamlir_interpreter::Site;
use pyo3::prelude::*;

/// A running call of C code.
pub(crate) struct Native {
    pub(crate) name: String,
    /// The calling frame.
    pub(crate) caller: Option<Rc<Site>>,
}

/// A function by its address, and sources by slot.
pub(crate) type Carried = (usize, Vec<(usize, SourceId)>);

/// Calls in progress.
#[derive(Default)]
pub struct Calling {
    /// The address of the function that a call in the frame is about to start; 0 for none.
    pub(crate) entering: Cell<usize>,
    /// The address of the function that is about to start, and the sources of its number arguments, by slot.
    pub(crate) carried: RefCell<Option<Carried>>,
    /// The address of the last function with arguments that C code has started, if that is not `entering`; otherwise 0.
    pub(crate) called_back: Cell<usize>,
    /// True if C code looks up an attribute that a module may lack.
    pub(crate) asks_a_module: Cell<bool>,
    /// The running C code. Its caller restores the previous value.
    pub(crate) native: RefCell<Option<Native>>,
}

/// A savepoint of [`Calling`], without the running C code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallingMark {
    entering: usize,
    called_back: usize,
    asks_a_module: bool,
}

impl Calling {
    pub(crate) fn mark(&self) -> CallingMark {
        CallingMark { entering: self.entering.get(), called_back: self.called_back.get(), asks_a_module: self.asks_a_module.get() }
    }

    /// Returns the sources of the arguments of a function that starts; empty if another function was about to start.
    pub(crate) fn take_carried(&self, function: &Bound<'_, PyAny>) -> Vec<(usize, SourceId)> {
        let address = function.as_ptr() as usize;
        let own = self.carried.borrow().as_ref().is_some_and(|(starts, _)| *starts == address);
        if own { self.carried.take().map(|(_, sources)| sources).unwrap_or_default() } else { Vec::new() }
    }

    pub(crate) fn roll_back(&self, to: CallingMark) {
        self.entering.set(to.entering);
        self.called_back.set(to.called_back);
        self.asks_a_module.set(to.asks_a_module);
    }
}
