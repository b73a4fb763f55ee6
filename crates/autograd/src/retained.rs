//! The values that a node holds besides the saved ones, for double backward.

use std::sync::{Mutex, PoisonError};

use dynamlir_runtime::{Derived, NodeInput, Saved};
use pyo3::{PyTraverseError, PyVisit, exceptions::PyRuntimeError, intern, prelude::*};

use crate::{Calls, errors::raise_torch};

/// Tensors with their versions; an attribute of the node.
#[pyclass(frozen)]
pub struct Retained {
    held: Mutex<Option<Vec<Held>>>,
}

/// A tensor that is lent.
pub struct Held {
    tensor: Py<PyAny>,
    /// None for an inference tensor, which is never written.
    version: Option<i64>,
}

impl Held {
    /// Lends a tensor in its current state.
    pub fn new(calls: &Calls<'_>, tensor: Bound<'_, PyAny>) -> PyResult<Self> {
        let version = version(calls, &tensor)?;
        Ok(Self { tensor: tensor.unbind(), version })
    }

    /// Returns the tensor, unless it has been written since; `what` describes it for the error.
    pub fn unwritten<'py>(&self, calls: &Calls<'py>, what: impl FnOnce() -> String) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor.bind(calls.py).clone();
        let now = version(calls, &tensor)?;
        if let (Some(expected), Some(now)) = (self.version, now)
            && expected != now
        {
            return Err(PyRuntimeError::new_err(format!(
                "one of the variables needed for gradient computation has been modified by an inplace operation: {} of a compiled graph, a \
                 tensor of shape {}, is at version {now}; expected version {expected} instead. The graph computes its \
                 gradients anew from its inputs, to differentiate them.",
                what(),
                tensor.getattr(intern!(calls.py, "shape"))?,
            )));
        }
        Ok(tensor)
    }
}

impl Retained {
    /// Holds these.
    pub fn new(held: Vec<Held>) -> Self {
        Self { held: Mutex::new(Some(held)) }
    }

    /// Releases all of them.
    pub fn give_back(&self) {
        // Finalizers must run after the lock is released.
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Returns the held tensors, in the order in which they were lent.
    ///
    /// # Errors
    ///
    /// Torch's error for a second backward pass, once they have been released.
    pub fn tensors<'py>(&self, calls: &Calls<'py>, what: impl Fn(usize) -> String) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let held: Option<Vec<Held>> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.as_ref().map(|held| held.iter().map(|one| Held { tensor: one.tensor.clone_ref(calls.py), version: one.version }).collect())
        };
        let freed = || {
            PyRuntimeError::new_err(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). \
                 Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if \
                 you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
            )
        };
        held.ok_or_else(freed)?.iter().enumerate().map(|(at, held)| held.unwritten(calls, || what(at))).collect()
    }
}

#[pymethods]
impl Retained {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The garbage collector must not wait here; values in use are alive.
        let Ok(held) = self.held.try_lock() else { return Ok(()) };
        held.iter().flatten().try_for_each(|one| visit.call(&one.tensor))
    }

    fn __clear__(&self) {
        self.give_back();
    }
}

/// Returns the inputs that a node takes from others, in order.
pub fn made_by_others(node: &Derived) -> impl Iterator<Item = NodeInput> + '_ {
    node.inputs().iter().copied().filter(|input| !matches!(input, NodeInput::Input(_)))
}

/// Returns those of them that it does not save.
pub fn taken(node: &Derived) -> impl Iterator<Item = NodeInput> + '_ {
    made_by_others(node).filter(|input| saved(node, *input).is_none())
}

/// Returns the index among a node's saved values of an input that another node has produced.
pub fn saved(node: &Derived, input: NodeInput) -> Option<usize> {
    let NodeInput::Result(result) = input else { return None };
    node.saved().iter().position(|saved| *saved == Saved::Result(result))
}

/// Returns the number of values that are lent to a node.
pub fn count(node: &Derived) -> usize {
    node.lent().len() + node.lost().len() + taken(node).count()
}

fn version(calls: &Calls<'_>, tensor: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    calls.unwrap(tensor)?.version().map_err(raise_torch)
}
