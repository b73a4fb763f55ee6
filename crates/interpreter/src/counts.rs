//! Counters of evaluated frames, and the reasons why the others were not evaluated here.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counters since the start of the process, or since [`reset_counts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls and resumptions evaluated here.
    pub interpreted: u64,
    /// Calls that only created a generator, coroutine or asynchronous generator; CPython does that.
    pub made_generators: u64,
    /// Calls and resumptions run by CPython, by reason.
    pub left: BTreeMap<String, u64>,
}

static INTERPRETED: AtomicU64 = AtomicU64::new(0);
static MADE_GENERATORS: AtomicU64 = AtomicU64::new(0);
static LEFT: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

pub(crate) fn interpreted() {
    INTERPRETED.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn made_generator() {
    MADE_GENERATORS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn left(reason: &str) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = left.get_mut(reason) {
        *count += 1;
    } else {
        left.insert(reason.to_owned(), 1);
    }
}

/// Returns the counters.
pub fn counts() -> Counts {
    Counts {
        interpreted: INTERPRETED.load(Ordering::Relaxed),
        made_generators: MADE_GENERATORS.load(Ordering::Relaxed),
        left: LEFT.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    }
}

/// Resets the counters.
pub fn reset_counts() {
    INTERPRETED.store(0, Ordering::Relaxed);
    MADE_GENERATORS.store(0, Ordering::Relaxed);
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
