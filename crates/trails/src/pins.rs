//! Groups of weakly held objects: when the first object of a group dies, all users of the group are notified.

use std::{
    ffi::CStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use pyo3::{
    intern,
    prelude::*,
    types::{PyCFunction, PyDict, PyTuple, PyWeakrefReference},
};

/// The name of the callback of the pins' weak references.
const CALLBACK: &CStr = c"dynamlir_pin";

/// Returns true if a weak reference belongs to a pin.
///
/// # Errors
/// Returns an exception raised by Python.
pub fn is_pin(reference: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = reference.py();
    let callback = reference.getattr(intern!(py, "__callback__"))?;
    Ok(callback.is_exact_instance_of::<PyCFunction>()
        && callback.getattr(intern!(py, "__name__"))?.extract::<&str>()?.as_bytes() == CALLBACK.to_bytes())
}

/// A group of weakly held objects.
pub struct Pins {
    alive: Arc<AtomicBool>,
    /// Called by each weak reference when its object dies.
    callback: Py<PyCFunction>,
}

/// One weakly held object. While its group is alive, so is the object, and its address is its identity.
pub struct Pin {
    reference: Py<PyWeakrefReference>,
    address: usize,
    alive: Arc<AtomicBool>,
}

impl Pins {
    /// Creates an empty group.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let alive = Arc::new(AtomicBool::new(true));
        let flag = alive.clone();
        let closure = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| flag.store(false, Ordering::Relaxed);
        Ok(Self { alive, callback: PyCFunction::new_closure(py, Some(CALLBACK), None, closure)?.unbind() })
    }

    /// Returns true if all its objects are alive.
    #[inline]
    pub fn alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Declares the group dead.
    pub fn kill(&self) {
        self.alive.store(false, Ordering::Relaxed);
    }

    /// Adds an object.
    ///
    /// # Errors
    /// If the object does not support weak references.
    pub fn pin(&self, object: &Bound<'_, PyAny>) -> PyResult<Pin> {
        let reference = PyWeakrefReference::new_with(object, self.callback.bind(object.py()))?;
        Ok(Pin { reference: reference.unbind(), address: object.as_ptr() as usize, alive: self.alive.clone() })
    }
}

impl Pin {
    /// Returns the object, unless it is dead.
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        use pyo3::types::PyWeakrefMethods;
        self.reference.bind(py).upgrade()
    }

    /// Returns true if this is the object.
    #[inline]
    pub fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        object.as_ptr() as usize == self.address && self.alive.load(Ordering::Relaxed)
    }

    /// Returns the object's address, as given by `id`.
    pub fn address(&self) -> usize {
        self.address
    }

    pub(super) fn flag(&self) -> &Arc<AtomicBool> {
        &self.alive
    }
}
