//! The cycle collector, while a call is compiled.
//!
//! A capture makes some ten thousand objects within a moment, which CPython takes for a reason to look through all objects
//! of the process; nearly all of these are torch's and the user's modules, and ours are gone when the compilation is. Nor are
//! finalizers of other people's objects, which a collection runs, a part of what is captured.

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use pyo3::{ffi, prelude::*};

/// Pauses in place, of all threads. Changed with the lock held, as is the next one.
static PAUSES: AtomicUsize = AtomicUsize::new(0);
/// Whether the first of them turned the collector off.
static WAS_ON: AtomicBool = AtomicBool::new(false);

/// No collection until this is dropped, and those of other threads are.
pub struct Paused<'py>(PhantomData<Python<'py>>);

/// Pauses the collector, unless it is off.
pub fn pause(_: Python<'_>) -> Paused<'_> {
    if PAUSES.fetch_add(1, Relaxed) == 0 {
        // SAFETY: the lock is held, which is all that this asks for.
        WAS_ON.store(unsafe { ffi::PyGC_Disable() } == 1, Relaxed);
    }
    Paused(PhantomData)
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        // In a process that was forked meanwhile there are none left.
        if PAUSES.fetch_update(Relaxed, Relaxed, |pauses| pauses.checked_sub(1)) == Ok(1) {
            go_on();
        }
    }
}

/// Ends all pauses, for a process that another thread has forked: it has none of the threads that would.
pub(crate) fn forked(_: Python<'_>) {
    if PAUSES.swap(0, Relaxed) > 0 {
        go_on();
    }
}

/// The caller holds the lock.
fn go_on() {
    if WAS_ON.load(Relaxed) {
        // SAFETY: the callers hold the lock: they have its token, or a value that has its lifetime.
        unsafe { ffi::PyGC_Enable() };
    }
}
