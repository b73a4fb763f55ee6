//! The compile lock: for each callable, one thread compiles at a time.

use std::{
    cell::Cell,
    sync::{Mutex, PoisonError},
    thread::ThreadId,
};

thread_local! {
    /// The number of locks that this thread holds, for all callables.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The owner of a callable's compile lock: the compiling thread, and how often it has entered.
#[derive(Default)]
pub(crate) struct Turns(Mutex<Option<(ThreadId, usize)>>);

/// Releases the lock when dropped.
pub(crate) struct Turn<'a> {
    of: &'a Turns,
}

impl Turns {
    /// Takes the lock. Returns None while another thread holds it: waiting could last forever, since a compilation may run arbitrary code,
    /// and a second entry for the same call would be superfluous. A compilation that calls the function being compiled already holds the
    /// lock.
    pub(crate) fn take(&self) -> Option<Turn<'_>> {
        let me = std::thread::current().id();
        let mut compiling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *compiling {
            Some((thread, _)) if *thread != me => return None,
            Some((_, depth)) => *depth += 1,
            none => *none = Some((me, 1)),
        }
        HELD.set(HELD.get() + 1);
        Some(Turn { of: self })
    }

    /// Returns true if this thread is compiling, for any callable.
    pub(crate) fn is_any_taken() -> bool {
        HELD.get() > 0
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        let mut compiling = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        *compiling = compiling.take().and_then(|(thread, depth)| (depth > 1).then(|| (thread, depth - 1)));
    }
}
