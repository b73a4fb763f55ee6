//! The thread state: the running frame, recursion, the exception being handled, and the interruption of loops.

use std::{
    ffi::{c_int, c_void},
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicU8, Ordering},
};

use pyo3::{exceptions::PyBaseException, ffi, prelude::*};

use crate::{
    Abi, Refusal, abi,
    exception::{self, came_in_place},
    layout::{CRecursion, CurrentFrame, EvalBreaker},
    stack,
};

/// The state of the running thread. Held with the GIL, so no other thread changes it, except the eval breaker.
#[derive(Clone, Copy)]
pub struct Thread<'py> {
    raw: NonNull<c_void>,
    abi: &'static Abi,
    py: Python<'py>,
    _not_send: PhantomData<*mut ()>,
}

/// The number of additional calls that `Thread::with_room` allows. CPython's own limits leave far more of the C stack than these take.
const ROOM: c_int = 50;

/// Records if the eval breaker is where the table says: 0 not examined, 1 yes, 2 no.
pub(crate) static EVAL_BREAKER: AtomicU8 = AtomicU8::new(0);

impl<'py> Thread<'py> {
    /// Returns the running thread's state.
    pub fn current(py: Python<'py>) -> Result<Self, Refusal> {
        let abi = abi(py)?;
        // SAFETY: the GIL is held, so there is a thread state.
        let raw = unsafe { ffi::PyThreadState_Get() };
        let raw = NonNull::new(raw.cast()).ok_or(Refusal::Layout("no thread state"))?;
        Ok(Self { raw, abi, py, _not_send: PhantomData })
    }

    pub(crate) fn of(raw: NonNull<c_void>, abi: &'static Abi, py: Python<'py>) -> Self {
        Self { raw, abi, py, _not_send: PhantomData }
    }

