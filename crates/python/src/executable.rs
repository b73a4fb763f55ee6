//! `Executable`: a compiled graph that Python calls.

use std::{sync::Arc, time::Instant};

use dynamlir_driver::{Compiled, Entry, EntryReport, Options, Report};
use dynamlir_runtime::{self as runtime, OutputValue, Outputs};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    errors::{NativeError, guarded, raise_run},
    graph::constant,
    profile::Times,
    torch::{self, Calls},
};

/// Machine code for one entry of a module.
#[pyclass(frozen)]
pub struct Executable {
    inner: runtime::Executable,
    report: Arc<Report>,
    entry: EntryReport,
}

/// The compiler's options from Python's.
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
    /// Loads a compiled module: its entries by name, in order.
    pub fn load(py: Python<'_>, compiled: Compiled) -> PyResult<Vec<(String, Self)>> {
        let start = Instant::now();
        let Compiled { entries, mut report } = compiled;
        let ready: Vec<_> = entries.into_iter().map(|entry| ready(py, entry)).collect::<PyResult<_>>()?;
        report.time("load", start.elapsed().as_secs_f64());
        let report = Arc::new(report);
        Ok(ready.into_iter().map(|(name, inner, entry)| (name, Self { inner, report: Arc::clone(&report), entry })).collect())
    }

    /// The compiled graph.
    pub fn inner(&self) -> &runtime::Executable {
        &self.inner
    }

    fn outputs<'py>(calls: &Calls<'py>, made: Outputs, inputs: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
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
        Ok(list)
    }
}

/// An entry that can run, under its name.
fn ready(py: Python<'_>, entry: Entry) -> PyResult<(String, runtime::Executable, EntryReport)> {
    let abi = torch::init(py)?;
    let Entry { name, plan, kernels, report } = entry;
    let mut inner = runtime::Executable::new(abi, plan, kernels, &mut Calls { py, abi })
        .map_err(|error| NativeError::new_err(format!("@{name}: {error}")))?;
    for timed in inner.about_mut().into_iter().flat_map(|about| &mut about.timed) {
        if let Some(kernel) = report.launched.iter().find(|kernel| timed.route.is_none() && kernel.name == timed.name) {
            timed.bytes = kernel.bytes.checked_div(kernel.launches);
            timed.lines = kernel.lines.iter().cloned().collect();
        }
    }
    Ok((name, inner, report))
}

#[pymethods]
impl Executable {
    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(&self, py: Python<'py>, tensors: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let mut calls = Calls { py, abi: torch::init(py)? };
        let objects: Vec<_> = tensors.iter().collect();
        let mut inputs = Vec::with_capacity(objects.len());
        for object in &objects {
            if !torch::is_tensor(object)? {
                return Err(PyTypeError::new_err(format!("expected tensors, got {}", object.get_type().name()?)));
            }
            inputs.push(calls.unwrap(object)?);
        }
        guarded(|| match self.inner.run(&inputs, &mut calls) {
            Ok(made) => Self::outputs(&calls, made, tensors),
            Err(error) => Err(raise_run(&error)),
        })
    }

    /// What its steps have been measured at. Profiles call the graph by the first name that is given here.
    #[pyo3(signature = (name=None))]
    fn times(&self, name: Option<String>) -> Times {
        let about = self.inner.about().clone();
        if let Some(name) = name {
            about.name.get_or_init(|| name);
        }
        Times { about }
    }

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
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
        for kernel in &self.entry.launched {
            let lines: Vec<&String> = kernel.lines.iter().collect();
            launched.append((&kernel.name, kernel.launches, kernel.bytes, lines))?;
        }
        dict.set_item("launched", launched)?;
        dict.set_item("launches", self.entry.launches)?;
        dict.set_item("workspace_bytes", self.entry.workspace_bytes)?;
        dict.set_item("live_bytes", self.entry.live_bytes)?;
        dict.set_item("generated", self.report.generated.clone())?;
        dict.set_item("ops_generated", self.report.generated.values().sum::<usize>())?;
        dict.set_item("ops_extern", self.report.extern_ops.values().sum::<usize>())?;
        let externs = PyList::empty(py);
        for report in self.inner.extern_reports() {
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
