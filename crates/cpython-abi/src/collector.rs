//! The cycle collector, while a call is compiled.
//!
//! A capture creates some ten thousand objects within a moment. CPython takes this as a reason to scan all objects of the process; nearly
//! all of them belong to torch's and the user's modules, and ours are gone when the compilation is done. A collection would also run
//! finalizers of unrelated objects, which are not part of the captured code.

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use pyo3::{ffi, prelude::*};

/// The active pauses of all threads. Changed with the GIL held, as is [`WAS_ON`].
static PAUSES: AtomicUsize = AtomicUsize::new(0);
/// True if the first pause turned the collector off.
static WAS_ON: AtomicBool = AtomicBool::new(false);

/// Prevents collections until this pause, and those of other threads, are dropped.
pub struct Paused<'py>(PhantomData<Python<'py>>);

/// Pauses the collector, unless it is off.
pub fn pause(_: Python<'_>) -> Paused<'_> {
    if PAUSES.fetch_add(1, Relaxed) == 0 {
        // SAFETY: the GIL is held, which is all that this requires.
        WAS_ON.store(unsafe { ffi::PyGC_Disable() } == 1, Relaxed);
    }
    Paused(PhantomData)
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        // In a process forked in the meantime, no pauses are left.
        if PAUSES.fetch_update(Relaxed, Relaxed, |pauses| pauses.checked_sub(1)) == Ok(1) {
            go_on();
        }
    }
}

/// Ends all pauses in a process forked by another thread: it lacks the threads that would end them.
pub(crate) fn forked(_: Python<'_>) {
    if PAUSES.swap(0, Relaxed) > 0 {
        go_on();
    }
}

/// Turns the collector on again. The caller must hold the GIL.
fn go_on() {
    if WAS_ON.load(Relaxed) {
        // SAFETY: the callers hold the GIL: they have its token, or a value with its lifetime.
        unsafe { ffi::PyGC_Enable() };
    }
}
