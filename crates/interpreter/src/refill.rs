//! Frames that are emptied and refilled as they run, as frames are between graphs: for tests.

use std::cell::Cell;

use dynamlir_bytecode::Instruction;
use dynamlir_cpython_abi::{Evaluated, Frame, Listening, Refusal, install};
use pyo3::prelude::*;

use crate::{
    activation::Activation,
    drive::{Drive, Driver, FrameState, Turn},
};

thread_local! {
    /// The number of instructions after which a frame is refilled, see [`refilling`].
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

/// Runs `body`; each frame beneath is emptied and refilled at each `every`-th instruction, and left to CPython after a while.
///
/// # Errors
/// If frames cannot be evaluated in this process.
pub fn refilling<T>(py: Python<'_>, every: u32, body: impl FnOnce() -> T) -> Result<T, Refusal> {
    let _hook = install(py)?;
    let former = EVERY.replace(every.max(1));
    let result = {
        let _listening = Listening::new(Some(refill));
        body()
    };
    EVERY.set(former);
    Ok(result)
}
