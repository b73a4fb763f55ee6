//! `dynamo-hoist-scratch`: gives every thread its kernel temporaries once, at the start of its work.
//!
//! Bufferization puts row temporaries on the stack, inside the parallel loop. There they would be allocated once per
//! iteration, and `convert-scf-to-openmp` wraps the loop body into a `memref.alloca_scope` to bound that; this scope
//! may not hold branches, so lowering stops at it. Moving the `memref.alloca`s to the start of the enclosing
//! `omp.parallel` (or of the function, where nothing is parallel) makes them cost nothing and empties the scope, which
//! the next canonicalization dissolves.
//!
//! Temporaries too large for the stack stay `memref.alloc`; each is freed at the end of its block. None leaves its
//! block: one-shot bufferization refuses to yield fresh buffers from loops.
//!
//! Restriction: sizes must be static, since a moved allocation may not depend on what stands before it.

use dynamlir_dialect::{
    ir::{Block, Builder, Op},
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::{OMP_PARALLEL, func, memref},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-hoist-scratch",
    description: "Move stack buffers of kernels to the start of the parallel region or function",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[HOISTED, FREED],
    run,
};

const HOISTED: Statistic = Statistic { name: "hoisted", description: "stack buffers moved" };
const FREED: Statistic = Statistic { name: "freed", description: "heap buffers freed at the end of their block" };

fn run(module: Op, pass: &Run) -> PassResult {
    let mut stack = Vec::new();
    let mut heap = Vec::new();
    module.walk(&mut |op| {
        if op.is(memref::ALLOCA) {
            stack.push(op);
        } else if op.is(memref::ALLOC) {
            heap.push(op);
        }
    });
    pass.count(&HOISTED, stack.len());
    for op in stack {
        hoist(op)?;
    }
    for op in heap {
        pass.count(&FREED, usize::from(free_at_end_of_block(op)));
    }
    Ok(())
}

fn hoist(alloca: Op) -> PassResult {
    if alloca.num_operands() != 0 {
        return Err(PassError::at(alloca, "a kernel's temporary must have a static size"));
    }
    let mut around = alloca.parent();
    while let Some(op) = around {
        if op.is(OMP_PARALLEL) || op.is(func::FUNC) {
            let first = op.body().and_then(|body| body.ops().first().copied());
            if let Some(first) = first.filter(|&first| first != alloca) {
                alloca.move_before(first);
            }
            return Ok(());
        }
        around = op.parent();
    }
    Err(PassError::at(alloca, "a stack buffer outside any function"))
}

/// Whether it was not freed anyhow.
fn free_at_end_of_block(alloc: Op) -> bool {
    let is_freed = alloc.result(0).uses().iter().any(|used| used.op.is(memref::DEALLOC));
    let Some(terminator) = alloc.block().and_then(Block::terminator).filter(|_| !is_freed) else { return false };
    Builder::before(terminator).memref_dealloc(alloc.result(0));
    true
}
