//! Reports on a compilation, and on the graphs that result from it, as Python reads them.

use std::collections::BTreeMap;

use dynamlir_decisions::{Decision, Decisions, Site, as_map};
use dynamlir_dialect::{
    ir::{Block, Op},
    ops::{self, AtenOp},
    program::entries,
};
use dynamlir_runtime::{ExternReport, Plan};
use dynamlir_torch_abi::Route;
use serde::Serialize;

use crate::{
    kernels::{self, KernelReport},
    memory::live_bytes,
};

/// Counts, times and decisions of one compilation.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Seconds by step, in order. Steps that ran in parallel share the elapsed time, so that the sum is the time that the caller waited.
    pub seconds: Vec<(String, f64)>,
    /// Seconds by pass, in the order of their first run, summed over all threads.
    pub passes: Vec<(String, f64)>,
    /// The number of threads that compiled kernels.
    pub threads: usize,
    /// Calls of `ATen` operators that became generated code or changes of view, by schema.
    pub generated: BTreeMap<String, usize>,
    /// Calls of operators that stay with torch, by schema.
    pub extern_ops: BTreeMap<String, usize>,
    /// Distinct kernels of all entries, in the order of their first launch.
    pub kernels: Vec<String>,
    /// The decisions of the passes.
    pub decisions: Decisions,
    /// The number of kernels that had been compiled earlier in this process.
    pub kernels_reused: usize,
}

/// The report on a call of one entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryReport {
    /// The kernels that it launches, with the Python lines they come from.
    pub launched: Vec<KernelReport>,
    /// Launches per call.
    pub launches: usize,
    /// Size of the workspace.
    pub workspace_bytes: usize,
    /// The peak of its live bytes over all steps: a lower bound for the workspace.
    pub live_bytes: usize,
    /// The number of operations of an entry for training that are recomputed for its gradients.
    pub recomputed: usize,
}

/// The report on one graph: its compilation, and the work of a call. The fields are those of `dynamlir.CompileReport`, which has others too.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GraphReport {
    /// Its name.
    pub graph: String,
    /// The number of operations that became generated code.
    pub ops_generated: usize,
    /// The number of operations that stayed with torch.
    pub ops_extern: usize,
    /// The number of distinct kernels.
    pub kernels: usize,
    /// The number of kernels that had been compiled earlier in this process.
    pub kernels_reused: usize,
    /// The calls of torch's library, in order.
    pub externs: Vec<ExternCall>,
    /// See [`EntryReport`].
    pub workspace_bytes: usize,
    /// See [`EntryReport`].
    pub live_bytes: usize,
    /// Seconds by stage, in order.
    #[serde(serialize_with = "as_map")]
    pub stages: Vec<(String, f64)>,
    /// Seconds by pass, in order.
    #[serde(serialize_with = "as_map")]
    pub passes: Vec<(String, f64)>,
    /// The number of threads that compiled kernels.
    pub threads: usize,
    /// The kernels that a call launches.
    pub launched: Vec<KernelReport>,
    /// The number of launches per call.
    pub launches: usize,
    /// For a graph that trains: the bytes of each value saved for backward.
    pub saved: Vec<usize>,
    /// For a graph that trains: the number of operations that backward recomputes.
    pub recomputed: usize,
    /// For a graph that trains: the number of its nodes in autograd's graph.
    pub nodes: usize,
    /// For a graph that trains: the report on the graphs of its gradients, all nodes together. It has no compilation of its own.
    pub gradients: Option<Box<Self>>,
    /// The decisions: those of the passes, then those about the route of each call of torch's library.
    pub decisions: Decisions,
}

/// A call of torch's library.
#[derive(Debug, Clone, Serialize)]
pub struct ExternCall {
    /// `aten.cat.default`.
    pub schema: String,
    /// The route that the call takes.
    pub route: String,
    /// The line of the user's program.
    pub location: String,
    /// The number of calls.
    pub count: usize,
}

impl GraphReport {
    /// The report on a call of these entries together, each with its extern calls; nothing is said of their compilation.
    pub fn of_call(graph: String, parts: &[(&EntryReport, Vec<ExternReport>)]) -> Self {
        let externs: Vec<&ExternReport> = parts.iter().flat_map(|(_, externs)| externs).collect();
        let launched: Vec<_> = parts.iter().flat_map(|(entry, _)| &entry.launched).cloned().collect();
        let most = |bytes: fn(&EntryReport) -> usize| parts.iter().map(|(entry, _)| bytes(entry)).max().unwrap_or_default();
        Self {
            graph,
            ops_extern: externs.len(),
            kernels: launched.len(),
            workspace_bytes: most(|entry| entry.workspace_bytes),
            live_bytes: most(|entry| entry.live_bytes),
            launches: parts.iter().map(|(entry, _)| entry.launches).sum(),
            launched,
            decisions: externs.iter().map(|report| routed(report)).collect(),
            externs: externs.into_iter().map(ExternCall::of).collect(),
            ..Self::default()
        }
    }

