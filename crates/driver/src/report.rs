//! What a compilation did.

use std::collections::BTreeMap;

use dynamlir_dialect::ir::Op;

/// Counts, times and decisions of one compilation.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Seconds by step, in order.
    pub seconds: Vec<(String, f64)>,
    /// Calls of `ATen` operators that became generated code or changes of view, by schema.
    pub generated: BTreeMap<String, usize>,
    /// Calls that stay with torch, by schema.
    pub extern_ops: BTreeMap<String, usize>,
    /// Distinct kernels, in order.
    pub kernels: Vec<String>,
    /// Launches per call.
    pub launches: usize,
    /// How many of the kernels had been compiled before in this process.
    pub kernels_reused: usize,
    /// Size of the workspace.
    pub workspace_bytes: usize,
}

impl Report {
    /// Notes a step's time; the same step again adds up.
    pub fn time(&mut self, step: &str, seconds: f64) {
        match self.seconds.iter_mut().find(|(name, _)| name == step) {
            Some((_, total)) => *total += seconds,
            None => self.seconds.push((step.to_owned(), seconds)),
        }
    }
}

/// Counts the `dynamo.aten` calls of the graph function by schema.
pub fn aten_calls(module: Op) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    let Some(body) = crate::plan::entry(module).and_then(Op::body) else { return calls };
    for op in body.ops().into_iter().filter(|op| op.is("dynamo.aten")) {
        *calls.entry(op.attr_str("schema").unwrap_or_default()).or_default() += 1;
    }
    calls
}
