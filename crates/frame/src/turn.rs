//! Whose turn it is to compile: one thread's at a time, for each callable.

use std::{
    cell::Cell,
    sync::{Mutex, PoisonError},
    thread::ThreadId,
};

thread_local! {
    /// How many turns this thread has, of all callables.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Who may compile for a callable: the thread that does, and how often it has begun.
#[derive(Default)]
pub(crate) struct Turns(Mutex<Option<(ThreadId, usize)>>);

/// Ends when the compilation does.
pub(crate) struct Turn<'a> {
    of: &'a Turns,
}

impl Turns {
    /// A turn to compile. None while another thread has it: waiting for what may run any code could last for ever, and a second entry
    /// for the same call would be one too many. A compilation that calls what it compiles has the turn already.
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

    /// Whether this thread is compiling, for any callable.
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
