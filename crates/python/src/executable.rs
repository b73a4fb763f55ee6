//! `Executable`: a compiled graph that Python calls.

use std::{sync::Arc, time::Instant};

use dynamlir_autograd::{Calls, GraphWithNodes, Nodes, torch};
use dynamlir_driver::{CallReports, Compiled, Loaded, Options, Report};
use dynamlir_frame::{Failed, Objects};
use dynamlir_runtime::{self as runtime, Derived, TensorRef};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{IntoPyDict, PyDict, PyList, PyString, PyTuple},
};
use serde::Serialize;
use smallvec::SmallVec;

use crate::{
    errors::{NativeError, guarded, raise},
    profile::Times,
};

/// Machine code for one entry of a module.
#[pyclass(frozen)]
pub struct Executable {
    graph: Arc<GraphWithNodes>,
    report: Arc<Report>,
    calls: CallReports,
}

/// An input's number, element type, sizes and strides.
type Argument = (Option<usize>, &'static str, Vec<i64>, Vec<i64>);

/// Converts the compiler's options from Python, where None stands for a default.
pub fn options(dict: &Bound<'_, PyDict>) -> PyResult<Options> {
    let json = dynamlir_cpython_abi::import(dict.py(), "json")?;
    let paths = [("default", dict.py().get_type::<PyString>())].into_py_dict(dict.py())?;
    let text: String = json.call_method("dumps", (dict,), Some(&paths))?.extract()?;
    serde_json::from_str(&text).map_err(|error| PyTypeError::new_err(format!("{text} are not options: {error}")))
}

/// Converts data to Python's dictionaries, lists, numbers and strings.
pub fn plain<'py>(py: Python<'py>, data: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(data).map_err(|error| NativeError::new_err(error.to_string()))?;
    dynamlir_cpython_abi::import(py, "json")?.call_method1("loads", (text,))
}

impl Executable {
    /// Loads a compiled module: returns its entries by name, in order.
    pub fn load(py: Python<'_>, compiled: Compiled) -> PyResult<Vec<(String, Self)>> {
        let start = Instant::now();
        let Compiled { entries, mut report } = compiled;
        let abi = torch::init(py)?;
        let loaded = dynamlir_driver::load(entries, abi, &mut Calls { py, abi }).map_err(|error| raise(py, error))?;
        report.time("load", start.elapsed().as_secs_f64());
        let report = Arc::new(report);
        let executable = |Loaded { name, graph, training, calls }| {
            let graph = Arc::new(GraphWithNodes::new(py, graph, training)?);
            Ok((name, Self { graph, report: Arc::clone(&report), calls }))
        };
        loaded.into_iter().map(executable).collect()
    }

    /// Returns the graph that it runs.
    pub fn graph(&self) -> Arc<GraphWithNodes> {
        Arc::clone(&self.graph)
    }

    /// Returns the names of the entries that compute its gradients, by node.
    pub fn vjp_entries(&self) -> &[String] {
        self.plan().training.as_ref().map(|training| &training.vjps[..]).unwrap_or_default()
    }

    fn plan(&self) -> &runtime::Plan {
        self.graph.executable().plan()
    }

    fn nodes_of_autograd(&self) -> &[Derived] {
        self.graph.nodes().map(|nodes| nodes.training().nodes()).unwrap_or_default()
    }
}

#[pymethods]
impl Executable {
    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, py: Python<'py>, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let mut calls = Calls { py, abi: torch::init(py)? };
        let objects: SmallVec<[_; 12]> = tensors.iter().collect();
        let mut inputs: SmallVec<[TensorRef<'_>; 12]> = SmallVec::with_capacity(objects.len());
        for object in &objects {
            inputs.push(calls.unwrap(object)?);
        }
        let mut results = Objects::new();
        // SAFETY: `known` is false.
        guarded(|| match unsafe { self.graph.run(&mut calls, &inputs, false, &|at| objects.get(at).cloned(), &mut results) } {
            Ok(()) => PyList::new(py, results),
            Err(Failed::Before(error) | Failed::Raise(error)) => Err(error),
        })
    }

    /// Returns the measurements of its steps. The first name that is given here becomes the name of the graph in profiles.
    #[pyo3(signature = (name=None))]
    fn times(&self, name: Option<String>) -> Times {
        let about = self.graph.executable().about().clone();
        if let Some(name) = name {
            for node in self.nodes_of_autograd() {
                node.backward().about().name.get_or_init(|| format!("{name}, gradients"));
            }
            about.name.get_or_init(|| name);
        }
        Times { about }
    }

    /// Sets the function for double backward of a node: `f(inputs by number, tangents, wanted, state, sizes, taken)`. Ignored by a graph
    /// without gradients.
    fn differentiate_again(&self, node: usize, function: Py<PyAny>) {
        if let Some(nodes) = self.graph.nodes() {
            nodes.set_double_backward(node, function);
        }
    }

    /// Returns the number of its nodes in autograd's graph.
    #[getter]
    fn nodes(&self) -> usize {
        self.nodes_of_autograd().len()
    }

    /// Returns number, element type, sizes and strides of each input. For a graph that computes gradients, the numbers are those of the
    /// inputs of the graph that was differentiated, then those of its tangents; None for the keys of random numbers.
    fn arguments(&self) -> Vec<Argument> {
        let plan = self.plan();
        let number = |at: usize| (plan.keys != Some(at)).then(|| plan.primals.get(at).copied().flatten().unwrap_or(at));
        let described = |(at, input): (usize, &runtime::InputSpec)| {
            let (dtype, window) = (input.layout.dtype, &input.layout.window);
            (number(at), dtype.name(), window.sizes.clone(), window.strides.clone())
        };
        plan.inputs.iter().enumerate().map(described).collect()
    }

    /// Returns the sizes for which it has been run, most recently used first; None if sizes are static.
    #[getter]
    fn instances(&self) -> Option<Vec<Vec<i64>>> {
        self.graph.sizes()
    }

    /// For each result of a graph that computes gradients, returns the indices of the inputs that give it a history.
    fn sources(&self) -> Option<Vec<Vec<usize>>> {
        self.plan().sources.clone()
    }

    /// Returns the names of the entries that compute its gradients, by node.
    #[getter]
    fn vjps(&self) -> Vec<String> {
        self.vjp_entries().to_vec()
    }

    /// Returns the report as a dictionary, with this name of the graph.
    #[pyo3(signature = (name=""))]
    fn report<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let training = self.graph.nodes().map(Nodes::training);
        plain(py, &self.calls.graph(name, &self.report, self.graph.executable(), training))
    }
}