    /// Adds the compilation.
    #[must_use]
    pub fn compiled(self, report: &Report) -> Self {
        Self {
            ops_generated: report.generated.values().sum(),
            ops_extern: report.extern_ops.values().sum(),
            kernels: report.kernels.len(),
            kernels_reused: report.kernels_reused,
            stages: report.seconds.clone(),
            passes: report.passes.clone(),
            threads: report.threads,
            decisions: report.decisions.clone().into_iter().chain(self.decisions).collect(),
            ..self
        }
    }
}

impl ExternCall {
    fn of(report: &ExternReport) -> Self {
        Self { schema: report.schema.clone(), route: report.route.to_string(), location: report.location.clone(), count: 1 }
    }
}

/// The decision about the route of a call of torch's library.
fn routed(report: &ExternReport) -> Decision {
    let site = Site { what: report.schema.clone(), location: report.location.clone() };
    let others = [Route::CShim, Route::Dispatcher, Route::Python].into_iter().filter(|&route| route != report.route);
    let alternatives = others.map(|route| route.to_string().into()).collect();
    let reason = if report.reason.is_empty() { "the cheapest route that takes these arguments".into() } else { report.reason.clone() };
    Decision { alternatives, ..Decision::new("extern", site, report.route.to_string(), &[]).because(reason) }
}

impl EntryReport {
    /// The report on a planned entry.
    pub fn of(entry: Op, plan: &Plan) -> Self {
        let launched = kernels::describe(entry);
        let launches = launched.iter().map(|kernel| kernel.launches).sum();
        let recomputed = ops::RECOMPUTED.of(entry).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Self { launched, launches, workspace_bytes: plan.workspace_bytes, live_bytes: live_bytes(plan), recomputed }
    }
}

impl Report {
    /// Records a step's time; times of the same step add up.
    pub fn time(&mut self, step: &str, seconds: f64) {
        add(&mut self.seconds, step, seconds);
    }

    /// Records the time of one run of a pass.
    pub fn time_pass(&mut self, pass: &str, seconds: f64) {
        add(&mut self.passes, pass, seconds);
    }

    /// Merges the reports of work that ran in parallel, and its times; `passed` is the elapsed time in seconds.
    pub fn merge<'a>(&mut self, parts: impl Iterator<Item = &'a Self>, passed: f64) {
        let mut together = Self::default();
        for part in parts {
            part.seconds.iter().for_each(|(step, seconds)| together.time(step, *seconds));
            part.passes.iter().for_each(|(pass, seconds)| self.time_pass(pass, *seconds));
            self.decisions.extend(part.decisions.clone());
        }
        let worked: f64 = together.seconds.iter().map(|(_, seconds)| seconds).sum();
        for (step, seconds) in &together.seconds {
            self.time(step, seconds * passed / worked.max(f64::MIN_POSITIVE));
        }
    }
}

fn add(times: &mut Vec<(String, f64)>, name: &str, seconds: f64) {
    match times.iter_mut().find(|(known, _)| known == name) {
        Some((_, total)) => *total += seconds,
        None => times.push((name.to_owned(), seconds)),
    }
}

/// Counts the `dynamo.aten` calls of all entries by schema.
pub fn aten_calls(module: Op) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    let bodies = entries(module).into_iter().filter_map(Op::body);
    for call in bodies.flat_map(Block::ops).filter_map(AtenOp::cast) {
        *calls.entry(call.schema()).or_default() += 1;
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_taken_side_by_side_share_the_time_that_passed() {
        let part = |llvm: f64| {
            let mut part = Report::default();
            part.time("llvm", llvm);
            part.time("emit", 1.0);
            part.time_pass("canonicalize", 0.5);
            let site = Site { what: format!("k{llvm}"), ..Site::default() };
            part.decisions.add(Decision::new("dynamo-schedule", site, "plain loops", &[]));
            part
        };
        let mut report = Report::default();
        report.time("import", 1.0);
        report.merge([part(1.0), part(3.0)].iter(), 3.0);
        assert_eq!(report.seconds, [("import".into(), 1.0), ("llvm".into(), 2.0), ("emit".into(), 1.0)]);
        assert_eq!(report.passes, [("canonicalize".into(), 1.0)]);
        assert_eq!(report.decisions.iter().map(|decision| &*decision.site.what).collect::<Vec<_>>(), ["k1", "k3"]);
    }
}
