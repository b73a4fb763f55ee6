//! Programs that ask whether they are compiled, and then behave differently than in eager.
//!
//! They get the answer yes, because their behavior is then what can be captured. But if they refuse to be compiled, the user wants eager's
//! result. So a piece of a frame that got this answer is captured again with eager's answer if an exception has reached a handler since, or
//! if CPython continues after it, which may raise later. If the answer made no difference to that, the first capture is kept.

use std::rc::Rc;

use dynamlir_interpreter::Activation;

use crate::{
    floors::Record,
    frames::{
        attempts::with_or_without_unbacked,
        run::{CaptureFailure, CaptureRequest, Captured, Ended, Tables},
    },
    state::answers::QueryAnswers,
};

/// Captures a frame, or a piece of it, with the appropriate answer.
pub(crate) fn in_pieces(tables: &Tables, request: CaptureRequest<'_, '_>) -> Result<Result<Captured, CaptureFailure>, Ended> {
    let denying = CaptureRequest { denies: true, ..request };
    let first = with_or_without_unbacked(tables, request)?;
    let captured = match &first {
        Ok(captured) => captured,
        // The frame runs as plain Python, where the answer is no anyway.
        Err(failure) if !failure.told.asked => return Ok(first),
        Err(_) => {
            let second = with_or_without_unbacked(tables, denying)?;
            return Ok(if second.is_ok() { second } else { first });
        }
    };
    let (goes_on, raises) = (captured.epilogue.suspends().is_some(), !captured.told.met.is_empty());
    if !captured.told.asked || !(goes_on || raises) {
        return Ok(first);
    }
    let second = with_or_without_unbacked(tables, denying)?;
    let is_better = match &second {
        _ if raises => second.as_ref().map_or(true, |second| second.told.met != captured.told.met),
        Ok(second) => second.epilogue.suspends().is_none() || second.graph_break == captured.graph_break,
        Err(_) => false,
    };
    Ok(if is_better { second } else { first })
}

impl<'py> Record<'py> {
    /// Returns the answer of `torch.compiler.is_compiling()`. It is true, except for the calls of modules: when compiling, those skip the
    /// hooks that are always called if a forward raises, because `TorchDynamo` does not support them.
    pub(crate) fn says_it_compiles(&self) -> bool {
        let here = dynamlir_interpreter::here();
        if here.as_ref().is_some_and(|place| self.torch.is_module_call(place.code(self.py))) {
            return false;
        }
        let frames = std::iter::successors(here, |place| place.outer().cloned());
        let answers = &self.progress.answers;
        answers.told.borrow_mut().extend(frames.map(|place| Rc::as_ptr(&place) as usize));
        if answers.asked.get().is_none() {
            answers.asked.set(Some(self.progress.step.get()));
        }
        !answers.denies
    }

    /// Notes that an exception has reached a handler of a frame, or leaves the frame.
    pub(crate) fn note_met(&self, frame: &Activation<'py>) {
        let answers = &self.progress.answers;
        if answers.told.borrow().contains(&(Rc::as_ptr(frame.place()) as usize)) {
            answers.met.borrow_mut().push((frame.code().as_ptr() as usize, frame.place().unit()));
        }
    }

    /// Returns the effects so far of telling the program that it is compiled.
    pub(crate) fn answers(&self) -> QueryAnswers {
        QueryAnswers { asked: self.progress.answers.asked().is_some(), met: self.progress.answers.met.take() }
    }
}
