//! Checks, before a captured call becomes an entry, that everything it used of existing objects follows from its guards.
//!
//! Each use is noted where it happens, each guard where it is created, and neither consults the other ([`Facet`]). So a mismatch is found
//! here, regardless of the code that forgot a guard, and not by a user who gets an outdated result.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use dynamlir_graph::Line;
use dynamlir_guards::{Facet, Forgotten, Open};
use pyo3::prelude::*;

use crate::{
    floors::Numbers,
    graph_break::{GraphBreak, reason},
    state::use_marks::{UseMark, UseMarks},
};

/// Means that captures keep all guards.
const NONE: usize = usize::MAX;

/// The number of the guard that captures forget.
static FORGOTTEN: AtomicUsize = AtomicUsize::new(NONE);

/// The guard that a capture forgot last.
static LATEST: Mutex<Option<Forgotten>> = Mutex::new(None);

/// The maximum number of uncovered uses that are listed.
const MOST_TOLD: usize = 64;

/// Uses that the guards do not cover, at places without a stand-in for a number.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Makes each capture forget the guard with this number, or none: for tests of the code that notices it.
pub fn forget_guard(number: Option<usize>) {
    FORGOTTEN.store(number.unwrap_or(NONE), Ordering::Relaxed);
}

/// Returns the guard that a capture has forgotten since the last call: its text, and true if it follows from the others.
pub fn forgotten_guard() -> Option<(String, bool)> {
    let found = LATEST.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.map(|forgotten| (forgotten.text, forgotten.implied))
}

/// Returns the uses since the last call that the guards do not cover, as text: for tests, which expect none. A number with a stand-in is
/// not listed, since it is captured again as a constant.
pub fn unproven() -> Vec<String> {
    std::mem::take(&mut TOLD.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Numbers<'_> {
    /// Called before each instruction, in a capture that reports where it uses something.
    pub(crate) fn mark(&self, marks: &UseMarks) {
        let (sources, demands) = (self.guards.sources(), self.guards.demands());
        let location = self.location();
        let mut marks = marks.0.borrow_mut();
        // Drops marks that were rolled back.
        marks.retain(|mark| mark.sources <= sources && mark.demands <= demands);
        if let Some(last) = marks.last_mut() {
            (last.sources, last.demands) = (sources, demands);
        }
        marks.push(UseMark { sources, demands, location });
    }

    /// Returns the lines where something was used.
    fn used_at(&self, open: &Open) -> Vec<Line> {
        let Some(marks) = &self.progress.marks else { return Vec::new() };
        let marks = marks.0.borrow();
        let is_after = |mark: &&UseMark| match open.demand {
            Some(number) => mark.demands > number,
            None => mark.sources > open.place.index(),
        };
        marks.iter().find(is_after).or(marks.last()).map(|mark| mark.location.clone()).unwrap_or_default()
    }

    /// Returns the reason why a capture must not become an entry: a use that no guard covers. If it is the use of a number with a stand-in,
    /// the frame is captured again with a constant; otherwise the call stays plain. None if everything that was used follows from the
    /// guards.
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
            let message = format!("{} {}, which no guard covers", open.facet.text(), self.guards.expression(open.place));
            // A use whose guard was forgotten for a test is neither blamed on a stand-in nor listed.
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
