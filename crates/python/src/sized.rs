//! `SizedGraph`: a graph with dynamic sizes, as one static graph for each combination seen so far.

use std::sync::Arc;

use dynamlir_autograd::GraphsBySize;
use dynamlir_frame::{CompiledGraph, Failed, Objects};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::graph::{Held, NativeGraph, call};

/// A graph that is called with its inputs and returns its outputs.
#[pyclass(frozen)]
pub struct SizedGraph {
    graphs: GraphsBySize,
    /// Creates the graph for given sizes.
    make: Py<PyAny>,
}

#[pymethods]
impl SizedGraph {
    #[new]
    fn new(bound: Vec<(usize, usize)>, make: Py<PyAny>, sizes: Vec<i64>, first: Py<NativeGraph>) -> Self {
        Self { graphs: GraphsBySize::new(bound, &sizes, Arc::new(Held(first))), make }
    }

    /// Returns the sizes of the existing graphs, most recently used first.
    #[getter]
    fn instances(&self) -> Vec<Vec<i64>> {
        self.graphs.sizes()
    }

    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, py: Python<'py>, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        call(py, tensors, |inputs, results| self.run(py, inputs, results))
    }
}

impl SizedGraph {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], results: &mut Objects<'py>) -> Result<(), Failed> {
        self.graphs.run(py, inputs, results, |sizes| {
            let graph = self.make.bind(py).call1((PyTuple::new(py, sizes)?,))?.cast_into::<NativeGraph>()?;
            Ok(Arc::new(Held(graph.unbind())))
        })
    }
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
