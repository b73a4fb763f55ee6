//! Programs that ask if they are compiled, and go on with another answer than eager's.
//!
//! They are told so, because what they do then is what can be captured. But where they refuse to be compiled, a user wants eager's result. A
//! piece of a frame that was told so is captured once more with eager's answer where an exception has met a handler since, or where Python
//! goes on after it, which may raise later. If the answer made no difference to that, the first capture stands.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use dynamlir_interpreter::Activation;
use rustc_hash::FxHashSet;

use crate::{
    attempts::pieces_as_told,
    run::{Broken, Captured, Ended, Subject, Tables},
    state::Capture,
};

/// The effects on a capture of telling the program that it is compiled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// True if the program has asked.
    asked: bool,
    /// Where exceptions met handlers since then: the code's address, and the unit.
    met: Vec<(usize, u32)>,
}

/// The answers of a capture to code that asks whether it is compiled, and what came of them.
#[derive(Default)]
pub(crate) struct Answers {
    /// True if the answer is that it is not.
    denies: bool,
    /// The first instruction that has asked.
    asked: Cell<Option<usize>>,
    /// The frames that were running when somebody was told, or have called one that was, by the addresses of their places.
    told: RefCell<FxHashSet<usize>>,
    /// Where exceptions have met a handler in such a frame, or have left it: the code's address, and the unit.
    met: RefCell<Vec<(usize, u32)>>,
}

impl Answers {
    pub fn new(denies: bool) -> Self {
        Self { denies, ..Self::default() }
    }

    /// The first instruction that has asked.
    pub fn asked(&self) -> Option<usize> {
        self.asked.get()
    }

    /// A frame has ended, by the address of its place.
    pub fn frame_ended(&self, place: usize) {
        self.told.borrow_mut().remove(&place);
    }
}

/// Captures a frame, or a piece of it, with the answer that is right for it.
pub(crate) fn in_pieces(tables: &Tables, subject: Subject<'_, '_>) -> Result<Result<Captured, Broken>, Ended> {
    let denying = Subject { denies: true, ..subject };
    let first = pieces_as_told(tables, subject)?;
    let captured = match &first {
        Ok(captured) => captured,
        // The frame runs as plain Python, where the answer is false anyway.
        Err(broken) if !broken.told.asked => return Ok(first),
        Err(_) => {
            let second = pieces_as_told(tables, denying)?;
            return Ok(if second.is_ok() { second } else { first });
        }
    };
    let (goes_on, raises) = (captured.epilogue.suspends().is_some(), !captured.told.met.is_empty());
    if !captured.told.asked || !(goes_on || raises) {
        return Ok(first);
    }
    let second = pieces_as_told(tables, denying)?;
    let is_better = match &second {
        _ if raises => second.as_ref().map_or(true, |second| second.told.met != captured.told.met),
        Ok(second) => second.epilogue.suspends().is_none() || second.graph_break == captured.graph_break,
        Err(_) => false,
    };
    Ok(if is_better { second } else { first })
}

impl<'py> Capture<'py> {
    /// The answer of `torch.compiler.is_compiling()`. It is true, except to the calls of modules: told so, these would not call the hooks
    /// that are always called where a forward raises, because that is more than `TorchDynamo` takes.
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

    /// An exception has met a handler of a frame, or leaves it.
    pub(crate) fn note_met(&self, frame: &Activation<'py>) {
        let answers = &self.progress.answers;
        if answers.told.borrow().contains(&(Rc::as_ptr(frame.place()) as usize)) {
            answers.met.borrow_mut().push((frame.code().as_ptr() as usize, frame.place().unit()));
        }
    }

    /// The effects so far of telling the program that it is compiled.
    pub(crate) fn told(&self) -> Told {
        Told { asked: self.progress.answers.asked().is_some(), met: self.progress.answers.met.take() }
    }
}
