//! The frame evaluation hook (PEP 523): per interpreter, with a switch per thread.
//!
//! An installed hook costs every Python call of the interpreter 10 to 25 ns, because CPython stops inlining calls, so it is
//! there only while a [`Hook`] lives. A thread that does not listen goes on to the former hook at once.

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

/// Evaluates a frame, or lets CPython do it. `throw` says that an exception is set, to be raised where the frame stands.
pub type Handler = for<'py> fn(frame: Frame<'py>, throw: bool) -> Evaluated<'py>;

thread_local! {
    /// Who gets this thread's frames.
    static HANDLER: Cell<Option<Handler>> = const { Cell::new(None) };
    /// The frame that this thread is handing on to the former hook.
    static HANDED_ON: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// What the hook needs, written before it is installed first.
static INSTALLED: OnceLock<&'static Abi> = OnceLock::new();

/// An [`EvalFunction`]: whom to hand frames on to; null is CPython itself.
static FORMER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// How many [`Hook`]s live.
static USERS: Mutex<usize> = Mutex::new(0);

/// Hands a frame on to whoever was there before.
///
/// # Safety
/// The arguments are those that CPython gave to the hook.
unsafe fn hand_on(abi: &'static Abi, thread: *mut ffi::PyThreadState, raw: *mut c_void, throw: c_int) -> *mut ffi::PyObject {
    let former = FORMER.load(Ordering::Relaxed);
    // Two hooks that take turns at installing themselves have each other as the former one.
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

/// What CPython calls for each frame. It takes the stack of C, where bytecode that calls a function would not without a hook.
unsafe extern "C" fn hook(thread: *mut ffi::PyThreadState, raw: *mut c_void, throw: c_int) -> *mut ffi::PyObject {
    let Some(&abi) = INSTALLED.get() else { std::process::abort() };
    let (Some(frame), Some(state)) = (NonNull::new(raw), NonNull::new(thread)) else {
        // SAFETY: the arguments are CPython's own.
        return unsafe { hand_on(abi, thread, raw, throw) };
    };
    // SAFETY: CPython evaluates frames with the lock held.
    let py = unsafe { Python::assume_attached() };
    let thread = Thread::of(state.cast(), abi, py);
    let evaluate = || match HANDLER.get() {
        Some(handler) => handle(handler, thread, abi, frame, throw),
        // SAFETY: the arguments are CPython's own.
        None => unsafe { hand_on(abi, state.as_ptr(), raw, throw) },
    };
    // Where C is as deep as it may be, CPython is to find the end of the stack.
    if thread.has_room(true) { stack::with_room(thread, evaluate) } else { evaluate() }
}

/// Gives a frame to this thread's handler.
fn handle(handler: Handler, thread: Thread<'_>, abi: &'static Abi, frame: NonNull<c_void>, throw: c_int) -> *mut ffi::PyObject {
    let (py, raw) = (thread.py(), frame.as_ptr());
    let ended = Cell::new(false);
    if thread.is_in_tool() {
        // Nobody's program has called it: an audit hook runs wherever C code does something that is audited.
        // SAFETY: the arguments are CPython's own.
        return unsafe { hand_on(abi, thread.as_ptr(), raw, throw) };
    }
    // SAFETY: CPython hands the frame over for evaluation, and the hook was installed for this version.
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
            // SAFETY: the handler let go of the frame without ending it, so it is still CPython's to leave.
            let frame = unsafe { Frame::new(NonNull::new_unchecked(raw), thread, abi, &ended) };
            frame.raise(error, 0, false).raw
        }
    }
}

/// Keeps the hook installed in the interpreter.
pub struct Hook(());

/// Installs the hook, after its first installation has examined a sentinel call.
pub fn install(py: Python<'_>) -> Result<Hook, Refusal> {
    static EXAMINED: OnceLock<Result<(), Refusal>> = OnceLock::new();
    let abi = abi(py)?;
    // The sentinel's call may hand the lock to a thread that comes here too.
    EXAMINED.get_or_init_py_attached(py, || probe(py, abi)).clone()?;
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    INSTALLED.get_or_init(|| abi);
    // SAFETY: the lock is held, and the interpreter is this thread's.
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
            // SAFETY: the lock is held, and only functions of this type are stored. A hook that was installed over ours keeps
            // it, as one that hands everything on.
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
    /// Starts to listen, or to look away.
    pub fn new(handler: Option<Handler>) -> Self {
        Self { former: HANDLER.replace(handler) }
    }

    /// Who gets this thread's frames now.
    pub fn current() -> Option<Handler> {
        HANDLER.get()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        HANDLER.set(self.former);
    }
}
