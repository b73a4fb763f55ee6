//! `dynamo-plan`: converts each entry to buffers; entries share kernels.
//!
//! Values become windows on buffers: changes of view cost nothing, a kernel writes its results to their preferred place, and values with
//! disjoint lifetimes share memory of one workspace. Values that must be contiguous, or must not be shared, are copied by ordinary kernels.
//! See docs/architecture/code-generation.md.

mod attention;
mod buffers;
mod careful;
mod convolution;
mod domain;
mod externs;
mod finish;
mod graph;
mod in_place;
mod kernels;
mod launches;
mod layouts;
mod memory;
mod product;
mod results;
mod scatter;
mod slots;
mod symbols;
mod values;
mod views;

use std::{collections::HashMap, rc::Rc};

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op, Target},
    ops::{self, DynamoOp},
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    program::{KERNELS, entries, kernels_module},
    upstream::MODULE,
};

use dynamlir_shapes::Dim;
use kernels::{Kernels, Template};

/// A window on a buffer.
type Window = dynamlir_shapes::Window<Dim>;

/// A window whose sizes and strides are all static.
type NumberWindow = dynamlir_shapes::Window<i64>;

/// The pass.
pub static PLAN: Pass = Pass {
    name: "dynamo-plan",
    description: "Turn entries into buffers, views and launches, and assign layouts to kernels",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[LAUNCHES, EXTERNS, WORKSPACE],
    run,
};

const LAUNCHES: Statistic = Statistic { name: "launches", description: "kernel launches planned" };
const EXTERNS: Statistic = Statistic { name: "externs", description: "calls of the library planned" };
const WORKSPACE: Statistic = Statistic { name: "workspace-bytes", description: "bytes of workspace planned" };

fn run(module: Op, pass: &Run) -> PassResult {
    let vector_bits = Target::of(module).vector_bits;
    let body = module.body().ok_or_else(|| PassError::module("an empty module"))?;
    let entries = entries(module);
    let Some(first) = entries.first() else { return Err(PassError::module("no function has the attribute dynamo.entry")) };
    let old_kernels = kernels_module(module);
    let templates = templates(old_kernels)?;

    let outer = Builder::at_end(body, first.loc());
    let ctx = outer.ctx();
    let (new_kernels, kernels_body) = outer.op_with_body(MODULE, &[], &[], &[("sym_name", Attr::str(ctx, KERNELS))], &[]);
    let (scratch, scratch_body) = outer.op_with_body(MODULE, &[], &[], &[], &[]);
    // Entries that launch a kernel with the same layouts share the specialized kernel.
    let mut shared = Shared { kernels: Kernels::new(ctx, kernels_body, vector_bits), templates, scratch: scratch_body };
    let outcome: Result<Vec<Op>, PassError> = entries.iter().map(|&entry| graph::plan(entry, &mut shared)).collect();
    scratch.erase();
    for (old, new) in entries.into_iter().zip(outcome?) {
        old.erase();
        new.move_before(new_kernels);
        count(new, pass);
    }
    if let Some(old) = old_kernels {
        old.erase();
    }
    Ok(())
}

/// State shared by the plans of a module's entries.
struct Shared {
    /// The kernels specialized for layouts.
    kernels: Kernels,
    /// The kernels before specialization, by name.
    templates: HashMap<String, Rc<Template>>,
    /// The block for templates that the module did not contain.
    scratch: Block,
}

fn templates(kernels: Option<Op>) -> Result<HashMap<String, Rc<Template>>, PassError> {
    let functions = kernels.and_then(Op::body).map(functions).unwrap_or_default();
    let template = |(name, func): (String, Op)| {
        let missing = |attr: &str| PassError::at(func, format!("a kernel without `{attr}`"));
        let domain = ops::DOMAIN.dims().of(func).ok_or_else(|| missing(ops::DOMAIN.name()))?;
        let reduced = ops::REDUCED_DIMS.of(func).ok_or_else(|| missing(ops::REDUCED_DIMS.name()))?;
        let reduced = reduced.into_iter().map(|dim| dim as usize).collect();
        Ok((name.clone(), Rc::new(Template { name, domain, reduced, func })))
    };
    functions.into_iter().map(template).collect()
}

fn count(main: Op, pass: &Run) {
    for op in main.body().map(Block::ops).unwrap_or_default() {
        match DynamoOp::of(op) {
            Some(DynamoOp::Launch(_)) => pass.count(&LAUNCHES, 1),
            Some(DynamoOp::Extern(_)) => pass.count(&EXTERNS, 1),
            Some(DynamoOp::Workspace(workspace)) => {
                pass.count(&WORKSPACE, usize::try_from(workspace.result().ty().numel()).unwrap_or(0));
            }
            _ => {}
        }
    }
}

/// The kernel functions of a module, by name.
fn functions(body: Block) -> Vec<(String, Op)> {
    body.ops().into_iter().filter_map(|op| Some((op.symbol()?, op))).collect()
}
