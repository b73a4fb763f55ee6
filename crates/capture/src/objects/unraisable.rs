//! Reports that Python makes during a capture about exceptions that cannot propagate: those of finalizers and of callbacks.
//!
//! Aborting an evaluation raises through any C code between its frames, some of which can only report the exception; such a report is
//! meaningless. An exception raised there by a signal handler goes to the caller. Everything else is reported as usual.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use dynamlir_interpreter::{is_abort, suspended};
use pyo3::{
    prelude::*,
    types::{PyCFunction, PyDict, PyTuple},
};

use crate::objects::interruptions::interruption_behind;

/// Listens to the reports of this process until it is dropped.
pub(crate) struct Reports<'py> {
    sys: Bound<'py, PyModule>,
    former: Bound<'py, PyAny>,
    own: Bound<'py, PyAny>,
    heard: Arc<Heard>,
}

/// The state shared by the hook and its listener.
#[derive(Default)]
struct Heard {
    interruption: Mutex<Option<PyErr>>,
    /// Set when listening has ended. The hook may stay installed forever: a capture in another thread may have put its own hook on top, and
    /// later restore this one.
    ended: AtomicBool,
}

impl<'py> Reports<'py> {
    /// Starts listening.
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

    /// Returns the exception that a signal handler has raised where it could not propagate.
    pub fn interruption(&self) -> Option<PyErr> {
        self.heard.interruption.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Reports<'_> {
    fn drop(&mut self) {
        // Other code may have installed another hook.
        if self.sys.getattr("unraisablehook").is_ok_and(|now| now.is(&self.own)) {
            let _ = self.sys.setattr("unraisablehook", &self.former);
        }
        self.heard.ended.store(true, Ordering::Relaxed);
        // It arrived after the last query.
        if let Some(error) = self.interruption() {
            error.write_unraisable(self.sys.py(), None);
        }
    }
}
