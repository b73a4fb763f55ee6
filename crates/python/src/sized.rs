//! `SizedGraph`: a graph whose sizes vary, as one of numbers for each that there have been.

use std::sync::{Arc, Mutex, PoisonError};

use dynamlir_frame::{CompiledGraph, Failed, Objects};
use dynamlir_guards::size_in;
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

/// How many there are at most; that which was not used for the longest time goes first.
const MOST: usize = 16;

type Sizes = SmallVec<[i64; 4]>;

/// A graph that is called with its inputs and returns its outputs.
#[pyclass(frozen)]
pub struct SizedGraph {
    /// Which input, and which size of that, each symbol is.
    bound: Vec<(usize, usize)>,
    /// Makes the graph for sizes.
    make: Py<PyAny>,
    /// Those that there are, the last used one first.
    made: Mutex<Vec<(Sizes, Arc<Held>)>>,
}

#[pymethods]
impl SizedGraph {
    #[new]
    fn new(bound: Vec<(usize, usize)>, make: Py<PyAny>, sizes: Vec<i64>, first: Py<NativeGraph>) -> Self {
        Self { bound, make, made: Mutex::new(vec![(sizes.into(), Arc::new(Held(first)))]) }
    }

    /// The sizes of the graphs that there are, the last used one first.
    #[getter]
    fn instances(&self) -> Vec<Vec<i64>> {
        self.made().iter().map(|(sizes, _)| sizes.to_vec()).collect()
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
    fn made(&self) -> std::sync::MutexGuard<'_, Vec<(Sizes, Arc<Held>)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], results: &mut Objects<'py>) -> Result<(), Failed> {
        let size = |&(input, dimension): &(usize, usize)| {
            let found = inputs.get(input).map(|input| size_in(input, dimension)).transpose()?.flatten();
            found.ok_or_else(|| NativeError::new_err("a size is not there"))
        };
        let sizes = self.bound.iter().map(size).collect::<PyResult<Sizes>>().map_err(Failed::Before)?;
        let graph = match self.known(&sizes) {
            Some(graph) => graph,
            None => self.compile(py, sizes).map_err(|error| failed(py, error))?,
        };
        graph.run(py, inputs, false, results)
    }

    fn known(&self, sizes: &Sizes) -> Option<Arc<Held>> {
        let mut made = self.made();
        let at = made.iter().position(|(known, _)| known == sizes)?;
        made[..=at].rotate_right(1);
        Some(made[0].1.clone())
    }

    fn compile(&self, py: Python<'_>, sizes: Sizes) -> PyResult<Arc<Held>> {
        let graph = self.make.bind(py).call1((PyTuple::new(py, &sizes)?,))?.cast_into::<NativeGraph>()?;
        let graph = Arc::new(Held(graph.unbind()));
        let mut made = self.made();
        made.insert(0, (sizes, graph.clone()));
        let gone = if made.len() > MOST { made.pop() } else { None };
        // It may run Python code when it dies.
        drop(made);
        drop(gone);
        Ok(graph)
    }
}

/// Why there is no graph for these sizes: plain Python does it, unless somebody wants the call to end.
fn failed(py: Python<'_>, error: PyErr) -> Failed {
    if error.is_instance_of::<PyException>(py) { Failed::Before(error) } else { Failed::Raise(error) }
}

/// A [`SizedGraph`] as an entry of a cache runs it.
pub struct HeldSized(pub Py<SizedGraph>);

impl CompiledGraph for HeldSized {
    fn run<'py>(&self, py: Python<'py>, inputs: &[&Bound<'py, PyAny>], _known: bool, results: &mut Objects<'py>) -> Result<(), Failed> {
        self.0.get().run(py, inputs, results)
    }

    fn callable(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py).into_any()
    }
}
