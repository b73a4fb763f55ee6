//! The matrix products of a trace for which there is more than one strategy.
//!
//! To measure strategies, a caller first lists the problems, and then passes the winning strategies to the compilation proper
//! ([`Options::choices`](crate::Options)). They are written on the module at stage aten: a dump shows them, and replays them.

use std::time::Instant;

use dynamlir_codegen::{pipelines::Stage, target::host};
use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{Attr, Op},
    ops,
};
use dynamlir_import::Trace;
use melior::ir::Module;
use serde::Serialize;

use crate::{Error, Report};

/// Lists the problems of a module at stage prims.
const LIST: &str = "builtin.module(dynamo-select{list-problems=true})";

/// A matrix product or convolution, and the strategies that are worth trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The text that identifies it in choices.
    pub text: String,
    /// The operator that calls the library for it.
    pub schema: String,
    /// Sizes and strides of the operands.
    pub operands: Vec<(Vec<i64>, Vec<i64>)>,
    /// Strides, padding, dilation and groups of a convolution.
    pub numbers: Vec<Vec<i64>>,
    /// True if it is followed by an operation that generated code can fuse.
    pub followed: bool,
    /// The number of multiplications.
    pub work: i64,
    /// The strategies, the one that the cost model predicts to win first.
    pub strategies: Vec<String>,
}

/// The module of a trace, at stage aten.
pub(crate) fn import<'s>(trace: &Trace, session: &'s Session, report: &mut Report) -> Result<Module<'s>, Error> {
    let start = Instant::now();
    let module = session.parse("module {}")?;
    let opened = start.elapsed().as_secs_f64();
    let body = module_op(&module).body().ok_or_else(|| Error::Plan("a module without a body".into()))?;
    trace.write(body, session.ctx())?;
    report.time("session", opened);
    report.time("import", start.elapsed().as_secs_f64() - opened);
    if !module_op(&module).verify() {
        return Err(Error::Plan(format!("the recorded graph is not valid:\n{}", session.take_diagnostics())));
    }
    Ok(module)
}

/// Writes choices on a module.
pub(crate) fn choose(module: Op, choices: &[(String, String)]) {
    if choices.is_empty() {
        return;
    }
    let ctx = module.ctx();
    let entries: Vec<_> = choices.iter().map(|(problem, strategy)| (problem.as_str(), Attr::str(ctx, strategy))).collect();
    ops::CHOICES.set(module, Attr::dict(ctx, &entries));
}

/// The problems of a trace, without duplicates. There are none if tensors are on a device other than the CPU.
pub fn list_problems(trace: &Trace) -> Result<Vec<Problem>, Error> {
    if trace.device.is_some() {
        return Ok(Vec::new());
    }
    dynamlir_passes::register_all();
    let session = Session::new().trusting();
    let mut module = import(trace, &session, &mut Report::default())?;
    ops::TARGET.set(module_op(&module), &host());
    for stage in Stage::first().up_to(Stage::of("prims")) {
        session.run(&mut module, &stage.pipeline().unwrap_or_default())?;
    }
    session.run(&mut module, LIST)?;
    let listed = ops::PROBLEMS.of(module_op(&module)).unwrap_or_default();
    listed.into_iter().map(|attr| read(attr).ok_or_else(|| Error::Plan(format!("not a problem: {attr}")))).collect()
}

fn read(attr: Attr) -> Option<Problem> {
    let text = |name: &str| attr.get(name)?.as_str();
    let lists = |name: &str| attr.get(name)?.as_array()?.into_iter().map(Attr::as_i64s).collect::<Option<Vec<_>>>();
    Some(Problem {
        text: text("problem")?,
        schema: text("schema")?,
        operands: lists("sizes")?.into_iter().zip(lists("strides")?).collect(),
        numbers: lists("numbers")?,
        followed: attr.get("followed")?.as_bool()?,
        work: attr.get("work")?.as_i64()?,
        strategies: attr.get("strategies")?.as_array()?.into_iter().map(Attr::as_str).collect::<Option<_>>()?,
    })
}

/// Name and features of the processor that code is compiled for.
pub fn processor() -> (String, String) {
    let host = host();
    (host.cpu, host.features)
}
