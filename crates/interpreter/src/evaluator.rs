//! The evaluator of this thread's frames, and its lifetime.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use dynamlir_cpython_abi::{Abi, Listening, Refusal, Thread, abi, install};
use pyo3::{exceptions::PyBaseException, prelude::*, sync::PyOnceLock};

use crate::{
    activation::Site,
    policy::{Policy, Unwind},
    run,
    versions::{VersionTable, version_table},
};

/// If pending work cannot be detected, it is handled once in this many checks.
const BLIND_INTERVAL: u32 = 64;

/// One evaluation: a policy, and the state shared by its frames.
pub(crate) struct Evaluator {
    pub abi: &'static Abi,
    pub table: &'static VersionTable,
    pub policy: Rc<dyn Policy>,
    /// Set by [`Unwind::Abort`]; stays until the evaluation ends.
    pub aborted: Cell<bool>,
    /// The innermost frame.
    place: RefCell<Option<Rc<Site>>>,
    /// Counts down to the next check for pending work.
    countdown: Cell<u32>,
    /// A function that does nothing; CPython handles pending work when it starts.
    idle: Py<PyAny>,
}

/// Returns [`Evaluator::idle`], created before any work can be pending.
fn idle(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static IDLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    IDLE.get_or_try_init(py, || py.eval(c"lambda: None", None, None).map(Bound::unbind)).map(|idle| idle.clone_ref(py))
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Evaluator>>> = const { RefCell::new(None) };
}

/// Returns the evaluation of this thread's frames, if any.
pub(crate) fn current() -> Option<Rc<Evaluator>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Evaluator {
    /// Creates an evaluation under a policy, not yet installed for any thread.
    pub fn of(py: Python<'_>, abi: &'static Abi, policy: Rc<dyn Policy>) -> Result<Self, Refusal> {
        Ok(Self {
            abi,
            table: version_table(abi.version()).ok_or_else(|| Refusal::Version(Python::version_str().to_owned()))?,
            policy,
            aborted: Cell::new(false),
            place: RefCell::new(None),
            countdown: Cell::new(BLIND_INTERVAL),
            idle: idle(py).map_err(|error| Refusal::Probe(error.to_string()))?,
        })
    }

    /// Returns the position of the innermost frame.
    pub fn place(&self) -> Option<Rc<Site>> {
        self.place.borrow().clone()
    }

    /// Sets the innermost frame, or restores the previous one. Returns the old one.
    pub fn set_place(&self, place: Option<Rc<Site>>) -> Option<Rc<Site>> {
        self.place.replace(place)
    }

    /// Returns true if it is time to check for pending work.
    pub fn is_due(&self) -> bool {
        let left = self.countdown.get().checked_sub(1).unwrap_or(BLIND_INTERVAL);
        self.countdown.set(left);
        left == 0
    }

    /// Handles pending work. Signal handlers, finalizers and pending calls are not part of the evaluated program.
    pub fn checkpoint(&self, thread: Thread<'_>) -> PyResult<()> {
        let _away = Listening::new(None);
        thread.checkpoint(self.idle.bind(thread.py()))
    }

    /// Creates an exception for C code between the frames of an aborted evaluation.
    pub fn abort_error(py: Python<'_>) -> PyErr {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.get_or_try_init(py, || {
            let doc = c"Leaves the frames of an evaluation that was given up; never seen by Python code.";
            PyErr::new_type(py, c"dynamlir.Aborted", Some(doc), Some(py.get_type::<PyBaseException>().as_any().cast()?), None)
                .map(Py::into_any)
        });
        match class.and_then(|class| class.bind(py).call0()) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }
}

/// Returns true if this is the exception of an aborted evaluation.
pub fn is_abort(exception: &Bound<'_, PyAny>) -> bool {
    exception.get_type().is(Evaluator::abort_error(exception.py()).get_type(exception.py()))
}

/// The result of [`with_policy`].
#[derive(Debug)]
pub struct Finished<R> {
    /// The closure's result. After an abort, the calls it made have raised a meaningless exception.
    pub result: R,
    /// True if the evaluation was aborted.
    pub aborted: bool,
}

/// Restores the thread's evaluation, even if the closure panics.
struct Restore {
    former: Option<Rc<Evaluator>>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.former.take());
    }
}

/// Runs a closure. All Python code that it calls in this thread is evaluated under the policy.
///
/// Evaluations nest: the outer policy does not see the frames of an inner evaluation.
pub fn with_policy<R>(py: Python<'_>, policy: Rc<dyn Policy>, closure: impl FnOnce() -> R) -> Result<Finished<R>, Refusal> {
    let abi = abi(py)?;
    let _hook = install(py)?;
    let evaluator = Rc::new(Evaluator::of(py, abi, policy)?);
    let _restore = Restore { former: CURRENT.replace(Some(evaluator.clone())) };
    let thread = Thread::current(py)?;
    let handled = thread.handled_exception();
    let result = {
        let _listening = Listening::new(Some(run::handler));
        closure()
    };
    if evaluator.aborted.get() {
        // Aborted frames did not leave their `except` blocks.
        drop(thread.replace_handled_exception(handled));
    }
    Ok(Finished { result, aborted: evaluator.aborted.get() })
}

/// Runs a closure whose Python code is evaluated by CPython.
pub fn suspended<R>(closure: impl FnOnce() -> R) -> R {
    let _away = Listening::new(None);
    closure()
}

/// Returns true if this thread's frames are currently evaluated here.
pub fn is_listening() -> bool {
    Listening::current().is_some()
}

/// Returns the position of this thread's innermost interpreted frame.
pub fn here() -> Option<Rc<Site>> {
    current()?.place()
}

/// Aborts the current evaluation, for code that cannot return an [`Unwind`]. Interpreted frames are left as soon as they run again, and no
/// new one starts.
pub fn abort() -> Unwind {
    if let Some(evaluator) = current() {
        evaluator.aborted.set(true);
    }
    Unwind::Abort
}
