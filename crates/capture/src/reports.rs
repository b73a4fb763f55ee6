//! What Python reports while a call is captured because nobody can be told: exceptions of finalizers and of callbacks.
//!
//! An evaluation that is given up raises through any C code that lies between its frames, some of which can only report that; it means
//! nothing. What a signal handler has raised there is the caller's. Everything else is reported as ever.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use dynamlir_interpreter::{is_abort, suspended};
use pyo3::{
    prelude::*,
    types::{PyCFunction, PyDict, PyTuple},
};

use crate::refusals::interruption_behind;

/// Listens to the reports of this process until it is dropped.
pub(crate) struct Reports<'py> {
    sys: Bound<'py, PyModule>,
    former: Bound<'py, PyAny>,
    own: Bound<'py, PyAny>,
    heard: Arc<Heard>,
}

/// What the hook shares with its listener.
#[derive(Default)]
struct Heard {
    interruption: Mutex<Option<PyErr>>,
    /// Nobody listens any more. The hook may stay for ever: a capture of another thread has put its own one on top, and puts this back.
    ended: AtomicBool,
}

impl<'py> Reports<'py> {
    /// Begins to listen.
    pub fn listen(py: Python<'py>) -> PyResult<Self> {
        let sys = dynamlir_cpython_abi::import(py, "sys")?;
        let former = sys.getattr("unraisablehook")?;
        let heard = Arc::new(Heard::default());
        let (hook, place) = (former.clone().unbind(), heard.clone());
        let own = PyCFunction::new_closure(py, None, None, move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let py = args.py();
            if place.ended.load(Ordering::Relaxed) {
                return hook.bind(py).call1(args).map(drop);
            }
            let value = args.get_item(0)?.getattr("exc_value")?;
            if is_abort(&value) {
                return Ok(());
            }
            let error = (!value.is_none()).then(|| PyErr::from_value(value));
            if let Some(error) = error.and_then(|error| interruption_behind(py, &error)) {
                place.interruption.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return Ok(());
            }
            suspended(|| hook.bind(py).call1(args)).map(drop)
        })?;
        sys.setattr("unraisablehook", &own)?;
        Ok(Self { sys, former, own: own.into_any(), heard })
    }

    /// What a signal handler has raised where nobody could be told.
    pub fn interruption(&self) -> Option<PyErr> {
        self.heard.interruption.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Reports<'_> {
    fn drop(&mut self) {
        // Somebody else may have put another one there.
        if self.sys.getattr("unraisablehook").is_ok_and(|now| now.is(&self.own)) {
            let _ = self.sys.setattr("unraisablehook", &self.former);
        }
        self.heard.ended.store(true, Ordering::Relaxed);
        // It came after the last question.
        if let Some(error) = self.interruption() {
            error.write_unraisable(self.sys.py(), None);
        }
    }
}
