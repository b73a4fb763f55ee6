//! `dynamo-hoist-scratch`: allocates the kernel temporaries of every thread once, at the start of its work.
//!
//! Bufferization puts row temporaries on the stack, inside the parallel loop. There they would be allocated once per iteration, and
//! `convert-scf-to-openmp` wraps the loop body into a `memref.alloca_scope` to bound that. This scope may not contain branches, so lowering
//! would fail. Moving the `memref.alloca`s to the start of the enclosing `omp.parallel` (or of the function, if nothing is parallel) makes
//! them free of cost and empties the scope, which the next canonicalization removes.
//!
//! If a kernel's sizes are arguments, the size of a temporary for a block may be unknown except for an upper bound: the block's size. The
//! bound is allocated on the stack, and the temporary is the part that it needs:
//! ```mlir
//! %n = affine.min affine_map<(d0)[s0] -> (-d0 + s0, 512)>(%i)[%columns]
//! %sums = memref.alloc(%n) : memref<?xf32>                                                           // before
//!
//! %stack = memref.alloca() : memref<512xf32>                                                         // after, moved
//! %sums = memref.reinterpret_cast %stack to offset: [0], sizes: [%n], strides: [1] : … to memref<?xf32>
//! ```
//! Temporaries too large for the stack stay `memref.alloc`; each is freed at the end of its block. None leaves its block: one-shot
//! bufferization refuses to yield fresh buffers from loops.
//!
//! Restriction: sizes on the stack must be static, since a moved allocation may not depend on preceding operations.

use dynamlir_dialect::{
    ir::{AffineExpr, AffineMap, Block, Builder, DYNAMIC, Op, Type, Value},
    ops,
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::{AFFINE_MIN, OMP_PARALLEL, arith, func, memref},
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

/// The maximum number of bytes of a bounded temporary that is moved to the stack.
const BOUNDED_BYTES: i64 = 16 * 1024;
/// The alignment of temporaries: a cache line.
const ALIGNMENT: i64 = 64;

fn run(module: Op, pass: &Run) -> PassResult {
    let mut open = Vec::new();
    module.walk(&mut |op| open.extend((op.is(memref::ALLOC) && op.num_operands() > 0 && has_open_sizes(op)).then_some(op)));
    for op in open {
        to_stack(op);
    }

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

/// Returns true if an operation is in a kernel whose sizes are arguments.
fn has_open_sizes(op: Op) -> bool {
    let mut around = op.parent();
    while let Some(op) = around.filter(|op| !op.is(func::FUNC)) {
        around = op.parent();
    }
    around.is_some_and(|function| ops::SYMBOLS.is_on(function))
}

/// Moves a temporary to the stack if it is known to be small; returns its replacement.
fn to_stack(alloc: Op) -> Option<Value> {
    let ty = alloc.result(0).ty();
    let mut open = alloc.operands().into_iter();
    let sizes = ty.shape().into_iter().map(|size| if size == DYNAMIC { bound(open.next()?) } else { Some(size) });
    let sizes = sizes.collect::<Option<Vec<_>>>()?;
    let bytes = sizes.iter().fold(i64::from(ty.element().width().div_ceil(8)), |bytes, &size| bytes.saturating_mul(size));
    if bytes > BOUNDED_BYTES || ty.strides().contains(&DYNAMIC) {
        return None;
    }
    let b = Builder::before(alloc).with_loc(alloc.loc());
    let whole = b.memref_alloca(Type::memref(&sizes, ty.element(), &dynamlir_shapes::row_major(&sizes), 0), ALIGNMENT);
    let used = b.memref_reinterpret_cast_to(whole, &alloc.operands(), &[], ty);
    alloc.result(0).replace_all_uses_with(used);
    alloc.erase();
    Some(used)
}

/// An upper bound of an index.
fn bound(value: Value) -> Option<i64> {
    let op = value.def()?;
    let bounds = || op.operands().into_iter().map(bound);
    match &*op.name() {
        arith::CONSTANT => op.attr_i64("value"),
        arith::MINSI => bounds().flatten().min(),
        arith::MAXSI => bounds().collect::<Option<Vec<_>>>()?.into_iter().max(),
        AFFINE_MIN => {
            let map: AffineMap = op.required("map");
            let operand = |i: usize| bound(op.operand(i));
            let symbol = |i: usize| operand(map.num_dims() + i);
            let of =
                |result: AffineExpr| result.as_constant().or_else(|| operand(result.as_dim()?)).or_else(|| symbol(result.as_symbol()?));
            map.results().into_iter().filter_map(of).min()
        }
        _ => None,
    }
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

/// Frees a buffer at the end of its block, unless it is freed already; returns true if it did.
fn free_at_end_of_block(alloc: Op) -> bool {
    let is_freed = alloc.result(0).uses().iter().any(|used| used.op.is(memref::DEALLOC));
    let Some(terminator) = alloc.block().and_then(Block::terminator).filter(|_| !is_freed) else { return false };
    Builder::before(terminator).memref_dealloc(alloc.result(0));
    true
}
