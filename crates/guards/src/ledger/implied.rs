//! For tests of the detection of missing guards: a capture forgets one of its guards, or one of its relations.

use pyo3::prelude::*;

use super::{
    Facet, LedgerProof,
    facts::{Kind, says},
};
use crate::{Guard, GuardBuilder, Source, SourceId, builder::State};

/// A guard that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The guard as text.
    pub text: String,
    /// True if it follows from the other guards.
    pub implied: bool,
}

impl GuardBuilder {
    /// Forgets the guard with a number. Returns None if this number does not exist.
    #[must_use]
    pub fn forget(&self, py: Python<'_>, number: usize) -> Option<Forgotten> {
        let mut state = self.state.borrow_mut();
        let (place, guard) = (number < state.guards.len()).then(|| state.guards.remove(number))?;
        let implied = LedgerProof::new(py, &state).implies(place, &guard, &state);
        let words = match &guard {
            Guard::Type(_) => "type",
            Guard::Identity(_) => "identity",
            Guard::DictKeys(_) => "keys",
            Guard::SetElements(_) | Guard::SetOrder(_) => "elements",
            Guard::Code(_) => "code",
            Guard::Tensor(_) => "metadata",
            Guard::Equals(_) => "value",
            Guard::Present => "presence",
            Guard::Absent => "absence",
            Guard::Length(_) => "length",
            Guard::Compares(_) => "comparison",
            Guard::Contents(_) => "contents",
            Guard::Unwatched => "watchers",
        };
        let text = format!("the {words} of {}", state.sources.expression(place));
        // Dropping these may run Python code, which may re-enter the builder.
        drop(state);
        drop(guard);
        Some(Forgotten { text, implied })
    }
}

impl LedgerProof<'_> {
    /// Returns true if a guard follows from the others.
    fn implies(&self, place: SourceId, guard: &Guard, state: &State) -> bool {
        let said = self.covered[place.index()];
        match guard {
            Guard::Present => {
                said.says != 0
                    || state.guards.iter().any(|(id, guard)| {
                        let mut at = Some(*id).filter(|_| !guard.holds_of_nothing());
                        while let Some(id) = at.filter(|id| *id != place) {
                            at = state.sources.get(id).base();
                        }
                        at.is_some()
                    })
            }
            // Function defaults are either a tuple or missing.
            Guard::Type(_) if matches!(state.sources.get(place), Source::Defaults(_)) => said.says & says::COUNTED != 0,
            Guard::Type(_) => self.says(place, Facet::Class),
            Guard::Identity(_) => said.says & (says::PINNED | says::CODE) != 0 || self.says(place, Facet::Itself),
            Guard::Length(_) => said.says & says::KEYED != 0 || self.is_exact(place) && said.kind != Kind::Plain,
            Guard::Equals(_) => self.is_exact(place),
            Guard::Code(_) => said.says & says::CODE != 0,
            Guard::Unwatched => said.says & says::UNWATCHED != 0,
            Guard::Absent | Guard::Tensor(_) | Guard::Compares(_) | Guard::Contents(_) => false,
            Guard::DictKeys(_) | Guard::SetElements(_) | Guard::SetOrder(_) => said.says & says::KEYED != 0 || self.is_exact(place),
        }
    }
}