    pub(crate) fn abi(self) -> &'static Abi {
        self.abi
    }

    pub(crate) fn as_ptr(self) -> *mut ffi::PyThreadState {
        self.raw.as_ptr().cast()
    }

    /// Returns the GIL token.
    pub fn py(self) -> Python<'py> {
        self.py
    }

    fn field<T>(self, offset: usize) -> NonNull<T> {
        // SAFETY: the offsets come from the layout table and are within the thread state.
        unsafe { self.raw.byte_add(offset) }.cast()
    }

    /// Returns the address of the thread's pointer to its current frame.
    pub(crate) fn current_frame(self) -> NonNull<*mut c_void> {
        match self.abi.layout.thread.current_frame {
            CurrentFrame::CFrame { cframe, frame } => {
                // SAFETY: a running thread has a cframe, which lives on the stack of a caller or in the thread state.
                unsafe { self.field::<NonNull<c_void>>(cframe).read().byte_add(frame) }.cast()
            }
            CurrentFrame::Direct(frame) => self.field(frame),
        }
    }

    /// Returns true if a trace or profile function watches this thread.
    pub fn is_watched(self) -> bool {
        let layout = &self.abi.layout.thread;
        // SAFETY: the fields are function pointers, or NULL.
        let functions = unsafe { [self.field::<*const c_void>(layout.trace).read(), self.field::<*const c_void>(layout.profile).read()] };
        functions.iter().any(|function| !function.is_null())
    }

    /// Returns true if a tool's code is running: a trace function, a callback of `sys.monitoring`, an audit hook. It is not part of the
    /// running program, and CPython does not show it to other tools either.
    pub fn is_in_tool(self) -> bool {
        self.tracing() != 0
    }

    pub(crate) fn tracing(self) -> i32 {
        // SAFETY: the layout says that an int is there.
        unsafe { self.field::<c_int>(self.abi.layout.thread.tracing).read() }
    }

    /// Returns the number of Python frames that may still be entered before a `RecursionError`.
    pub fn recursion_remaining(self) -> i32 {
        // SAFETY: the layout says that an int is there.
        unsafe { self.field::<c_int>(self.abi.layout.thread.recursion_remaining).read() }
    }

    fn count(self, offset: usize, change: c_int) {
        let counter = self.field::<c_int>(offset);
        // SAFETY: the layout says that an int is there; only this thread counts in its state.
        unsafe { counter.write(counter.read() + change) };
    }

    /// Returns true if a Python frame may be entered. If false, CPython's own evaluation raises the `RecursionError`. `from_c`: the frame
    /// is not called by bytecode, so it counts as a call from C too.
    pub fn may_enter(self, from_c: bool) -> bool {
        let c_remaining = |c: CRecursion| {
            // SAFETY: the layout says that an int is there.
            unsafe { self.field::<c_int>(c.remaining).read() }
        };
        let c_may = !from_c || self.abi.layout.thread.c_recursion.is_none_or(|c| c_remaining(c) > c.units);
        c_may && self.recursion_remaining() > 0
    }

    /// Returns true if there is room for a Python frame. If the thread knows its stack, calls from C are limited even though new stacks
    /// could always be added.
    pub fn has_room(self, from_c: bool) -> bool {
        stack::has_room(self.abi) && !(from_c && self.abi.layout.knows_stack && stack::is_deep())
    }

    /// Counts entering a Python frame.
    pub fn enter(self, from_c: bool) {
        if from_c {
            stack::count_calls_of_c(1);
        }
        self.count(self.abi.layout.thread.recursion_remaining, -1);
        if let Some(c) = self.abi.layout.thread.c_recursion.filter(|_| from_c) {
            self.count(c.remaining, -c.units);
        }
    }

    /// Counts leaving a Python frame.
    pub fn leave(self, from_c: bool) {
        if from_c {
            stack::count_calls_of_c(-1);
        }
        self.count(self.abi.layout.thread.recursion_remaining, 1);
        if let Some(c) = self.abi.layout.thread.c_recursion.filter(|_| from_c) {
            self.count(c.remaining, c.units);
        }
    }

    /// Compensates for the frame that is evaluated next, which CPython counts as called from C.
    pub(crate) fn uncounted(self) -> Uncounted<'py> {
        let uncounted = Uncounted(self);
        uncounted.change(1);
        uncounted
    }

    /// Runs a closure with room for a few more calls, for our own queries about a `RecursionError` where it is raised. They must not call
    /// the user's code, which might recurse here endlessly.
    pub fn with_room<R>(self, closure: impl FnOnce() -> R) -> R {
        struct Room<'py>(Thread<'py>);
        impl Room<'_> {
            fn change(&self, calls: c_int) {
                let layout = &self.0.abi.layout.thread;
                self.0.count(layout.recursion_remaining, calls);
                if let Some(c) = layout.c_recursion {
                    self.0.count(c.remaining, calls * c.units);
                }
            }
        }
        impl Drop for Room<'_> {
            fn drop(&mut self) {
                self.change(-ROOM);
            }
        }
        let room = Room(self);
        room.change(ROOM);
        closure()
    }

    pub(crate) fn recursion_limit(self) -> i32 {
        // SAFETY: the layout says that an int is there.
        unsafe { self.field::<c_int>(self.abi.layout.thread.recursion_limit).read() }
    }

    fn handled(self) -> NonNull<*mut ffi::PyObject> {
        // SAFETY: the thread always has a stack item for the exception being handled, whose first member is the exception.
        unsafe { self.field::<NonNull<*mut ffi::PyObject>>(self.abi.layout.thread.exc_info).read() }
    }

    pub(crate) fn handled_address(self) -> *mut ffi::PyObject {
        // SAFETY: as in `handled`.
        unsafe { self.handled().read() }
    }

    /// Returns the exception that this generator, or this thread outside generators, is handling. A new reference; it may be `None`.
    pub fn handled_exception(self) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the item owns a reference, or holds NULL.
        unsafe { Bound::from_borrowed_ptr_or_opt(self.py, self.handled().read()) }
    }

    /// Sets the exception being handled and returns the old one.
    pub fn replace_handled_exception(self, exception: Option<Bound<'py, PyAny>>) -> Option<Bound<'py, PyAny>> {
        let new = exception.map_or(std::ptr::null_mut(), Bound::into_ptr);
        // SAFETY: the item takes ownership of our reference and we take the item's.
        unsafe { Bound::from_owned_ptr_or_opt(self.py, self.handled().replace(new)) }
    }

    /// Returns the innermost exception being handled in this thread: the one that a bare `raise` re-raises. A new reference.
    pub fn topmost_handled_exception(self) -> Option<Bound<'py, PyAny>> {
        // SAFETY: returns a new reference, or NULL without an exception.
        unsafe { Bound::from_owned_ptr_or_opt(self.py, ffi::PyErr_GetHandledException()) }.filter(|exception| !exception.is_none())
    }

    /// Adds the current frame to an exception's traceback.
    pub fn traceback_here(self, error: PyErr) -> PyErr {
        // SAFETY: borrows from the thread; NULL while no frame is complete.
        let frame = unsafe { ffi::PyEval_GetFrame() };
        if came_in_place(self.py, &error) || frame.is_null() {
            return error;
        }
        error.restore(self.py);
        // SAFETY: an exception is set and the frame is alive. A failure replaces the exception, as in CPython.
        unsafe { ffi::PyTraceBack_Here(frame) };
        PyErr::fetch(self.py)
    }

    /// Returns the word that is nonzero while work is pending.
    pub(crate) fn eval_breaker(self) -> usize {
        let layout = &self.abi.layout.thread;
        match layout.eval_breaker {
            EvalBreaker::Interpreter(offset) => {
                // SAFETY: the state's interpreter is alive, and the layout says that an int is there. Other threads write it without the
                // GIL, as they do under CPython's own relaxed reads; a volatile read is not torn.
                let value =
                    unsafe { self.field::<NonNull<c_void>>(layout.interpreter).read().byte_add(offset).cast::<c_int>().read_volatile() };
                value as usize
            }
            EvalBreaker::Thread(offset) => {
                // SAFETY: as above, for a word of the thread state; its low byte has the events.
                let value = unsafe { self.field::<usize>(offset).read_volatile() };
                value & 0xff
            }
        }
    }

    /// Returns true if work is pending: signals, pending calls, the collector, other threads. `None` if the location of the flag is
    /// unknown.
    pub fn is_interrupted(self) -> Option<bool> {
        (EVAL_BREAKER.load(Ordering::Relaxed) == 1).then(|| self.eval_breaker() != 0)
    }

    /// Handles pending work, as a backward jump does: signal handlers run in the current frame; pending calls, asynchronous exceptions and
    /// requests for the GIL are handled at the start of `idle`, a function that does nothing.
    pub fn checkpoint(self, idle: &Bound<'py, PyAny>) -> PyResult<()> {
        self.py.check_signals()?;
        if self.is_interrupted() != Some(false) {
            idle.call0().map_err(|error| exception::without_first_entry(self.py, error))?;
        }
        Ok(())
    }
}

/// Gives back the C recursion depth of one evaluation for its duration.
pub(crate) struct Uncounted<'py>(Thread<'py>);

impl Uncounted<'_> {
    fn change(&self, evaluations: c_int) {
        if let Some(c) = self.0.abi.layout.thread.c_recursion {
            self.0.count(c.remaining, evaluations * c.units);
        }
    }
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        self.change(-1);
    }
}

/// Returns the exception instance of an error; `PyErr`s hold normalised exceptions.
pub(crate) fn value_of(py: Python<'_>, error: PyErr) -> Bound<'_, PyBaseException> {
    error.into_value(py).into_bound(py)
}
