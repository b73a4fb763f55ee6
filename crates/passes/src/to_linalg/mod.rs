//! `dynamo-to-linalg`: lowers kernel bodies from primitives to `linalg.generic` on tensors.
//!
//! A kernel has one domain and reduces along one set of its dimensions. It becomes a chain of generics, the *phases*, tagged `dynamo.phase
//! = k`: one for each reduction on the way to the result, with pointwise primitives inlined. The last one yields everything that leaves the
//! kernel. `phases` decides the division into phases, `body` builds one, `scalar` and `convert` contain the scalar code.
//!
//! Before:
//! ```mlir
//! %x = bufferization.to_tensor %in restrict : memref<4x8xf32> to tensor<4x8xf32>
//! %y = dynamo.exp %x : tensor<4x8xf32>
//! %s = dynamo.reduce sum %y dims [1] : tensor<4x8xf32> -> tensor<4xf32>
//! bufferization.materialize_in_destination %s in restrict writable %out : …
//! ```
//! After:
//! ```mlir
//! %empty = tensor.empty() {dynamo.init = 0 : i64} : tensor<4xf32>
//! %zero = linalg.fill {dynamo.init = 0 : i64} ins(%c0 : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
//! %s = linalg.generic {…, iterator_types = ["parallel", "reduction"]} ins(%x) outs(%zero) attrs = {dynamo.phase = 0 : i64} {
//! ^bb0(%in: f32, %sum: f32):
//!   %y = math.exp %in : f32
//!   %next = arith.addf %sum, %y fastmath<reassoc> : f32
//!   linalg.yield %next : f32
//! } -> tensor<4xf32>
//! ```
//!
//! The kernel also gets its `dynamo.signature = (inputs) -> (outputs)`: which arguments are read and which are written can be derived from
//! a body of primitives, but no longer from loops.
//!
//! Sizes that are expressions are arguments of the kernel, or computed from them ([`sizes`]).
//!
//! Restrictions: static and reduced sizes are at least 1, and all sizes of a kernel with a product are static; reductions are along all of
//! `dynamo.reduced_dims` or none; the only shape primitive is `broadcast`, since the planner has turned the others into views. A scan is a
//! generic tagged `dynamo.scan = dim` whose scanned dimension must be processed in order: a schedule must neither tile nor split it. A
//! generic that could only be split along its reduction, and must not be, carries no `dynamo.phase`. A kernel that writes by index becomes
//! loops at once ([`scatter`]). A matrix product is a generic without a phase, before all others ([`product`]).

mod body;
mod convert;
mod expand;
mod kernel;
mod phases;
mod philox;
mod product;
mod scalar;
mod scatter;
mod sizes;
pub(crate) mod stage;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op},
    ops,
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::{bufferization, func, llvm},
};

use crate::{anchors, values::Sizes};
use body::Bodies;
use kernel::Kernel;
use scalar::Library;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-to-linalg",
    description: "Lower the primitives of kernels to linalg.generic, one for each reduction phase",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[LOWERED],
    run,
};

const LOWERED: Statistic = Statistic { name: "kernels", description: "kernels lowered" };

fn run(module: Op, pass: &Run) -> PassResult {
    let mut kernels = Vec::new();
    module.walk(&mut |op| {
        if op.is(func::FUNC) && ops::KERNEL.is_on(op) {
            kernels.push(op);
        }
    });
    pass.count(&LOWERED, kernels.len());
    kernels.into_iter().try_for_each(lower)
}

fn lower(function: Op) -> PassResult {
    let block = function.body().ok_or_else(|| PassError::at(function, "a kernel needs a body"))?;
    let end = block.terminator().ok_or_else(|| PassError::at(function, "a kernel needs a terminator"))?;
    if let Some(op) = scatter::find(block) {
        return scatter::lower(function, block, op);
    }
    expand::run(block);
    let kernel = Kernel::read(function)?;
    ops::SIGNATURE.set(function, kernel.signature(function)?);

    let Some(&first) = block.ops().first() else { return Err(PassError::at(function, "a kernel needs a body")) };
    let sizes = Sizes::of(function, Builder::before(first).with_loc(function.loc()))?;
    sizes::open_windows(function, &sizes)?;
    let loads = kernel.ops.iter().filter(|op| op.is(bufferization::TO_TENSOR));
    let loaded = loads.map(|op| match op.result(0).ty().numbers() {
        Some(_) => (op.result(0), op.result(0)),
        None => (op.result(0), sizes::loaded(&sizes, Builder::before(end).with_loc(op.loc()), op.operand(0), &op.result(0).ty().dims())),
    });
    let products = kernel.ops.iter().filter(|&&op| anchors::is_anchor(op));
    let products: Vec<_> = products.map(|&op| (op.result(0), product::build(Builder::before(end), op))).collect();
    let phases = phases::plan(&kernel);
    let mut library = Library::new();
    let mut bodies = Bodies {
        kernel: &kernel,
        sizes: &sizes,
        builder: Builder::before(end),
        library: &mut library,
        alone: phases.len() == 1,
        tensors: loaded.chain(products.iter().copied()).collect(),
    };
    let goes_over = phases.iter().filter(|phase| !phase.rows).count();
    let staged = if phases.len() > 1 && products.is_empty() { bodies.stage(goes_over) } else { 0 };
    for (number, phase) in phases.iter().enumerate() {
        for (escape, tensor) in bodies.build(staged + number, phase)? {
            kernel.escapes[escape].set_operand(0, tensor);
        }
    }
    for escape in &kernel.escapes {
        escape.move_before(end);
    }
    for op in kernel.ops.iter().rev().filter(|op| op.is_unused()) {
        op.erase();
    }
    declare(function, &library);
    Ok(())
}

/// Declares the C functions that a kernel calls, ahead of all kernels. They are declared free of effects: the global sign written by
/// `lgamma` is never used here.
fn declare(function: Op, library: &Library) {
    let ops = function.block().map(Block::ops).unwrap_or_default();
    let Some(&first) = ops.first() else { return };
    let (builder, ctx) = (Builder::before(first).with_loc(function.loc()), function.ctx());
    let present: Vec<_> = ops.into_iter().filter_map(Op::symbol).collect();
    for (symbol, signature) in library.iter().filter(|(symbol, _)| !present.contains(symbol)) {
        let attrs = [
            ("sym_name", Attr::str(ctx, symbol)),
            ("function_type", signature.as_attr()),
            ("sym_visibility", Attr::str(ctx, "private")),
            (llvm::READNONE, Attr::unit(ctx)),
        ];
        builder.insert(builder.detached(func::FUNC, &[], &[], &attrs, 1));
    }
}
