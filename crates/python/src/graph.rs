//! `NativeGraph`: an executable with the tensors that it captured.

use dynamlir_autograd::BoundGraph;
use dynamlir_frame::{CompiledGraph, Failed, Objects};
use dynamlir_guards::TensorMatch;
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::executable::Executable;

/// A graph that is called with its inputs and returns its outputs.
#[pyclass(frozen)]
pub struct NativeGraph(BoundGraph);

#[pymethods]
impl NativeGraph {
    #[new]
    fn new(py: Python<'_>, executable: &Executable, constants: Vec<Py<PyAny>>) -> PyResult<Self> {
        BoundGraph::new(py, executable.graph(), constants).map(Self)
    }

    /// Returns the sizes for which it has been run, most recently used first; None if sizes are static.
    #[getter]
    fn instances(&self) -> Option<Vec<Vec<i64>>> {
        self.0.graph().sizes()
    }

    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, py: Python<'py>, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        call(py, tensors, |inputs, results| self.0.run(py, inputs, false, results))
    }
}

/// Calls a graph from Python.
pub fn call<'py>(
    py: Python<'py>,
    tensors: &Bound<'py, PyTuple>,
    run: impl FnOnce(&[&Bound<'py, PyAny>], &mut Objects<'py>) -> Result<(), Failed>,
) -> PyResult<Bound<'py, PyList>> {
    let inputs: Vec<_> = tensors.iter().collect();
    let inputs: Vec<_> = inputs.iter().collect();
    let mut results = Objects::new();
    match run(&inputs, &mut results) {
        Ok(()) => PyList::new(py, results),
        Err(Failed::Before(error) | Failed::Raise(error)) => Err(error),
    }
}

/// A [`NativeGraph`] as run by an entry of a cache.
pub struct Held(pub Py<NativeGraph>);

impl CompiledGraph for Held {
    fn accepts(&self, guards: &[Option<&TensorMatch>]) -> bool {
        self.0.get().0.accepts(guards)
    }

    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], known: bool, results: &mut Objects<'py>) -> Result<(), Failed> {
        self.0.get().0.run(py, inputs, known, results)
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py).into_any()
    }
}
