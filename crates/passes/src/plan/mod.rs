//! `dynamo-plan`: the graph function becomes buffers.
//!
//! Values become windows on buffers: changes of view cost nothing, a kernel writes its results where they are wanted,
//! what lives at different times shares memory of one workspace. What must be contiguous, or must not be shared, is
//! copied by kernels like any other. See stage 04 in ARCHITECTURE.md.
//!
//! Option `vector-bits=N`: the width of vectors that products of matrices are cut for, else as this processor has them.

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
mod window;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op},
    pass::{Config, Pass, PassError, PassResult},
};

/// The pass.
pub static PLAN: Pass = Pass {
    name: "dynamo-plan",
    description: "Turn the graph function into buffers, views and launches, and give kernels their layouts",
    run,
};

fn run(module: Op, config: &Config) -> PassResult {
    let vector_bits = config.number("vector-bits").unwrap_or_else(crate::schedule::vector_bits);
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
    Ok(())
}

/// The kernel functions of a module, by name.
fn functions(body: Block) -> Vec<(String, Op)> {
    body.ops().into_iter().filter_map(|op| Some((op.symbol()?, op))).collect()
}
