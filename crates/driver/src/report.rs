//! Reports on a compilation.

use std::collections::BTreeMap;

use dynamlir_dialect::{
    ir::{Block, Op},
    ops::{self, AtenOp},
    program::entries,
};
use dynamlir_runtime::Plan;

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
    /// Kernels that run as plain loops, and the reason why their schedule was refused.
    pub unscheduled: BTreeMap<String, String>,
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
            self.unscheduled.extend(part.unscheduled.clone());
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
            part.unscheduled.insert(format!("k{llvm}"), "a scan".into());
            part
        };
        let mut report = Report::default();
        report.time("import", 1.0);
        report.merge([part(1.0), part(3.0)].iter(), 3.0);
        assert_eq!(report.seconds, [("import".into(), 1.0), ("llvm".into(), 2.0), ("emit".into(), 1.0)]);
        assert_eq!(report.passes, [("canonicalize".into(), 1.0)]);
        assert_eq!(report.unscheduled.into_keys().collect::<Vec<_>>(), ["k1", "k3"]);
    }
}
