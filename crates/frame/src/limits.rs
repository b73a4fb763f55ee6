//! Limits: decides whether an entry may be created for a call that misses.
//!
//! The number of entries must be limited, since a call that never hits would be recompiled forever. But sizes of 0 and 1 have entries of
//! their own, and dynamic sizes are discovered one after the other: a program whose inputs are one text or several, of one word or more,
//! with a cache or without, has a dozen entries that are all useful. So the limits apply to the number of *kinds* of calls, which differ in
//! more than sizes, and to the number of entries of each kind that no later one covers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use pyo3::prelude::*;

use crate::{Entry, Limits, back_off::BackOff, callable::Miss, settings};

/// The number of entries in a row that may fail for the call for which they were created, by chance.
const TOLERATED: u32 = 9;

/// The admission of a callable's misses to compilation: after useless work, fewer of them are inspected or compiled.
pub struct Admission {
    /// True if the last entry had no room.
    full: AtomicBool,
    /// The longer entries have had no room, the fewer calls are inspected.
    crowded: BackOff,
    /// The more entries in a row do not pass for the call for which they were created, the fewer are created.
    unsteady: BackOff,
    /// True if the guards of the last entry passed.
    steady: AtomicBool,
}

impl Default for Admission {
    fn default() -> Self {
        let [full, steady] = [(); 2].map(|()| AtomicBool::new(false));
        Self { full, crowded: BackOff::new(0), unsteady: BackOff::new(TOLERATED), steady }
    }
}

impl Admission {
    /// Returns true if this miss is to be skipped, since the last entries did not pass for their own calls.
    pub fn skips(&self) -> bool {
        self.unsteady.skips()
    }

    /// Returns true if one more entry may be created. `tell` is called with the answer, unless it is no for the second time in a row and
    /// calls may run as plain Python.
    pub fn admits(&self, miss: &Miss<'_, '_>, tell: impl FnOnce(bool) -> PyResult<()>) -> PyResult<bool> {
        let room = self.has_room(miss);
        if !room && self.full.load(Ordering::Relaxed) && !settings::refuses_plain() {
            return Ok(false);
        }
        tell(room)?;
        self.full.store(!room, Ordering::Relaxed);
        Ok(room)
    }

    /// Returns true if one more entry is within the limits.
    fn has_room(&self, miss: &Miss<'_, '_>) -> bool {
        let limits = settings::limits();
        if let Some(known) = miss.surely_has_room(limits) {
            return known;
        }
        if self.crowded.skips() {
            return false;
        }
        let room = miss.has_room(limits);
        if room {
            self.crowded.succeeded();
        } else {
            self.crowded.failed();
        }
        room
    }

    /// Records that an entry was created.
    pub fn created(&self) {
        if self.steady.swap(true, Ordering::Relaxed) {
            self.unsteady.succeeded();
        }
    }

    /// Records that the last entry did not pass for the call for which it was created.
    pub fn did_not_pass(&self) {
        self.steady.store(false, Ordering::Relaxed);
        self.unsteady.failed();
    }
}

/// The common class of entries whose calls differ only in sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizeClass(u64);

impl SizeClass {
    fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Miss<'_, '_> {
    /// Returns whether one more entry is within the limits, as far as this is decidable without inspecting the call. Returns None if the
    /// call must be inspected, which costs as much as a capture of a small function.
    fn surely_has_room(&self, limits: Limits) -> Option<bool> {
        let entries = self.cache.entries();
        if entries.iter().filter(|entry| entry.guards.is_valid()).count() >= limits.accumulated {
            return Some(false);
        }
        let kinds = self.kinds();
        let count = kinds.values().sum::<usize>();
        if count < limits.entries {
            return Some(true);
        }
        // One of the kinds may have room.
        let fits = kinds.len() < limits.entries || kinds.values().any(|count| *count < limits.entries);
        if fits { None } else { Some(false) }
    }

    /// Returns true if one more entry is within the limits; inspects the call.
    fn has_room(&self, limits: Limits) -> bool {
        let kinds = self.kinds();
        match self.known_kind() {
            Some(kind) => kinds.get(&kind).is_none_or(|count| *count < limits.entries),
            None => kinds.len() < limits.entries,
        }
    }

    /// Returns the kind of the call: that of an entry whose calls differ from it only in sizes, or a new one.
    pub fn kind(&self) -> SizeClass {
        self.known_kind().unwrap_or_else(SizeClass::fresh)
    }

    fn known_kind(&self) -> Option<SizeClass> {
        let entries = self.cache.of_key(self.callable.key());
        // A check that raises means another kind.
        let alike = |entry: &&Arc<Entry>| entry.guards.differs_in_sizes(self.roots()).unwrap_or(false);
        entries.iter().find(alike).map(|entry| entry.kind)
    }

    /// Returns the number of counting entries of each kind.
    fn kinds(&self) -> HashMap<SizeClass, usize> {
        let mut kinds = HashMap::new();
        for entry in self.cache.of_key(self.callable.key()).iter().filter(|entry| entry.counts()) {
            *kinds.entry(entry.kind).or_default() += 1;
        }
        kinds
    }
}
