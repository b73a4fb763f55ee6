//! Runs Python code in the interpreter's concrete mode: CPython's semantics, evaluated by us.

use std::{cell::Cell, rc::Rc};

use dynamlir_cpython_abi::{Evaluated, Frame, Listening, install};
use dynamlir_interpreter::{Activation, Concrete, Drive, Driver, FrameState, Instruction, Turn, counts, reset_counts, with_policy};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyDict, PyTuple},
};

/// Calls `callable`; the interpreter evaluates all Python code beneath.
#[pyfunction]
#[pyo3(signature = (callable, /, *args, **kwargs))]
pub fn interpret<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let finished = with_policy(callable.py(), Rc::new(Concrete), || callable.call(args, kwargs));
    finished.map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?.result
}

thread_local! {
    /// The number of instructions after which a frame is refilled, see [`reenter`].
    static EVERY: Cell<u32> = const { Cell::new(0) };
}

/// Refills a frame with its own contents, and later hands it to CPython midway.
struct Refilled {
    every: u32,
    steps: u32,
    is_filled: bool,
}

/// The number of refills after which a frame is left to CPython.
const LEFT_AFTER: u32 = 13;

impl<'py> Driver<'py> for Refilled {
    fn turn(&mut self, frame: &Activation<'py>, instruction: &Instruction, _: bool) -> Turn<'py> {
        if std::mem::take(&mut self.is_filled) {
            return Turn::Step;
        }
        self.steps += 1;
        if self.steps.is_multiple_of(LEFT_AFTER * self.every) {
            return Turn::Leave;
        }
        if !self.steps.is_multiple_of(self.every) {
            return Turn::Step;
        }
        self.is_filled = true;
        Turn::Goto(FrameState::of(frame, instruction))
    }
}

fn refill(frame: Frame<'_>, throw: bool) -> Evaluated<'_> {
    if throw || frame.thread().is_watched() {
        return frame.evaluate(throw);
    }
    let Some(drive) = Drive::of(&frame) else { return frame.evaluate(false) };
    drive.run(frame, &mut Refilled { every: EVERY.get(), steps: 0, is_filled: false })
}

/// Calls `callable`; each frame beneath is emptied and refilled at each `every`-th instruction, and left to CPython after a while, as
/// frames are between graphs. Nothing is captured.
#[pyfunction]
#[pyo3(signature = (callable, every, /, *args, **kwargs))]
pub fn reenter<'py>(
    callable: &Bound<'py, PyAny>,
    every: u32,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _hook = install(callable.py()).map_err(|refusal| PyRuntimeError::new_err(refusal.to_string()))?;
    let former = EVERY.replace(every.max(1));
    let result = {
        let _listening = Listening::new(Some(refill));
        callable.call(args, kwargs)
    };
    EVERY.set(former);
    result
}

/// Returns the reason that frames cannot be evaluated in this process, so that nothing can be captured; None if they can.
#[pyfunction]
pub fn refusal(py: Python<'_>) -> Option<String> {
    install(py).err().map(|refusal| refusal.to_string())
}

/// Returns the number of interpreted frames, and the number of those left to CPython by reason; `reset` starts the next count.
#[pyfunction]
#[pyo3(signature = (*, reset=false))]
pub fn interpreter_counts(py: Python<'_>, reset: bool) -> PyResult<Bound<'_, PyDict>> {
    let counts = counts();
    if reset {
        reset_counts();
    }
    let dict = PyDict::new(py);
    dict.set_item("interpreted", counts.interpreted)?;
    dict.set_item("made_generators", counts.made_generators)?;
    dict.set_item("left", counts.left)?;
    Ok(dict)
}
