//! The cycle collector, while a call is compiled.
//!
//! A capture makes some ten thousand objects within a moment, which CPython takes for a reason to look through all objects
//! of the process; nearly all of these are torch's and the user's modules, and ours are gone when the compilation is.

use std::marker::PhantomData;

use pyo3::{ffi, prelude::*};

/// No collection until this is dropped. Where several threads pause, the first one to leave ends it for all: it is no promise.
pub struct Paused<'py> {
    was_on: bool,
    py: PhantomData<Python<'py>>,
}

/// Pauses the collector, unless it is off.
pub fn pause(_: Python<'_>) -> Paused<'_> {
    // SAFETY: the lock is held, which is all that these ask for.
    let was_on = unsafe { ffi::PyGC_Disable() } == 1;
    Paused { was_on, py: PhantomData }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: the lock is held for as long as `'py`.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}
