//! Whether a call that no entry fits may have one made.
//!
//! There are to be few entries, since what never fits would be compiled for ever. But sizes of 0 and 1 are entries of their own, and sizes
//! that vary are found out one after the other: a program whose inputs are a text or several, of one word or more, with a cache or without
//! has a dozen that are all of use. So what is limited is how many *kinds* of calls there are, which differ in more than sizes, and how many
//! entries each kind has that no later one covers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Entry, Limits, call::Miss};

/// What entries have in common whose calls differ in sizes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(u64);

impl Kind {
    fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Miss<'_, '_> {
    /// Whether one more entry is within the limits, as far as that can be told without looking at the call; None where it has to be
    /// looked at, which costs as much as a capture of a small function.
    pub fn surely_has_room(&self, limits: Limits) -> Option<bool> {
        let entries = self.cache.entries();
        if entries.iter().filter(|entry| entry.guards.is_valid()).count() >= limits.accumulated {
            return Some(false);
        }
        let kinds = self.kinds();
        let count = kinds.values().sum::<usize>();
        if count < limits.entries {
            return Some(true);
        }
        // There may be a kind that has room.
        let fits = kinds.len() < limits.entries || kinds.values().any(|count| *count < limits.entries);
        if fits { None } else { Some(false) }
    }

    /// The same for the call as it is.
    pub fn has_room(&self, limits: Limits) -> bool {
        let kinds = self.kinds();
        match self.known_kind() {
            Some(kind) => kinds.get(&kind).is_none_or(|count| *count < limits.entries),
            None => kinds.len() < limits.entries,
        }
    }

    /// The kind of the call: that of an entry from whose calls it differs in sizes only, or a new one.
    pub fn kind(&self) -> Kind {
        self.known_kind().unwrap_or_else(Kind::fresh)
    }

    fn known_kind(&self) -> Option<Kind> {
        let entries = self.cache.of_key(self.callable.key());
        // What raises while it is looked at is another kind.
        let alike = |entry: &&Arc<Entry>| entry.guards.differs_in_sizes(self.roots()).unwrap_or(false);
        entries.iter().find(alike).map(|entry| entry.kind)
    }

    /// How many entries of each kind count.
    fn kinds(&self) -> HashMap<Kind, usize> {
        let mut kinds = HashMap::new();
        for entry in self.cache.of_key(self.callable.key()).iter().filter(|entry| entry.counts()) {
            *kinds.entry(entry.kind).or_default() += 1;
        }
        kinds
    }
}
