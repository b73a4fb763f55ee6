//! A graph with dynamic sizes, as one static graph for each combination seen so far.

use std::sync::Arc;

use dynamlir_frame::{CompiledGraph, Failed, Objects};
use dynamlir_guards::size_in;
use dynamlir_runtime::Recent;
use pyo3::{exceptions::PyException, prelude::*};
use smallvec::SmallVec;

use crate::errors::NativeError;

type Sizes = SmallVec<[i64; 4]>;

/// Static graphs by their sizes; the most recently used ones are kept.
pub struct GraphsBySize {
    /// For each symbol, the input and the dimension whose size it is.
    bound: Vec<(usize, usize)>,
    made: Recent<Sizes, Arc<dyn CompiledGraph>>,
}

impl GraphsBySize {
    /// Starts with the graph for some sizes. `bound` says for each symbol which dimension of which input it is the size of.
    pub fn new(bound: Vec<(usize, usize)>, sizes: &[i64], first: Arc<dyn CompiledGraph>) -> Self {
        let made = Recent::default();
        drop(made.insert(sizes.into(), first));
        Self { bound, made }
    }

    /// Returns the sizes of the existing graphs, most recently used first.
    pub fn sizes(&self) -> Vec<Vec<i64>> {
        self.made.keys().into_iter().map(SmallVec::into_vec).collect()
    }

    /// Runs the graph for the sizes of the inputs, which `make` creates for new ones.
    pub fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &[&Bound<'py, PyAny>],
        results: &mut Objects<'py>,
        make: impl FnOnce(&[i64]) -> PyResult<Arc<dyn CompiledGraph>>,
    ) -> Result<(), Failed> {
        let size = |&(input, dimension): &(usize, usize)| {
            let found = inputs.get(input).map(|input| size_in(input, dimension)).transpose()?.flatten();
            found.ok_or_else(|| NativeError::new_err(format!("input {input} has no dimension {dimension}")))
        };
        let sizes = self.bound.iter().map(size).collect::<PyResult<Sizes>>().map_err(Failed::Before)?;
        let graph = match self.made.get(&sizes) {
            Some(graph) => graph,
            None => self.add(sizes, make).map_err(|error| failed(py, error))?,
        };
        graph.run(py, inputs, false, results)
    }

    fn add(&self, sizes: Sizes, make: impl FnOnce(&[i64]) -> PyResult<Arc<dyn CompiledGraph>>) -> PyResult<Arc<dyn CompiledGraph>> {
        let graph = make(&sizes)?;
        // Dropping a graph may run Python code.
        drop(self.made.insert(sizes, Arc::clone(&graph)));
        Ok(graph)
    }
}

/// Returns the failure of a call without a graph: plain Python runs it, unless the exception must end it.
fn failed(py: Python<'_>, error: PyErr) -> Failed {
    if error.is_instance_of::<PyException>(py) { Failed::Before(error) } else { Failed::Raise(error) }
}
