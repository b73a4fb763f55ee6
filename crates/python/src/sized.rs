//! `SizedGraph`: a graph with dynamic sizes, as one static graph for each combination seen so far.

use std::sync::Arc;

use dynamlir_frame::{CompiledGraph, Failed, Objects};
use dynamlir_guards::size_in;
use dynamlir_runtime::Recent;
use pyo3::{
    exceptions::PyException,
    prelude::*,
    types::{PyList, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    errors::NativeError,
    graph::{Held, NativeGraph},
};

type Sizes = SmallVec<[i64; 4]>;

/// A graph that is called with its inputs and returns its outputs.
#[pyclass(frozen)]
pub struct SizedGraph {
    /// For each symbol, the input and the dimension whose size it is.
    bound: Vec<(usize, usize)>,
    /// Creates the graph for given sizes.
    make: Py<PyAny>,
    made: Recent<Sizes, Arc<Held>>,
}

#[pymethods]
impl SizedGraph {
    #[new]
    fn new(bound: Vec<(usize, usize)>, make: Py<PyAny>, sizes: Vec<i64>, first: Py<NativeGraph>) -> Self {
        let made = Recent::default();
        drop(made.insert(sizes.into(), Arc::new(Held(first))));
        Self { bound, make, made }
    }

    /// Returns the sizes of the existing graphs, most recently used first.
    #[getter]
    fn instances(&self) -> Vec<Vec<i64>> {
        self.made.keys().into_iter().map(SmallVec::into_vec).collect()
    }

    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, py: Python<'py>, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let inputs: Vec<_> = tensors.iter().collect();
        let inputs: Vec<_> = inputs.iter().collect();
        let mut results = Objects::new();
        match self.run(py, &inputs, &mut results) {
            Ok(()) => PyList::new(py, results),
            Err(Failed::Before(error) | Failed::Raise(error)) => Err(error),
        }
    }
}

impl SizedGraph {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], results: &mut Objects<'py>) -> Result<(), Failed> {
        let size = |&(input, dimension): &(usize, usize)| {
            let found = inputs.get(input).map(|input| size_in(input, dimension)).transpose()?.flatten();
            found.ok_or_else(|| NativeError::new_err(format!("input {input} has no dimension {dimension}")))
        };
        let sizes = self.bound.iter().map(size).collect::<PyResult<Sizes>>().map_err(Failed::Before)?;
        let graph = match self.made.get(&sizes) {
            Some(graph) => graph,
            None => self.compile(py, sizes).map_err(|error| failed(py, error))?,
        };
        graph.run(py, inputs, false, results)
    }

    fn compile(&self, py: Python<'_>, sizes: Sizes) -> PyResult<Arc<Held>> {
        let graph = self.make.bind(py).call1((PyTuple::new(py, &sizes)?,))?.cast_into::<NativeGraph>()?;
        let graph = Arc::new(Held(graph.unbind()));
        // What is dropped may run Python code when it dies.
        drop(self.made.insert(sizes, graph.clone()));
        Ok(graph)
    }
}

/// Converts the reason that there is no graph for these sizes: plain Python runs the call, unless the exception is meant to end it.
fn failed(py: Python<'_>, error: PyErr) -> Failed {
    if error.is_instance_of::<PyException>(py) { Failed::Before(error) } else { Failed::Raise(error) }
}

/// A [`SizedGraph`] as run by an entry of a cache.
pub struct HeldSized(pub Py<SizedGraph>);

impl CompiledGraph for HeldSized {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], _known: bool, results: &mut Objects<'py>) -> Result<(), Failed> {
        self.0.get().run(py, inputs, results)
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py).into_any()
    }
}
