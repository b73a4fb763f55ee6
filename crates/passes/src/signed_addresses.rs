//! `dynamo-mark-backward` and `dynamo-signed-addresses`: allow address arithmetic to run backwards.
//!
//! A flipped tensor is read through negative strides. However, `finalize-memref-to-llvm` emits every address as `getelementptr
//! inbounds|nuw` over products that are `nsw, nuw`. With a negative stride each of these is poison from the second element on, and LLVM is
//! free to drop the base address (it does).
//!
//! ```mlir
//! %1 = llvm.mul %i, %minus_one overflow<nsw, nuw> : i64             // before
//! %2 = llvm.getelementptr inbounds|nuw %arg0[%1] : …
//!
//! %1 = llvm.mul %i, %minus_one : i64                                // after
//! %2 = llvm.getelementptr %arg0[%1] : …
//! ```
//!
//! The strides are no longer visible once addresses are computed. So the first pass, on memrefs, marks the functions that have a negative
//! stride; the second clears all flags in those functions and removes the mark. Other functions keep the flags: they help the vectorizer.

use dynamlir_dialect::{
    ir::{Block, Builder, Op},
    ops::BACKWARD,
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{func, gpu, llvm},
};

/// The first pass.
pub const MARK: Pass = Pass {
    name: "dynamo-mark-backward",
    description: "Mark kernels that read or write with negative strides",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[MARKED],
    run: mark,
};

/// The second pass.
pub const PASS: Pass = Pass {
    name: "dynamo-signed-addresses",
    description: "Clear the overflow flags of the address arithmetic of marked kernels",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[CLEARED],
    run: clear,
};

const MARKED: Statistic = Statistic { name: "kernels", description: "kernels marked" };
const CLEARED: Statistic = Statistic { name: "cleared", description: "operations whose flags were cleared" };

/// The operations that compute addresses.
const ARITHMETIC: &[&str] = &[llvm::ADD, llvm::GETELEMENTPTR, llvm::MUL, llvm::SHL, llvm::SUB];

const FLAGS: &[&str] = &["noWrapFlags", "overflowFlags"];

/// The functions of a kind, including those in GPU modules.
fn functions(module: Op, kinds: &[&str]) -> Vec<Op> {
    let mut found = Vec::new();
    module.walk(&mut |op| {
        if kinds.iter().any(|kind| op.is(kind)) {
            found.push(op);
        }
    });
    found
}

fn mark(module: Op, pass: &Run) -> PassResult {
    for function in functions(module, &[func::FUNC, gpu::FUNC]) {
        let args = function.body().map(Block::args).unwrap_or_default();
        // A kernel's memory consists of its arguments and its own allocations; allocations never have negative strides.
        if args.iter().any(|arg| arg.ty().is_memref() && arg.ty().strides().iter().any(|&stride| stride < 0)) {
            BACKWARD.set(function, ());
            pass.count(&MARKED, 1);
        }
    }
    Ok(())
}

fn clear(module: Op, pass: &Run) -> PassResult {
    for function in functions(module, &[llvm::FUNC]) {
        if !BACKWARD.remove(function) {
            continue;
        }
        let mut ops = Vec::new();
        function.walk(&mut |op| ops.push(op));
        ops.retain(|op| ARITHMETIC.iter().any(|name| op.is(name)));
        pass.count(&CLEARED, ops.len());
        ops.into_iter().for_each(without_flags);
    }
    Ok(())
}

/// Replaces `op` by the same operation without flags: they are properties, which cannot be edited individually.
fn without_flags(op: Op) {
    let attrs: Vec<_> = op.attrs().into_iter().filter(|(name, _)| !FLAGS.contains(&name.as_str())).collect();
    let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
    let value = Builder::before(op).value(&op.name(), &op.operands(), op.result(0).ty(), &attrs);
    op.result(0).replace_all_uses_with(value);
    op.erase();
}
