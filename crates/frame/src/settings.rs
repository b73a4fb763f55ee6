//! Process-wide settings for all compiled callables (`dynamlir.config`, `error_on_graph_break`). They are read on each call, hence without
//! Python.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use dynamlir_cpython_abi::mapping::imported;
use pyo3::{intern, prelude::*};

use crate::cache::Limits;

static REFUSES_PLAIN: AtomicBool = AtomicBool::new(false);
static ENTRIES: AtomicUsize = AtomicUsize::new(8);
static ACCUMULATED: AtomicUsize = AtomicUsize::new(256);
/// The share of hits that are audited, in units of [`ALL`].
static AUDITED: AtomicU64 = AtomicU64::new(0);
/// The accumulated shares of the hits so far.
static HITS: AtomicU64 = AtomicU64::new(0);

/// The share that means all hits.
const ALL: u32 = 1 << 31;

/// Sets whether a call that would run as plain Python queries its compiler each time, which may refuse; the limits on entries; and the
/// share of hits to audit.
pub fn set(refuses_plain: bool, limits: Limits, audited: f64) {
    AUDITED.store((audited.clamp(0.0, 1.0) * f64::from(ALL)) as u64, Ordering::Relaxed);
    REFUSES_PLAIN.store(refuses_plain, Ordering::Relaxed);
    ENTRIES.store(limits.entries, Ordering::Relaxed);
    ACCUMULATED.store(limits.accumulated, Ordering::Relaxed);
}

/// Returns true if calls must not run as plain Python.
#[inline]
pub fn refuses_plain() -> bool {
    REFUSES_PLAIN.load(Ordering::Relaxed)
}

/// Returns true if all or some hits are audited.
#[inline]
pub fn audits() -> bool {
    AUDITED.load(Ordering::Relaxed) != 0
}

/// Returns true if this hit is to be audited. Audited hits are spread evenly.
pub(crate) fn is_audited() -> bool {
    let share = AUDITED.load(Ordering::Relaxed);
    let before = HITS.fetch_add(share, Ordering::Relaxed);
    before / u64::from(ALL) != before.wrapping_add(share) / u64::from(ALL)
}

/// Torch's module that records whether graphs may break, and the name of the global that says so.
pub const BREAKS_ARE_ERRORS: (&str, &str) = ("torch._dynamo.utils", "_error_on_graph_break");

/// Returns true if a graph break is an error at this point of the program, by `error_on_graph_break`. Does not import torch's module for
/// this.
pub fn breaks_are_errors(py: Python<'_>) -> bool {
    let Ok(Some(module)) = imported(py, intern!(py, BREAKS_ARE_ERRORS.0)) else { return false };
    let said = module.getattr_opt(intern!(py, BREAKS_ARE_ERRORS.1));
    said.ok().flatten().is_some_and(|said| said.is_truthy().unwrap_or(false))
}

/// Returns the limits on the number of entries.
pub fn limits() -> Limits {
    Limits { entries: ENTRIES.load(Ordering::Relaxed), accumulated: ACCUMULATED.load(Ordering::Relaxed) }
}
