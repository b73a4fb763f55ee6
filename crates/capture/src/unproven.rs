//! Before a captured call becomes an entry: whether all that it has used of what existed follows from its guards.
//!
//! Each use is noted where it happens, each guard where it is made, and neither looks at the other ([`Facet`]). So a place where the two
//! do not agree is found here, whichever code has forgotten it, and not by a user who gets an old answer.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use dynamlir_guards::Facet;
use pyo3::prelude::*;

use crate::{
    graph_break::{GraphBreak, reason},
    state::Capture,
};

/// No guard.
const NONE: usize = usize::MAX;

/// The number of the guard that captures forget.
static FORGOTTEN: AtomicUsize = AtomicUsize::new(NONE);

/// How many demands that were left open are told.
const MOST_TOLD: usize = 64;

/// What was used where no guard says enough, and nothing stood for a number there.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has each capture forget one of its guards, by its number, or none: for tests of what notices that.
pub fn forget_guard(number: Option<usize>) {
    FORGOTTEN.store(number.unwrap_or(NONE), Ordering::Relaxed);
}

/// What captures have used since this was asked last that their guards do not say, in words: for tests, which find nothing.
pub fn unproven() -> Vec<String> {
    std::mem::take(&mut TOLD.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Capture<'_> {
    /// Why a capture must not become an entry: something stands for a number that was used itself. It is captured again, with a constant
    /// there. None if all that was used follows from the guards.
    pub(crate) fn unproven(&self) -> PyResult<Option<GraphBreak>> {
        let forgotten = FORGOTTEN.load(Ordering::Relaxed);
        let is_forgotten = forgotten != NONE && self.guards.forget(forgotten);
        let open = self.guards.open(self.py);
        let words = |facet: Facet| if facet == Facet::Value { "the value of" } else { "what is in" };
        let mut found = None;
        for (place, facet) in open {
            let message = format!("{} {}, which no guard says", words(facet), self.guards.expression(place));
            if is_forgotten || self.blame_place(place)? {
                found.get_or_insert(GraphBreak { reason: reason::UNPROVEN, message, location: Vec::new() });
                continue;
            }
            let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() < MOST_TOLD {
                told.push(message);
            }
        }
        Ok(found)
    }
}
