//! `Executable`: a compiled graph that Python calls.

use std::{sync::Arc, time::Instant};

use dynamlir_driver::{Compiled, Entry, EntryReport, Options, Report};
use dynamlir_runtime::{self as runtime, Derived, Differentiable, Graph, Instances, OutputValue, Outputs, TensorRef};
use dynamlir_torch_abi::Meta;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use smallvec::SmallVec;

use crate::{
    errors::{NativeError, guarded, raise_run},
    graph::constant,
    node::{Failed, Input, Node},
    profile::Times,
    torch::{self, Calls},
};

/// Machine code for one entry of a module.
#[pyclass(frozen)]
pub struct Executable {
    inner: Arc<runtime::Executable>,
    /// The executables for other sizes, if sizes are dynamic.
    instances: Option<Arc<Instances>>,
    /// The autograd node, if gradients are required.
    node: Option<Node>,
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
        let ready: Vec<_> = entries.into_iter().map(|entry| ready(py, entry)).collect::<PyResult<_>>()?;
        let nodes: Vec<_> = ready.iter().map(|entry| node(py, entry, &ready)).collect::<PyResult<_>>()?;
        let of_nodes =
            |(_, inner, ..): &Ready| vjps_of(inner, &ready).into_iter().flatten().map(|(_, _, entry, _)| entry.clone()).collect();
        let vjps: Vec<Vec<EntryReport>> = ready.iter().map(of_nodes).collect();
        report.time("load", start.elapsed().as_secs_f64());
        let report = Arc::new(report);
        let together = ready.into_iter().zip(nodes).zip(vjps);
        let executable = |(((name, inner, entry, instances), node), vjps): ((Ready, _), _)| {
            (name, Self { inner, instances, node, report: Arc::clone(&report), entry, vjps })
        };
        Ok(together.map(executable).collect())
    }

    /// Returns the names of the entries that compute its gradients, by node.
    pub fn vjp_entries(&self) -> &[String] {
        self.inner.plan().training.as_ref().map(|training| &training.vjps[..]).unwrap_or_default()
    }

    /// Runs it, as a node of autograd's graph if gradients are required. `input` returns the objects of the tensors; these are `known` if
    /// their metadata is approved by the executable.
    ///
    /// # Safety
    /// `known` may be true only for metadata that [`runtime::Executable::accepts`] has approved.
    pub unsafe fn run<'py>(
        &self,
        calls: &mut Calls<'py>,
        tensors: &[TensorRef<'_>],
        known: bool,
        input: Input<'_, 'py>,
    ) -> Result<Outputs, Failed> {
        if let Some(node) = &self.node
            && node.is_wanted(calls.abi, tensors, known).map_err(Failed::Refused)?
        {
            return node.run(calls, tensors, known, input);
        }
        if let Some(instances) = &self.instances {
            let instance = instances.of(tensors).map_err(Failed::Refused)?;
            return instance.run(tensors, calls).map_err(Failed::Refused);
        }
        let outcome = if known {
            // SAFETY: as the caller promises.
            unsafe { self.inner.run_known(tensors, calls) }
        } else {
            self.inner.run(tensors, calls)
        };
        outcome.map_err(Failed::Refused)
    }

    /// Returns true if tensors with this metadata may be passed as known. With dynamic sizes, the metadata was not compared with that of a
    /// plan.
    pub fn accepts(&self, inputs: &[Option<&Meta>]) -> bool {
        self.instances.is_none() && self.inner.accepts(inputs)
    }

    /// Returns the compiled graph; with dynamic sizes, the one for the sizes with which it was compiled.
    pub fn inner(&self) -> &runtime::Executable {
        &self.inner
    }

    fn outputs<'py>(calls: &Calls<'py>, several: &[usize], made: Outputs, inputs: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let py = calls.py;
        let list = PyList::empty(py);
        for value in made {
            let object = match value {
                OutputValue::Tensor(tensor) => calls.wrap_owned(tensor)?,
                OutputValue::Arg(i) => inputs.get_item(i)?,
                OutputValue::None => py.None().into_bound(py),
                OutputValue::Same(i) => list.get_item(i)?,
                OutputValue::Const(value) => constant(py, &value)?,
            };
            list.append(object)?;
        }
        calls.mark_one_of_several(several, |at| list.get_item(at).ok())?;
        Ok(list)
    }
}

/// An entry that can run, with its name, and its executables for other sizes, if they are dynamic.
type Ready = (String, Arc<runtime::Executable>, EntryReport, Option<Arc<Instances>>);

fn ready(py: Python<'_>, entry: Entry) -> PyResult<Ready> {
    let abi = torch::init(py)?;
    let Entry { name, plan, open, kernels, report } = entry;
    let open = (!open.is_empty()).then_some(open);
    let mut inner = runtime::Executable::new(abi, plan, kernels, &mut Calls { py, abi })
        .map_err(|error| NativeError::new_err(format!("@{name}: {error}")))?;
    for timed in inner.about_mut().into_iter().flat_map(|about| &mut about.timed) {
        if let Some(kernel) = report.launched.iter().find(|kernel| timed.route.is_none() && kernel.name == timed.name) {
            timed.bytes = kernel.bytes.checked_div(kernel.launches);
            timed.lines = kernel.lines.iter().cloned().collect();
        }
    }
    if open.is_some() {
        inner.share_memory();
    }
    let inner = Arc::new(inner);
    let instances = open.map(|open| Instances::new(Arc::clone(&inner), open)).transpose();
    let instances = instances.map_err(|error| NativeError::new_err(format!("@{name}: {error}")))?.map(Arc::new);
    Ok((name, inner, report, instances))
}

