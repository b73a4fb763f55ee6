//! Who evaluates this thread's frames, and for how long.

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

/// Where it is not known whether something waits, it is looked at once in a while.
const BLIND_INTERVAL: u32 = 64;

/// One evaluation: a policy, and what its frames share.
pub(crate) struct Evaluator {
    pub abi: &'static Abi,
    pub table: &'static VersionTable,
    pub policy: Rc<dyn Policy>,
    /// Set by [`Unwind::Abort`]; stays until the evaluation ends.
    pub aborted: Cell<bool>,
    /// The innermost frame.
    place: RefCell<Option<Rc<Site>>>,
    /// Counts down to the next look.
    countdown: Cell<u32>,
    /// A function that does nothing, at whose start CPython does what waits.
    idle: Py<PyAny>,
}

/// [`Evaluator::idle`], made before anything can wait for it.
fn idle(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static IDLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    IDLE.get_or_try_init(py, || py.eval(c"lambda: None", None, None).map(Bound::unbind)).map(|idle| idle.clone_ref(py))
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Evaluator>>> = const { RefCell::new(None) };
}

/// The evaluation of this thread's frames, if there is one.
pub(crate) fn current() -> Option<Rc<Evaluator>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Evaluator {
    /// An evaluation under a policy, which nobody knows of yet.
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

    /// The innermost frame's place.
    pub fn place(&self) -> Option<Rc<Site>> {
        self.place.borrow().clone()
    }

    /// Makes a frame the innermost one, or the one before it again.
    pub fn set_place(&self, place: Option<Rc<Site>>) -> Option<Rc<Site>> {
        self.place.replace(place)
    }

    /// Whether it is time to look what waits.
    pub fn is_due(&self) -> bool {
        let left = self.countdown.get().checked_sub(1).unwrap_or(BLIND_INTERVAL);
        self.countdown.set(left);
        left == 0
    }

    /// Does what waits. Signal handlers, finalizers and pending calls are not part of the program that is evaluated.
    pub fn checkpoint(&self, thread: Thread<'_>) -> PyResult<()> {
        let _away = Listening::new(None);
        thread.checkpoint(self.idle.bind(thread.py()))
    }

    /// An exception for C code that lies between the frames of an aborted evaluation.
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

/// Whether this is the exception by which an evaluation was given up.
pub fn is_abort(exception: &Bound<'_, PyAny>) -> bool {
    exception.get_type().is(Evaluator::abort_error(exception.py()).get_type(exception.py()))
}

/// What [`with_policy`] came to.
#[derive(Debug)]
pub struct Finished<R> {
    /// What the closure returned. After an abort, calls it made have raised an exception that means nothing.
    pub result: R,
    /// Whether the evaluation was given up.
    pub aborted: bool,
}

/// Restores the thread's evaluation, also when the closure panics.
struct Restore {
    former: Option<Rc<Evaluator>>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.former.take());
    }
}

/// Runs a closure; all Python code that it calls in this thread is evaluated under the policy.
///
/// Evaluations nest: the frames of an inner one are not seen by the outer policy.
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
        // Frames that were given up did not leave their `except` blocks.
        drop(thread.replace_handled_exception(handled));
    }
    Ok(Finished { result, aborted: evaluator.aborted.get() })
}

/// Runs a closure whose Python code CPython evaluates.
pub fn suspended<R>(closure: impl FnOnce() -> R) -> R {
    let _away = Listening::new(None);
    closure()
}

/// Whether this thread's frames are evaluated here now.
pub fn is_listening() -> bool {
    Listening::current().is_some()
}

/// Where the innermost interpreted frame of this thread stands.
pub fn here() -> Option<Rc<Site>> {
    current()?.place()
}

/// Gives the current evaluation up, for code that has no [`Unwind`] to return: interpreted frames are left as soon as they run
/// again, and no new one starts.
pub fn abort() -> Unwind {
    if let Some(evaluator) = current() {
        evaluator.aborted.set(true);
    }
    Unwind::Abort
}
