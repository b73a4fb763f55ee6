//! `dynamo-plan`: the graph function becomes buffers.
//!
//! Values become windows on buffers: changes of view cost nothing, a kernel writes its results where they are wanted,
//! what lives at different times shares memory of one workspace. What must be contiguous, or must not be shared, is
//! copied by kernels like any other. See stage 04 in ARCHITECTURE.md.

mod attention;
mod convolution;
mod domain;
mod externs;
mod graph;
mod kernels;
mod layouts;
mod memory;
mod product;
mod scatter;
mod views;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op, Target},
    pass::{Pass, PassError, PassResult, Run, Statistic},
};

/// A window on a buffer. From here on sizes are numbers.
type Window = dynamlir_shapes::Window<i64>;

/// The pass.
pub static PLAN: Pass = Pass {
    name: "dynamo-plan",
    description: "Turn the graph function into buffers, views and launches, and give kernels their layouts",
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
    let ops = body.ops();
    let Some(main) = ops.iter().copied().find(|op| op.is("func.func") && op.attr("dynamo.entry").is_some()) else {
        return Err(PassError::module("no function has the attribute dynamo.entry"));
    };
    let old_kernels = ops.iter().copied().find(|op| op.is("builtin.module") && op.symbol().as_deref() == Some("kernels"));

    let outer = Builder::at_end(body, main.loc());
    let ctx = outer.ctx();
    let (kernels, kernels_body) = outer.op_with_body("builtin.module", &[], &[], &[("sym_name", Attr::str(ctx, "kernels"))], &[]);
    let (scratch, scratch_body) = outer.op_with_body("builtin.module", &[], &[], &[], &[]);
    let outcome = graph::plan(main, old_kernels, kernels_body, scratch_body, vector_bits);
    scratch.erase();
    let new_main = outcome?;
    main.erase();
    if let Some(old) = old_kernels {
        old.erase();
    }
    new_main.move_before(kernels);
    count(new_main, pass);
    Ok(())
}

fn count(main: Op, pass: &Run) {
    for op in main.body().map(Block::ops).unwrap_or_default() {
        match op.name().as_str() {
            "dynamo.launch" => pass.count(&LAUNCHES, 1),
            "dynamo.extern" => pass.count(&EXTERNS, 1),
            "dynamo.workspace" => pass.count(&WORKSPACE, usize::try_from(op.result(0).ty().numel()).unwrap_or(0)),
            _ => {}
        }
    }
}

/// The kernel functions of a module, by name.
fn functions(body: Block) -> Vec<(String, Op)> {
    body.ops().into_iter().filter_map(|op| Some((op.symbol()?, op))).collect()
}
