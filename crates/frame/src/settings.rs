//! What the process has set for all compiled callables (`dynamlir.config`, `error_on_graph_break`): looked at on each call, so without
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
/// The shares of the hits so far.
static HITS: AtomicU64 = AtomicU64::new(0);

/// All hits.
const ALL: u32 = 1 << 31;

/// Sets whether a call that would run as plain Python asks its compiler each time, which may refuse, how many entries there may be, and
/// which share of hits is audited.
pub fn set(refuses_plain: bool, limits: Limits, audited: f64) {
    AUDITED.store((audited.clamp(0.0, 1.0) * f64::from(ALL)) as u64, Ordering::Relaxed);
    REFUSES_PLAIN.store(refuses_plain, Ordering::Relaxed);
    ENTRIES.store(limits.entries, Ordering::Relaxed);
    ACCUMULATED.store(limits.accumulated, Ordering::Relaxed);
}

/// Whether calls are not to run as plain Python.
#[inline]
pub fn refuses_plain() -> bool {
    REFUSES_PLAIN.load(Ordering::Relaxed)
}

/// Whether hits are audited, all or some.
#[inline]
pub fn audits() -> bool {
    AUDITED.load(Ordering::Relaxed) != 0
}

/// Whether this hit is one of those that are audited: they are spread evenly.
pub(crate) fn is_audited() -> bool {
    let share = AUDITED.load(Ordering::Relaxed);
    let before = HITS.fetch_add(share, Ordering::Relaxed);
    before / u64::from(ALL) != before.wrapping_add(share) / u64::from(ALL)
}

/// The module of torch's that knows whether graphs may break, and the name of its global that says so.
pub const BREAKS_ARE_ERRORS: (&str, &str) = ("torch._dynamo.utils", "_error_on_graph_break");

/// Whether the program is where a graph break is an error, by `error_on_graph_break`. Torch's module is not imported for being asked.
pub fn breaks_are_errors(py: Python<'_>) -> bool {
    let Ok(Some(module)) = imported(py, intern!(py, BREAKS_ARE_ERRORS.0)) else { return false };
    let said = module.getattr_opt(intern!(py, BREAKS_ARE_ERRORS.1));
    said.ok().flatten().is_some_and(|said| said.is_truthy().unwrap_or(false))
}

/// How many entries there may be.
pub fn limits() -> Limits {
    Limits { entries: ENTRIES.load(Ordering::Relaxed), accumulated: ACCUMULATED.load(Ordering::Relaxed) }
}
