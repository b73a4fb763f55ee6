//! The frame evaluation hook (PEP 523): per interpreter, with a switch per thread.
//!
//! An installed hook makes every Python call of the interpreter 10 to 25 ns slower, because CPython stops inlining calls. So it is
//! installed only while a [`Hook`] lives. A thread that does not listen passes frames to the previous hook at once.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

use pyo3::{exceptions::PySystemError, ffi, prelude::*, sync::OnceLockExt};

use crate::{Abi, Evaluated, Frame, Refusal, Thread, abi, probe::probe, stack, symbols::EvalFunction};

/// Evaluates a frame, or lets CPython do so. `throw`: an exception is set, to be raised at the frame's position.
pub type Handler = for<'py> fn(frame: Frame<'py>, throw: bool) -> Evaluated<'py>;

thread_local! {
    /// The handler of this thread's frames.
    static HANDLER: Cell<Option<Handler>> = const { Cell::new(None) };
    /// The frame that this thread is passing on to the previous hook.
    static HANDED_ON: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// The data that the hook needs, written before its first installation.
static INSTALLED: OnceLock<&'static Abi> = OnceLock::new();

/// The previous hook (an [`EvalFunction`]), which frames are passed on to; null is CPython itself.
static FORMER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The number of live [`Hook`]s.
static USERS: Mutex<usize> = Mutex::new(0);

/// Passes a frame on to the previous hook.
///
/// # Safety
/// The arguments must be those that CPython passed to the hook.
unsafe fn hand_on(abi: &'static Abi, thread: *mut ffi::PyThreadState, raw: *mut c_void, throw: c_int) -> *mut ffi::PyObject {
    let former = FORMER.load(Ordering::Relaxed);
    // If two hooks install themselves alternately, each has the other as the previous one.
    if former.is_null() || HANDED_ON.get() == raw {
        // SAFETY: the arguments are CPython's own.
        return unsafe { (abi.symbols.eval_default)(thread, raw, throw) };
    }
    let outer = HANDED_ON.replace(raw);
    // SAFETY: only functions of this type are stored, and the arguments are CPython's own.
    let result = unsafe { std::mem::transmute::<*mut c_void, EvalFunction>(former)(thread, raw, throw) };
    HANDED_ON.set(outer);
    result
}

/// The function that CPython calls for each frame. It uses the C stack, which a call from bytecode would not need without a hook.
unsafe extern "C" fn hook(thread: *mut ffi::PyThreadState, raw: *mut c_void, throw: c_int) -> *mut ffi::PyObject {
    let Some(&abi) = INSTALLED.get() else { std::process::abort() };
    let (Some(frame), Some(state)) = (NonNull::new(raw), NonNull::new(thread)) else {
        // SAFETY: the arguments are CPython's own.
        return unsafe { hand_on(abi, thread, raw, throw) };
    };
    // SAFETY: CPython evaluates frames with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let thread = Thread::of(state.cast(), abi, py);
    let evaluate = || match HANDLER.get() {
        Some(handler) => handle(handler, thread, abi, frame, throw),
        // SAFETY: the arguments are CPython's own.
        None => unsafe { hand_on(abi, state.as_ptr(), raw, throw) },
    };
    // If C recursion is at its limit, CPython must detect the end of the stack.
    if thread.has_room(true) { stack::with_room(thread, evaluate) } else { evaluate() }
}

/// Passes a frame to this thread's handler.
fn handle(handler: Handler, thread: Thread<'_>, abi: &'static Abi, frame: NonNull<c_void>, throw: c_int) -> *mut ffi::PyObject {
    let (py, raw) = (thread.py(), frame.as_ptr());
    let ended = Cell::new(false);
    if thread.is_in_tool() {
        // A tool's code is not part of the program: an audit hook runs wherever C code performs an audited operation.
        // SAFETY: the arguments are CPython's own.
        return unsafe { hand_on(abi, thread.as_ptr(), raw, throw) };
    }
    // SAFETY: CPython passes the frame for evaluation, and the hook was installed for this version.
    let frame = unsafe { Frame::new(frame, thread, abi, &ended) };
    match catch_unwind(AssertUnwindSafe(|| handler(frame, throw != 0).raw)) {
        Ok(result) => result,
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            let error = PySystemError::new_err(format!("panic while evaluating a frame: {}", message.unwrap_or("no message")));
            if ended.get() {
                error.restore(py);
                return std::ptr::null_mut();
            }
            // SAFETY: the handler dropped the frame without ending it, so it is still CPython's to leave.
            let frame = unsafe { Frame::new(NonNull::new_unchecked(raw), thread, abi, &ended) };
            frame.raise(error, 0, false).raw
        }
    }
}

/// Keeps the hook installed in the interpreter.
pub struct Hook(());

/// Installs the hook. The first installation examines a sentinel call beforehand.
pub fn install(py: Python<'_>) -> Result<Hook, Refusal> {
    static EXAMINED: OnceLock<Result<(), Refusal>> = OnceLock::new();
    let abi = abi(py)?;
    // The sentinel call may pass the GIL to a thread that gets here too.
    EXAMINED.get_or_init_py_attached(py, || probe(py, abi)).clone()?;
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    INSTALLED.get_or_init(|| abi);
    // SAFETY: the GIL is held, and the interpreter is this thread's.
    unsafe {
        let interpreter = ffi::PyInterpreterState_Get();
        let current = (abi.symbols.get_eval)(interpreter);
        if !std::ptr::fn_addr_eq(current, hook as EvalFunction) {
            let is_default = std::ptr::fn_addr_eq(current, abi.symbols.eval_default);
            FORMER.store(if is_default { std::ptr::null_mut() } else { current as *mut c_void }, Ordering::Relaxed);
            (abi.symbols.set_eval)(interpreter, hook);
        }
    }
    *users += 1;
    Ok(Hook(()))
}

impl Drop for Hook {
    fn drop(&mut self) {
        Python::attach(|_| {
            let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
            *users -= 1;
            let Some(&abi) = INSTALLED.get().filter(|_| *users == 0) else { return };
            // SAFETY: the GIL is held, and only functions of this type are stored. A hook that was installed over ours keeps ours, which
            // then passes all frames on.
            unsafe {
                let interpreter = ffi::PyInterpreterState_Get();
                if std::ptr::fn_addr_eq((abi.symbols.get_eval)(interpreter), hook as EvalFunction) {
                    let former = FORMER.load(Ordering::Relaxed);
                    let former =
                        if former.is_null() { abi.symbols.eval_default } else { std::mem::transmute::<*mut c_void, EvalFunction>(former) };
                    (abi.symbols.set_eval)(interpreter, former);
                }
            }
        });
    }
}

/// Sends this thread's frames to a handler, or with `None` to CPython, until it is dropped.
pub struct Listening {
    former: Option<Handler>,
}

impl Listening {
    /// Sets the handler; `None` stops listening.
    pub fn new(handler: Option<Handler>) -> Self {
        Self { former: HANDLER.replace(handler) }
    }

    /// Returns the current handler of this thread's frames.
    pub fn current() -> Option<Handler> {
        HANDLER.get()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        HANDLER.set(self.former);
    }
}