/// Returns the entries that compute the gradients of one, by node; None for missing ones.
fn vjps_of<'a>(of: &runtime::Executable, entries: &'a [Ready]) -> Vec<Option<&'a Ready>> {
    let named = |vjp: &String| entries.iter().find(|(name, ..)| name == vjp);
    of.plan().training.iter().flat_map(|training| training.vjps.iter().map(named)).collect()
}

/// Returns the node of an entry, if its gradients are computed.
fn node(py: Python<'_>, entry: &Ready, entries: &[Ready]) -> PyResult<Option<Node>> {
    let (name, inner, ..) = entry;
    let error = |what: String| NativeError::new_err(format!("@{name}: {what}"));
    let Some(training) = &inner.plan().training else {
        return match runtime::computed_gradient(inner.plan()) {
            Some(output) => Err(error(format!("output {output} requires a gradient, and no dynamo.vjp computes it"))),
            None => Ok(None),
        };
    };
    let vjps = vjps_of(inner, entries);
    if let Some(at) = vjps.iter().position(Option::is_none) {
        return Err(error(format!("@{} is no entry", training.vjps[at])));
    }
    let graph = |(_, first, _, instances): &Ready| Graph { first: Arc::clone(first), instances: instances.clone() };
    let backward = vjps.into_iter().flatten().map(graph).collect();
    let all = Differentiable::new(torch::init(py)?, graph(entry), backward).map_err(|what| error(what.to_string()))?;
    Node::new(py, all).map(Some)
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
        // SAFETY: `known` is false.
        guarded(|| match unsafe { self.run(&mut calls, &inputs, false, &|at| objects.get(at).cloned()) } {
            Ok(made) => Self::outputs(&calls, &self.inner.plan().one_of_several, made, tensors),
            Err(Failed::Refused(error)) => Err(raise_run(&error)),
            Err(Failed::Raised(error)) => Err(error),
        })
    }

    /// Returns the measurements of its steps. The first name that is given here becomes the name of the graph in profiles.
    #[pyo3(signature = (name=None))]
    fn times(&self, name: Option<String>) -> Times {
        let about = self.inner.about().clone();
        if let Some(name) = name {
            if let Some(node) = &self.node {
                for part in node.training().nodes() {
                    part.backward().about().name.get_or_init(|| format!("{name}, gradients"));
                }
            }
            about.name.get_or_init(|| name);
        }
        Times { about }
    }

    /// Sets the function for double backward of a node: `f(inputs by number, tangents, wanted, state, sizes, taken)`. Ignored by a graph
    /// without gradients.
    fn differentiate_again(&self, node: usize, function: Py<PyAny>) {
        if let Some(own) = &self.node {
            own.set_double_backward(node, function);
        }
    }

    /// Returns the number of its nodes in autograd's graph.
    #[getter]
    fn nodes(&self) -> usize {
        self.node.as_ref().map_or(0, |node| node.training().nodes().len())
    }

    /// Returns number, element type, sizes and strides of each input. For a graph that computes gradients, the numbers are those of the
    /// inputs of the graph that was differentiated, then those of its tangents; None for the keys of random numbers.
    fn arguments(&self) -> Vec<Argument> {
        let plan = self.inner.plan();
        let number = |at: usize| (plan.keys != Some(at)).then(|| plan.primals.get(at).copied().flatten().unwrap_or(at));
        let described = |(at, input): (usize, &runtime::InputSpec)| {
            let (dtype, window) = (input.layout.dtype, &input.layout.window);
            (number(at), dtype.name(), window.sizes.clone(), window.strides.clone())
        };
        plan.inputs.iter().enumerate().map(described).collect()
    }

    /// Returns the sizes for which it has been run, most recently used first; None if sizes are static.
    #[getter]
    pub fn instances(&self) -> Option<Vec<Vec<i64>>> {
        self.instances.as_ref().map(|instances| instances.sizes())
    }

    /// For each result of a graph that computes gradients, returns the indices of the inputs that give it a history.
    fn sources(&self) -> Option<Vec<Vec<usize>>> {
        self.inner.plan().sources.clone()
    }

    /// Returns the names of the entries that compute its gradients, by node.
    #[getter]
    fn vjps(&self) -> Vec<String> {
        self.vjp_entries().to_vec()
    }

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = self.report_of(py, &[(&self.inner, &self.entry)])?;
        if let Some(node) = self.node.as_ref().filter(|_| !self.vjps.is_empty()) {
            let parts: Vec<_> = node.training().nodes().iter().map(Derived::backward).zip(&self.vjps).collect();
            dict.set_item("vjp", self.report_of(py, &parts)?)?;
            dict.set_item("nodes", parts.len())?;
            let saved: Vec<usize> = node.training().saved_bytes();
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
