//! What the process has set for all compiled callables (`dynamlir.config`): looked at on each call, so without Python.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::cache::Limits;

static REFUSES_PLAIN: AtomicBool = AtomicBool::new(false);
static ENTRIES: AtomicUsize = AtomicUsize::new(8);
static ACCUMULATED: AtomicUsize = AtomicUsize::new(256);

/// Sets whether a call that would run as plain Python asks its compiler each time, which may refuse, and how many entries there may be.
pub fn set(refuses_plain: bool, limits: Limits) {
    REFUSES_PLAIN.store(refuses_plain, Ordering::Relaxed);
    ENTRIES.store(limits.entries, Ordering::Relaxed);
    ACCUMULATED.store(limits.accumulated, Ordering::Relaxed);
}

/// Whether calls are not to run as plain Python.
#[inline]
pub fn refuses_plain() -> bool {
    REFUSES_PLAIN.load(Ordering::Relaxed)
}

/// How many entries there may be.
pub fn limits() -> Limits {
    Limits { entries: ENTRIES.load(Ordering::Relaxed), accumulated: ACCUMULATED.load(Ordering::Relaxed) }
}
