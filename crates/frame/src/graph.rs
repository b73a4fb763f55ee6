//! What runs when the guards of an entry pass.

use dynamlir_guards::TensorMatch;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;

/// Objects of one run.
pub type Objects<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// Why a graph gave no results.
pub enum Failed {
    /// Nothing of the caller's was written: plain Python may do it all over, and raise what it raises.
    Before(PyErr),
    /// This is what the call raises.
    Raise(PyErr),
}

/// A compiled graph: tensors in, tensors out.
pub trait CompiledGraph: Send + Sync {
    /// Whether tensors for which these guards hold, of which there is one per input, need not be looked at again. None is unknown.
    fn accepts(&self, guards: &[Option<&TensorMatch>]) -> bool {
        let _ = guards;
        false
    }

    /// Runs it. Results are appended to `results`. The inputs are `known` if guards that [`CompiledGraph::accepts`] has approved hold for
    /// them now.
    ///
    /// # Errors
    /// See [`Failed`].
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], known: bool, results: &mut Objects<'py>) -> Result<(), Failed>;

    /// As a Python callable, for people to look at.
    fn callable(&self, py: Python<'_>) -> Py<PyAny>;
}

/// The graph of a piece of a frame in which nothing is computed.
pub struct NoGraph;

impl CompiledGraph for NoGraph {
    fn run<'py>(&self, _: Python<'py>, _: &[&Bound<'py, PyAny>], _: bool, _: &mut Objects<'py>) -> Result<(), Failed> {
        Ok(())
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        py.None()
    }
}

/// A graph that somebody else's backend compiled: a Python callable that returns a list or tuple.
pub struct PythonGraph {
    callable: Py<PyAny>,
    /// Whether an exception means that nothing was written.
    retry: fn(Python<'_>, &PyErr) -> bool,
}

impl PythonGraph {
    /// Wraps a callable; `retry` tells which of its exceptions are [`Failed::Before`].
    pub fn new(callable: Py<PyAny>, retry: fn(Python<'_>, &PyErr) -> bool) -> Self {
        Self { callable, retry }
    }
}

impl CompiledGraph for PythonGraph {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], _known: bool, results: &mut Objects<'py>) -> Result<(), Failed> {
        let mut call = || {
            let returned = self.callable.bind(py).call1(PyTuple::new(py, inputs)?)?;
            // Rows of a tensor are not outputs.
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
