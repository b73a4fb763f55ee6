//! The C stack: deep recursion of Python continues on separate stacks.
//!
//! From 3.14 on, a thread limits C recursion by addresses, so it is notified about each new stack. Otherwise it would consider another
//! stack exhausted, or unlimited.

use std::{cell::Cell, ffi::c_int};

use pyo3::{ffi, prelude::*};

use crate::{Abi, Refusal, Thread, symbols};

/// If less than this is left of a stack, the next call runs on a new one.
const RED_ZONE: usize = 256 * 1024;

/// The same for a compilation, in which torch's Python and C++ code call each other.
const RED_ZONE_OF_COMPILERS: usize = 4 * 1024 * 1024;

/// The size of a new stack.
const SIZE: usize = 8 * 1024 * 1024;

/// `PyUnstable_ThreadState_SetStackProtection`: takes the lowest address and the size. -1 with an exception set.
type Set = unsafe extern "C" fn(*mut ffi::PyThreadState, *mut std::ffi::c_void, usize) -> c_int;
/// `PyUnstable_ThreadState_ResetStackProtection`: resets the bounds to those of the thread's system stack.
type Reset = unsafe extern "C" fn(*mut ffi::PyThreadState);

/// The functions of CPython that set the bounds of a thread's stack.
#[derive(Clone, Copy)]
pub(crate) struct StackBounds {
    set: Set,
    reset: Reset,
}

impl StackBounds {
    /// Looks up the functions, which 3.14.0 lacks.
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

/// The maximum nesting of calls from C on new stacks: about that of CPython on a stack of the usual size.
const DEEPEST: isize = 10_000;

thread_local! {
    /// The current nesting of such calls.
    static CALLS_OF_C: Cell<isize> = const { Cell::new(0) };
    /// The lowest address and the size of the stack that the thread was notified about, if it is one of ours.
    static CURRENT: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Returns true if there is room for a Python call here, or on a new stack that the thread can be notified about.
pub(crate) fn has_room(abi: &'static Abi) -> bool {
    !abi.layout.knows_stack || abi.told_of_stack.is_some() || stacker::remaining_stack().is_none_or(|left| left >= RED_ZONE)
}

/// Counts Python calls from C that begin or end.
pub(crate) fn count_calls_of_c(change: isize) {
    CALLS_OF_C.set(CALLS_OF_C.get() + change);
}

/// Returns true if such calls have reached their maximum nesting: without a new stack, CPython detects the end of this one.
pub(crate) fn is_deep() -> bool {
    CALLS_OF_C.get() >= DEEPEST
}

/// Runs a closure, on a new stack if little is left of this one.
pub fn with_room<R>(thread: Thread<'_>, closure: impl FnOnce() -> R) -> R {
    with_room_of(RED_ZONE, thread, closure)
}

/// Runs a closure by which CPython evaluates a frame that was called by bytecode: such a call needs no C stack, and does not count as a
/// call from C.
pub fn in_place_of_bytecode<R>(thread: Thread<'_>, closure: impl FnOnce() -> R) -> R {
    let _uncounted = thread.uncounted();
    with_room(thread, closure)
}

/// Runs a closure that compiles, on a new stack if this one could turn out too small.
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

/// Sets a thread's stack bounds to those of its current stack, until dropped.
struct Here<'py> {
    thread: Thread<'py>,
    told: StackBounds,
    outer: Option<(usize, usize)>,
}

impl<'py> Here<'py> {
    fn tell(thread: Thread<'py>, told: StackBounds) -> Self {
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
            // SAFETY: the thread is this one, and returns to its system stack.
            unsafe { (self.told.reset)(self.thread.as_ptr()) };
            return;
        };
        // SAFETY: the thread is this one, and runs on the stack with these bounds, or returns to it.
        let status = unsafe { (self.told.set)(self.thread.as_ptr(), lowest as *mut std::ffi::c_void, size) };
        if status < 0 {
            // Only a stack that is too small is refused, which ours is not. The thread continues as before.
            drop(PyErr::take(self.thread.py()));
        }
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.set(self.outer);
    }
}
