//! What a node holds beside what it saves, for the time when its gradients are differentiated.

use std::sync::{Mutex, PoisonError};

use dynamlir_runtime::{Derived, NodeInput, Saved};
use pyo3::{PyTraverseError, PyVisit, exceptions::PyRuntimeError, intern, prelude::*};

use crate::{errors::NativeError, torch::Calls};

/// Tensors, with how often each had been written in place; an attribute of the node.
#[pyclass(frozen)]
pub struct Lent {
    held: Mutex<Option<Vec<Held>>>,
}

/// A tensor that is lent.
pub struct Held {
    tensor: Py<PyAny>,
    /// None of a tensor of inference mode, which nobody writes.
    version: Option<i64>,
}

impl Held {
    /// Lends a tensor as it is now.
    pub fn new(calls: &Calls<'_>, tensor: Bound<'_, PyAny>) -> PyResult<Self> {
        let version = version(calls, &tensor)?;
        Ok(Self { tensor: tensor.unbind(), version })
    }

    /// The tensor, unless it has been written since; `what` says for an error what it is.
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

impl Lent {
    /// Holds these.
    pub fn new(held: Vec<Held>) -> Self {
        Self { held: Mutex::new(Some(held)) }
    }

    /// Lets go of all.
    pub fn give_back(&self) {
        // Whatever a finalizer does, it does after the lock is gone.
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// What is held, in the order in which it was lent.
    ///
    /// # Errors
    ///
    /// Torch's error for a graph that has been walked back, once it has been given back.
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
impl Lent {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Nobody may wait here; what is in use lives.
        let Ok(held) = self.held.try_lock() else { return Ok(()) };
        held.iter().flatten().try_for_each(|one| visit.call(&one.tensor))
    }

    fn __clear__(&self) {
        self.give_back();
    }
}

/// The inputs that a node takes from others, in order.
pub fn made_by_others(node: &Derived) -> impl Iterator<Item = NodeInput> + '_ {
    node.inputs().iter().copied().filter(|input| !matches!(input, NodeInput::Input(_)))
}

/// Those of them that it does not save.
pub fn taken(node: &Derived) -> impl Iterator<Item = NodeInput> + '_ {
    made_by_others(node).filter(|input| saved(node, *input).is_none())
}

/// Where among the saved values of a node an input is that another node has made.
pub fn saved(node: &Derived, input: NodeInput) -> Option<usize> {
    let NodeInput::Result(result) = input else { return None };
    node.saved().iter().position(|saved| *saved == Saved::Result(result))
}

/// How many values a node is lent.
pub fn count(node: &Derived) -> usize {
    node.lent().len() + node.lost().len() + taken(node).count()
}

fn version(calls: &Calls<'_>, tensor: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    calls.unwrap(tensor)?.version().map_err(|error| NativeError::new_err(error.message().to_owned()))
}
