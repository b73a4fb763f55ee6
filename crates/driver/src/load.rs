//! Loads compiled entries: executables, each with those that compute its gradients.

use std::sync::Arc;

use dynamlir_runtime::{Differentiable, Executable, Graph, Instances, PythonCalls, TorchAbi, computed_gradient};

use crate::{
    Entry, Error,
    report::{EntryReport, GraphReport, Report},
};

/// An entry that can run.
pub struct Loaded {
    /// Its symbol.
    pub name: String,
    /// Its code.
    pub graph: Graph,
    /// Its gradients, if they are computed.
    pub training: Option<Differentiable>,
    /// The reports on a call.
    pub calls: CallReports,
}

/// The report on a call of an entry, and those on the entries that compute its gradients, by node.
pub struct CallReports {
    own: EntryReport,
    gradients: Vec<EntryReport>,
}

/// Loads the entries of a module, in order.
pub fn load(entries: Vec<Entry>, abi: &'static TorchAbi, calls: &mut dyn PythonCalls) -> Result<Vec<Loaded>, Error> {
    let mut loaded = entries.into_iter().map(|entry| executable(entry, abi, calls)).collect::<Result<Vec<_>, _>>()?;
    for at in 0..loaded.len() {
        (loaded[at].training, loaded[at].calls.gradients) = gradients(abi, &loaded[at], &loaded)?;
    }
    Ok(loaded)
}

fn error(name: &str, what: &impl ToString) -> Error {
    Error::Load { entry: name.to_owned(), what: what.to_string() }
}

fn executable(entry: Entry, abi: &'static TorchAbi, calls: &mut dyn PythonCalls) -> Result<Loaded, Error> {
    let Entry { name, plan, open, kernels, report } = entry;
    let open = (!open.is_empty()).then_some(open);
    let mut first = Executable::new(abi, plan, kernels, calls).map_err(|what| error(&name, &what))?;
    for timed in first.about_mut().into_iter().flat_map(|about| &mut about.timed) {
        if let Some(kernel) = report.launched.iter().find(|kernel| timed.route.is_none() && kernel.name == timed.name) {
            timed.bytes = kernel.bytes.checked_div(kernel.launches);
            timed.lines = kernel.lines.iter().cloned().collect();
        }
    }
    if open.is_some() {
        first.share_memory();
    }
    let first = Arc::new(first);
    let instances = open.map(|open| Instances::new(Arc::clone(&first), open).map(Arc::new)).transpose();
    let graph = Graph { first, instances: instances.map_err(|what| error(&name, &what))? };
    Ok(Loaded { name, graph, training: None, calls: CallReports { own: report, gradients: Vec::new() } })
}

/// Returns the gradients of an entry, if they are computed, and the reports on the entries that compute them.
fn gradients(abi: &'static TorchAbi, of: &Loaded, all: &[Loaded]) -> Result<(Option<Differentiable>, Vec<EntryReport>), Error> {
    let plan = of.graph.first.plan();
    let Some(training) = &plan.training else {
        return match computed_gradient(plan) {
            Some(output) => Err(error(&of.name, &format!("output {output} requires a gradient, and no dynamo.vjp computes it"))),
            None => Ok((None, Vec::new())),
        };
    };
    let named = |vjp: &String| all.iter().find(|entry| entry.name == *vjp).ok_or_else(|| error(&of.name, &format!("@{vjp} is no entry")));
    let vjps = training.vjps.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let (backward, reports) = vjps.into_iter().map(|vjp| (vjp.graph.clone(), vjp.calls.own.clone())).unzip();
    let training = Differentiable::new(abi, of.graph.clone(), backward).map_err(|what| error(&of.name, &what))?;
    Ok((Some(training), reports))
}

impl CallReports {
    /// The report on a graph of this name and on its gradients, with the compilation of the whole module.
    pub fn graph(&self, name: &str, compilation: &Report, inner: &Executable, training: Option<&Differentiable>) -> GraphReport {
        let externs = |inner: &Executable| inner.extern_reports().cloned().collect::<Vec<_>>();
        let mut report = GraphReport::of_call(name.to_owned(), &[(&self.own, externs(inner))]).compiled(compilation);
        if let Some(training) = training.filter(|_| !self.gradients.is_empty()) {
            let backward = training.nodes().iter().map(|node| externs(node.backward()));
            let parts: Vec<_> = self.gradients.iter().zip(backward).collect();
            report.gradients = Some(Box::new(GraphReport::of_call(format!("{name}, gradients"), &parts)));
            report.nodes = parts.len();
            report.saved = training.saved_bytes();
            report.recomputed = self.own.recomputed;
        }
        report
    }
}
