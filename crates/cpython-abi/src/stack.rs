//! The stack of C: deep recursion of Python goes on on stacks of its own.
//!
//! From 3.14 on a thread tells by addresses how deep C may go, so it is told of each stack: it would take another one for used up, or for
//! one without an end.

use std::{cell::Cell, ffi::c_int};

use pyo3::{ffi, prelude::*};

use crate::{Abi, Refusal, Thread, symbols};

/// Below this much of a stack, what runs next runs on a new one.
const RED_ZONE: usize = 256 * 1024;

/// The same for a compilation, in which torch's Python and C++ call each other.
const RED_ZONE_OF_COMPILERS: usize = 4 * 1024 * 1024;

/// The size of a new stack.
const SIZE: usize = 8 * 1024 * 1024;

/// `PyUnstable_ThreadState_SetStackProtection`: the lowest address, and the size. -1 with an exception set.
type Set = unsafe extern "C" fn(*mut ffi::PyThreadState, *mut std::ffi::c_void, usize) -> c_int;
/// `PyUnstable_ThreadState_ResetStackProtection`: the stack is the one that the system gave the thread.
type Reset = unsafe extern "C" fn(*mut ffi::PyThreadState);

/// The functions of CPython that set the bounds of a thread's stack.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    set: Set,
    reset: Reset,
}

impl Told {
    /// Looks the functions up, which 3.14.0 has not.
    pub fn find() -> Result<Self, Refusal> {
        let set = symbols::address("PyUnstable_ThreadState_SetStackProtection")?;
        let reset = symbols::address("PyUnstable_ThreadState_ResetStackProtection")?;
        // SAFETY: the symbols are functions of these types in the headers of the versions that export them.
        Ok(unsafe {
            Self {
                set: std::mem::transmute::<*mut std::ffi::c_void, Set>(set),
                reset: std::mem::transmute::<*mut std::ffi::c_void, Reset>(reset),
            }
        })
    }
}

/// The depth to which calls from C may nest on new stacks: about that of CPython on a stack of the usual size.
const DEEPEST: isize = 10_000;

thread_local! {
    /// The current depth of such calls.
    static CALLS_OF_C: Cell<isize> = const { Cell::new(0) };
    /// The stack that this thread was told of, which is one of ours: its lowest address, and its size.
    static CURRENT: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Returns true if there is room for a call of Python here, or on a stack that the thread can be told of.
pub(crate) fn has_room(abi: &'static Abi) -> bool {
    !abi.layout.knows_stack || abi.told_of_stack.is_some() || stacker::remaining_stack().is_none_or(|left| left >= RED_ZONE)
}

/// Counts calls of Python by C that begin, or end.
pub(crate) fn count_calls_of_c(change: isize) {
    CALLS_OF_C.set(CALLS_OF_C.get() + change);
}

/// Returns true if these are nested as deep as they may be: without a new stack CPython finds the end of this one.
pub(crate) fn is_deep() -> bool {
    CALLS_OF_C.get() >= DEEPEST
}

/// Runs a closure, on a new stack where little is left of this one.
pub fn with_room<R>(thread: Thread<'_>, closure: impl FnOnce() -> R) -> R {
    with_room_of(RED_ZONE, thread, closure)
}

/// Runs a closure by which CPython evaluates a frame that bytecode has called: bytecode needs no stack of C for that, and does not count
/// as a call of C.
pub fn in_place_of_bytecode<R>(thread: Thread<'_>, closure: impl FnOnce() -> R) -> R {
    let _uncounted = thread.uncounted();
    with_room(thread, closure)
}

/// Runs a closure that compiles, on a new stack where this one could turn out too small.
pub fn with_room_to_compile<R>(thread: Thread<'_>, closure: impl FnOnce() -> R) -> R {
    with_room_of(RED_ZONE_OF_COMPILERS, thread, closure)
}

fn with_room_of<R>(needed: usize, thread: Thread<'_>, closure: impl FnOnce() -> R) -> R {
    let abi = thread.abi();
    let is_to_be_told = abi.layout.knows_stack && abi.told_of_stack.is_none();
    if is_to_be_told || stacker::remaining_stack().is_some_and(|left| left >= needed) {
        return closure();
    }
    stacker::grow(SIZE, || {
        let _here = thread.abi().told_of_stack.map(|told| Here::tell(thread, told));
        closure()
    })
}

/// Has a thread know the stack that it runs on, until it is dropped.
struct Here<'py> {
    thread: Thread<'py>,
    told: Told,
    outer: Option<(usize, usize)>,
}

impl<'py> Here<'py> {
    fn tell(thread: Thread<'py>, told: Told) -> Self {
        let top = &raw const thread as usize;
        let left = stacker::remaining_stack().unwrap_or(SIZE);
        // The part of the stack above this address is in use.
        let here = Self { thread, told, outer: CURRENT.get() };
        here.set(Some((top - left, left)));
        here
    }

    fn set(&self, stack: Option<(usize, usize)>) {
        CURRENT.set(stack);
        let Some((lowest, size)) = stack else {
            // SAFETY: the thread is this one, and goes back to the stack that the system gave it.
            unsafe { (self.told.reset)(self.thread.as_ptr()) };
            return;
        };
        // SAFETY: the thread is this one, and runs on the stack with these bounds, or goes back to it.
        let status = unsafe { (self.told.set)(self.thread.as_ptr(), lowest as *mut std::ffi::c_void, size) };
        if status < 0 {
            // Bounds of a stack that is too small, which ours is not. The thread goes on as before.
            drop(PyErr::take(self.thread.py()));
        }
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.set(self.outer);
    }
}
