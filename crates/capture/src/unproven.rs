//! Checks, before a captured call becomes an entry, that all it has used of what existed follows from its guards.
//!
//! Each use is noted where it happens, each guard where it is made, and neither looks at the other ([`Facet`]). So a place where the two
//! do not agree is found here, whichever code has forgotten it, and not by a user who gets an old answer.

use std::{
    cell::RefCell,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use dynamlir_graph::Line;
use dynamlir_guards::{Facet, Forgotten, Open};
use pyo3::prelude::*;

use crate::{
    graph_break::{GraphBreak, reason},
    state::Capture,
};

/// No guard.
const NONE: usize = usize::MAX;

/// The number of the guard that captures forget.
static FORGOTTEN: AtomicUsize = AtomicUsize::new(NONE);

/// The guard that a capture has forgotten last.
static LATEST: Mutex<Option<Forgotten>> = Mutex::new(None);

/// How many of the uses that no guard says are told.
const MOST_TOLD: usize = 64;

/// What was used where no guard says enough, although nothing stood for a number there.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has each capture forget one of its guards, by its number, or none: for tests of what notices that.
pub fn forget_guard(number: Option<usize>) {
    FORGOTTEN.store(number.unwrap_or(NONE), Ordering::Relaxed);
}

/// The guard that a capture has forgotten since this was asked last: in words, and whether it follows from the others.
pub fn forgotten_guard() -> Option<(String, bool)> {
    let found = LATEST.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.map(|forgotten| (forgotten.text, forgotten.implied))
}

/// What captures have used since this was asked last that their guards do not say, in words: for tests, which find nothing. A number that
/// something stood for is not listed, since it is captured again as a constant.
pub fn unproven() -> Vec<String> {
    std::mem::take(&mut TOLD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Which instruction has made which sources and demands, for a capture that tells where it has used what no guard says.
#[derive(Debug, Default)]
pub(crate) struct Marks(RefCell<Vec<Mark>>);

#[derive(Debug)]
struct Mark {
    /// How many sources and demands there are once the instruction has run.
    sources: usize,
    demands: usize,
    location: Vec<Line>,
}

impl Capture<'_> {
    /// An instruction is about to run, in a capture that tells where things are used.
    pub(crate) fn mark(&self, marks: &Marks) {
        let (sources, demands) = (self.guards.sources(), self.guards.demands());
        let location = self.location();
        let mut marks = marks.0.borrow_mut();
        // What was rolled back is gone.
        marks.retain(|mark| mark.sources <= sources && mark.demands <= demands);
        if let Some(last) = marks.last_mut() {
            (last.sources, last.demands) = (sources, demands);
        }
        marks.push(Mark { sources, demands, location });
    }

    /// Where something was used.
    fn used_at(&self, open: &Open) -> Vec<Line> {
        let Some(marks) = &self.progress.marks else { return Vec::new() };
        let marks = marks.0.borrow();
        let is_after = |mark: &&Mark| match open.demand {
            Some(number) => mark.demands > number,
            None => mark.sources > open.place.index(),
        };
        marks.iter().find(is_after).or(marks.last()).map(|mark| mark.location.clone()).unwrap_or_default()
    }

    /// Why a capture must not become an entry: something was used that no guard says. Where something stands for a number there, the frame
    /// is captured again, with a constant; elsewhere the call stays plain Python. None if all that was used follows from the guards.
    pub(crate) fn unproven(&self) -> PyResult<Option<GraphBreak>> {
        for input in self.tensors.inputs.borrow().iter().filter(|input| !input.number) {
            self.guards.demand(input.source, Facet::Metadata);
        }
        let number = FORGOTTEN.load(Ordering::Relaxed);
        let forgotten = if number == NONE { None } else { self.guards.forget(self.py, number) };
        let is_forgotten = forgotten.is_some();
        if is_forgotten {
            *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = forgotten;
        }
        let mut found = None;
        for open in self.guards.open(self.py) {
            let message = format!("{} {}, which no guard says", open.facet.text(), self.guards.expression(open.place));
            // Nobody stands for what a test has had forgotten.
            if !is_forgotten && !self.blame_place(open.place)? {
                let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
                if told.len() < MOST_TOLD {
                    told.push(message.clone());
                }
            }
            found.get_or_insert_with(|| GraphBreak { reason: reason::UNPROVEN, message, location: self.used_at(&open) });
        }
        Ok(found)
    }
}
