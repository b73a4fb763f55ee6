//! Programs that ask whether they are compiled, and then behave differently than in eager.
//!
//! They get the answer yes, because their behavior is then what can be captured. But if they refuse to be compiled, the user wants eager's
//! result. So a piece of a frame that got this answer is captured again with eager's answer if an exception has reached a handler since, or
//! if CPython continues after it, which may raise later. If the answer made no difference to that, the first capture is kept.

use std::rc::Rc;

use dynamlir_interpreter::Activation;
use pyo3::prelude::*;

use crate::{
    floors::Record,
    frames::{
        attempts::{Attempt, Outcome, Rung, Verdict},
        run::{CaptureRequest, Ended},
    },
    state::answers::QueryAnswers,
};

/// The answer to a program that asks if it is being compiled: yes, and no where eager's answer makes a difference.
#[derive(Default)]
pub(crate) struct Answers {
    denies: bool,
    /// The outcome with the answer yes, while the answer is no.
    first: Option<Outcome>,
}

impl Answers {
    /// Returns true if the outcome with eager's answer is the better one.
    fn is_better(first: &Outcome, second: &Outcome) -> bool {
        match (first, second) {
            (Err(_), second) => second.is_ok(),
            (Ok(first), second) if !first.told.met.is_empty() => second.as_ref().map_or(true, |second| second.told.met != first.told.met),
            (Ok(first), Ok(second)) => second.epilogue.suspends().is_none() || second.graph_break == first.graph_break,
            (Ok(_), Err(_)) => false,
        }
    }
}

impl Rung for Answers {
    fn apply(&self, _: Python<'_>, attempt: &mut Attempt) {
        attempt.denies |= self.denies;
    }

    fn after(&mut self, _: &CaptureRequest<'_, '_>, outcome: Outcome) -> Result<Verdict, Ended> {
        if self.first.is_some() {
            return Ok(Verdict::Keep(self.best(outcome)));
        }
        let matters = match &outcome {
            Ok(captured) => captured.told.asked && (captured.epilogue.suspends().is_some() || !captured.told.met.is_empty()),
            // If the program has not asked, the frame runs as plain Python, where the answer is no anyway.
            Err(failure) => failure.told.asked,
        };
        if !matters {
            return Ok(Verdict::Keep(outcome));
        }
        (self.denies, self.first) = (true, Some(outcome));
        Ok(Verdict::Again("the program has asked if it is being compiled, and gets eager's answer"))
    }

    fn best(&mut self, outcome: Outcome) -> Outcome {
        match self.first.take() {
            Some(first) if !Self::is_better(&first, &outcome) => first,
            _ => outcome,
        }
    }
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
