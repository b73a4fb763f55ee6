//! The graph that runs when the guards of an entry pass.

use dynamlir_guards::TensorMatch;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;

/// Objects of one run.
pub type Objects<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// The reason that a graph returned no results.
pub enum Failed {
    /// Nothing of the caller's was written: plain Python may repeat the call, and raise its own exception.
    Before(PyErr),
    /// The call raises this exception.
    Raise(PyErr),
}

/// A compiled graph: tensors in, tensors out.
pub trait CompiledGraph: Send + Sync {
    /// Returns true if tensors that pass these guards (one per input) need not be checked again. None means unknown.
    fn accepts(&self, guards: &[Option<&TensorMatch>]) -> bool {
        let _ = guards;
        false
    }

    /// Runs the graph. Results are appended to `results`. The inputs are `known` if guards that [`CompiledGraph::accepts`] has approved
    /// hold for them now.
    ///
    /// # Errors
    /// See [`Failed`].
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], known: bool, results: &mut Objects<'py>) -> Result<(), Failed>;

    /// Returns the graph as a Python callable, for inspection.
    fn callable(&self, py: Python<'_>) -> Py<PyAny>;
}

/// The graph of a part of a frame that computes nothing.
pub struct NoGraph;

impl CompiledGraph for NoGraph {
    fn run<'py>(&self, _: Python<'py>, _: &[&Bound<'py, PyAny>], _: bool, _: &mut Objects<'py>) -> Result<(), Failed> {
        Ok(())
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        py.None()
    }
}

/// A graph compiled by an external backend: a Python callable that returns a list or tuple.
pub struct PythonGraph {
    callable: Py<PyAny>,
    /// Returns true if an exception means that nothing was written.
    retry: fn(Python<'_>, &PyErr) -> bool,
}

impl PythonGraph {
    /// Wraps a callable; `retry` selects the exceptions that are [`Failed::Before`].
    pub fn new(callable: Py<PyAny>, retry: fn(Python<'_>, &PyErr) -> bool) -> Self {
        Self { callable, retry }
    }
}

impl CompiledGraph for PythonGraph {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], _known: bool, results: &mut Objects<'py>) -> Result<(), Failed> {
        let mut call = || {
            let returned = self.callable.bind(py).call1(PyTuple::new(py, inputs)?)?;
            // A tensor is iterable too, but its rows are not outputs.
            if let Ok(outputs) = returned.cast::<PyTuple>() {
                results.extend(outputs.iter());
            } else if let Ok(outputs) = returned.cast::<PyList>() {
                results.extend(outputs.iter());
            } else {
                let message = "the backend's callable must return the graph's outputs in a list or tuple, and returned";
                return Err(PyTypeError::new_err(format!("{message} {}", returned.get_type().name()?)));
            }
            Ok(())
        };
        call().map_err(|error| if (self.retry)(py, &error) { Failed::Before(error) } else { Failed::Raise(error) })
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        self.callable.clone_ref(py)
    }
}
