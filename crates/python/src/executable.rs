//! `Executable`: a compiled graph that Python calls.

use std::{sync::Arc, time::Instant};

use dynamlir_autograd::{Calls, GraphWithNodes, torch};
use dynamlir_driver::{Compiled, EntryReport, Loaded, Options, Report};
use dynamlir_frame::{Failed, Objects};
use dynamlir_runtime::{self as runtime, Derived, TensorRef};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    errors::{guarded, raise},
    profile::Times,
};

/// Machine code for one entry of a module.
#[pyclass(frozen)]
pub struct Executable {
    graph: Arc<GraphWithNodes>,
    report: Arc<Report>,
    entry: EntryReport,
    /// Reports on the entries that compute the gradients, by node.
    vjps: Vec<EntryReport>,
}

/// An input's number, element type, sizes and strides.
type Argument = (Option<usize>, &'static str, Vec<i64>, Vec<i64>);

/// Converts the compiler's options from Python.
pub fn options(dict: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    if let Some(folder) = dict.get_item("dump")?.filter(|value| !value.is_none()) {
        options.dump = Some(folder.str()?.to_string().into());
    }
    if let Some(flag) = dict.get_item("no_cache")? {
        options.no_cache = flag.is_truthy()?;
    }
    if let Some(chip) = dict.get_item("chip")?.filter(|value| !value.is_none()) {
        options.chip = Some(chip.extract()?);
    }
    if let Some(threads) = dict.get_item("threads")?.filter(|value| !value.is_none()) {
        options.threads = Some(threads.extract()?);
    }
    if let Some(flag) = dict.get_item("eager_random")? {
        options.eager_random = flag.is_truthy()?;
    }
    if let Some(budget) = dict.get_item("memory_budget")?.filter(|value| !value.is_none()) {
        options.memory_budget = Some(budget.extract()?);
    }
    if let Some(symbols) = dict.get_item("symbols")?.filter(|value| !value.is_none()) {
        options.symbols =
            symbols.cast::<PyDict>()?.iter().map(|(symbol, value)| Ok((symbol.extract()?, value.extract()?))).collect::<PyResult<_>>()?;
    }
    if let Some(choices) = dict.get_item("choices")? {
        options.choices = choices
            .cast::<PyDict>()?
            .iter()
            .map(|(problem, strategy)| Ok((problem.extract()?, strategy.extract()?)))
            .collect::<PyResult<_>>()?;
    }
    Ok(options)
}

impl Executable {
    /// Loads a compiled module: returns its entries by name, in order.
    pub fn load(py: Python<'_>, compiled: Compiled) -> PyResult<Vec<(String, Self)>> {
        let start = Instant::now();
        let Compiled { entries, mut report } = compiled;
        let abi = torch::init(py)?;
        let loaded = dynamlir_driver::load(entries, abi, &mut Calls { py, abi }).map_err(|error| raise(py, error))?;
        let ready =
            |Loaded { name, graph, training, report, vjps }| Ok((name, Arc::new(GraphWithNodes::new(py, graph, training)?), report, vjps));
        let ready = loaded.into_iter().map(ready).collect::<PyResult<Vec<_>>>()?;
        report.time("load", start.elapsed().as_secs_f64());
        let report = Arc::new(report);
        let executable = |(name, graph, entry, vjps)| (name, Self { graph, report: Arc::clone(&report), entry, vjps });
        Ok(ready.into_iter().map(executable).collect())
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
            if !torch::is_tensor(object)? {
                return Err(PyTypeError::new_err(format!("expected tensors, got {}", object.get_type().name()?)));
            }
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

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = self.report_of(py, &[(self.graph.executable(), &self.entry)])?;
        if let Some(nodes) = self.graph.nodes().filter(|_| !self.vjps.is_empty()) {
            let parts: Vec<_> = nodes.training().nodes().iter().map(Derived::backward).zip(&self.vjps).collect();
            dict.set_item("vjp", self.report_of(py, &parts)?)?;
            dict.set_item("nodes", parts.len())?;
            let saved: Vec<usize> = nodes.training().saved_bytes();
            dict.set_item("saved_bytes", saved.iter().sum::<usize>())?;
            dict.set_item("saved", saved)?;
            dict.set_item("recomputed", self.entry.recomputed)?;
        }
        Ok(dict)
    }
}

impl Executable {
    /// Returns a report: the compilation of the whole text, and the work of a call of these entries.
    fn report_of<'py>(&self, py: Python<'py>, parts: &[(&runtime::Executable, &EntryReport)]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let stages = PyDict::new(py);
        for (name, seconds) in &self.report.seconds {
            stages.set_item(name, seconds)?;
        }
        dict.set_item("stages", stages)?;
        let passes = PyDict::new(py);
        for (name, seconds) in &self.report.passes {
            passes.set_item(name, seconds)?;
        }
        dict.set_item("passes", passes)?;
        dict.set_item("threads", self.report.threads)?;
        dict.set_item("kernels", self.report.kernels.clone())?;
        dict.set_item("kernels_reused", self.report.kernels_reused)?;
        dict.set_item("unscheduled", self.report.unscheduled.clone())?;
        let launched = PyList::empty(py);
        for kernel in parts.iter().flat_map(|(_, entry)| &entry.launched) {
            let lines: Vec<&String> = kernel.lines.iter().collect();
            launched.append((&kernel.name, kernel.launches, kernel.bytes, lines))?;
        }
        dict.set_item("launched", launched)?;
        let most = |bytes: fn(&EntryReport) -> usize| parts.iter().map(|(_, entry)| bytes(entry)).max().unwrap_or_default();
        dict.set_item("launches", parts.iter().map(|(_, entry)| entry.launches).sum::<usize>())?;
        dict.set_item("workspace_bytes", most(|entry| entry.workspace_bytes))?;
        dict.set_item("live_bytes", most(|entry| entry.live_bytes))?;
        dict.set_item("generated", self.report.generated.clone())?;
        dict.set_item("ops_generated", self.report.generated.values().sum::<usize>())?;
        dict.set_item("ops_extern", self.report.extern_ops.values().sum::<usize>())?;
        let externs = PyList::empty(py);
        for report in parts.iter().flat_map(|(inner, _)| inner.extern_reports()) {
            let entry = PyDict::new(py);
            entry.set_item("schema", &report.schema)?;
            entry.set_item("route", report.route.to_string())?;
            entry.set_item("location", &report.location)?;
            entry.set_item("reason", &report.reason)?;
            entry.set_item("count", 1)?;
            externs.append(entry)?;
        }
        dict.set_item("externs", externs)?;
        Ok(dict)
    }
}
