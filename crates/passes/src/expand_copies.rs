//! `dynamo-expand-copies`: lowers copies between strided buffers to loops.
//!
//! A kernel whose arithmetic folds away (`x * 1`) is the identity; bufferization makes a `memref.copy` of it. If both sides are contiguous,
//! that becomes a `memcpy`. Any other copy would become a call of `memrefCopy`, a function of MLIR's runner library that takes descriptors
//! and addresses each element through them.
//!
//! ```mlir
//! memref.copy %x, %y : memref<2x3xf32, strided<[15, 1]>> to memref<2x3xf32>                        // before
//! linalg.generic {…} ins(%x : …) outs(%y : …) { ^bb0(%in: f32, %out: f32): linalg.yield %in : f32 }  // after
//! ```

use dynamlir_dialect::{
    ir::{AffineMap, Builder, DYNAMIC, Op, Type},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::memref,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-expand-copies",
    description: "Turn copies between strided buffers into linalg.generic",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[EXPANDED],
    run,
};

const EXPANDED: Statistic = Statistic { name: "expanded", description: "copies written as linalg.generic" };

fn run(module: Op, pass: &Run) -> PassResult {
    pass.counts_all();
    let mut copies = Vec::new();
    module.walk(&mut |op| {
        if op.is(memref::COPY) && !op.operands().iter().all(|buffer| is_contiguous(buffer.ty())) {
            copies.push(op);
        }
    });
    pass.count(&EXPANDED, copies.len());
    copies.into_iter().for_each(expand);
    Ok(())
}

/// Returns true if the elements are contiguous, regardless of the offset. If a size is only known at run time (the last block of a loop),
/// LLVM's lowering does not treat it as contiguous either.
fn is_contiguous(ty: Type) -> bool {
    if ty.shape().contains(&DYNAMIC) {
        return false;
    }
    let mut expected = 1;
    ty.shape().into_iter().zip(ty.strides()).rev().all(|(size, stride)| {
        let fits = size == 1 || stride == expected;
        expected *= size;
        fits
    })
}

fn expand(copy: Op) {
    let (b, rank) = (Builder::before(copy), copy.operand(0).ty().rank());
    let maps = [AffineMap::identity(copy.ctx(), rank); 2];
    let (_, body) = b.linalg_generic(&[copy.operand(0)], &[copy.operand(1)], &maps, &vec![false; rank], &[]);
    Builder::at_end(body, copy.loc()).linalg_yield(&body.args()[..1]);
    copy.erase();
}
