//! The captured frame itself: how far it is, and how it stands where it is left to Python.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use dynamlir_guards::SourceId;
use dynamlir_torch_abi::State as TorchState;
use pyo3::prelude::*;

/// What stands in a slot of the frame: an object with where it came from, or nothing.
pub(crate) type Slot = Option<(Py<PyAny>, Option<SourceId>)>;

/// The captured frame where it is left to Python.
pub(crate) struct Left {
    /// The unit of the instruction that Python runs.
    pub unit: u32,
    /// All local slots; dead ones are empty.
    pub locals: Vec<Slot>,
    /// The value stack.
    pub stack: Vec<Slot>,
}

/// What is known of the captured frame while it runs. Its instructions are numbered in the order in which they run, those that make one
/// call together: a frame that is captured again comes to the same ones.
#[derive(Default)]
pub struct Progress {
    /// The number of the instruction that runs; 0 before the first.
    pub(crate) step: Cell<usize>,
    /// Whether the frame goes on where Python has left it.
    pub(crate) resumed: Cell<bool>,
    /// Before which one the frame is left to Python.
    pub(crate) stop: Option<usize>,
    /// How it stood there.
    pub(crate) left: RefCell<Option<Left>>,
    /// After which instruction an object was first on the stack, by address.
    pub(crate) born: RefCell<HashMap<usize, usize>>,
    /// The thread's state before the first instruction, and the one that has changed it.
    pub(crate) torch: Cell<Option<TorchState>>,
    /// How many function modes were active then: `with torch.device(…)` is one.
    pub(crate) modes: Cell<usize>,
    /// See [`Progress::torch`].
    pub(crate) set: Cell<Option<usize>>,
    /// The exception that was being handled before the first instruction, by address, and the instruction that has raised the one that
    /// is being handled since.
    pub(crate) handled: Cell<Option<usize>>,
    /// See [`Progress::handled`].
    pub(crate) raised: Cell<Option<usize>>,
    /// The first instruction that has made something which runs code when it dies, and has outlived the capture.
    pub(crate) doomed: Cell<Option<usize>>,
}

impl Progress {
    /// Of a frame that is left before this instruction.
    pub(super) fn until(stop: Option<usize>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// The instruction that has made an object, as far as is known.
    pub(crate) fn born(&self, address: usize) -> Option<usize> {
        self.born.borrow().get(&address).copied()
    }
}
