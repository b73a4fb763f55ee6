//! Simplifies kernel bodies before they are split into phases: merges equal primitives, and expands `arg_reduce` into primitives.
//!
//! The index of the largest element takes two reductions: the maximum, then the smallest index at which it occurs. Each of them vectorizes,
//! while a single reduction carrying both value and index would not. In `max`, which returns both, the first reduction is shared.
//!
//! Before: `%i = dynamo.arg_reduce max %x dim 1 : tensor<4x8xf32> -> tensor<4xi64>`
//!
//! After:
//! ```mlir
//! %m = dynamo.reduce max %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
//! %hit = …                             // %x == %m; or %x is NaN, which counts as the largest
//! %elsewhere = dynamo.select %hit, %zero, %never : tensor<4x8xi1>, tensor<4x8xi32>
//! %j = dynamo.or %iota, %elsewhere : tensor<4x8xi32>
//! %k = dynamo.reduce min %j dims [1] : tensor<4x8xi32> -> tensor<4xi32>
//! %i = dynamo.convert %k : tensor<4xi32> -> tensor<4xi64>
//! ```
//! Indices have 32 bits if the dimension is short enough, so that a vector holds twice as many. They are combined by a bitwise `or`,
//! because LLVM turns a selection between `%iota` and `%never` into a conditional minimum, which it does not vectorize.

use std::collections::{HashMap, hash_map::Entry};

use dynamlir_dialect::{
    ir::{Block, Builder, Type},
    ops::{ArgReduceOp, DynamoOp, ReduceKind, ReduceOp},
};

use crate::emit::Emit;

/// Rewrites the body of one kernel.
pub(super) fn run(block: Block) {
    for op in block.ops() {
        if let Some(op) = ArgReduceOp::cast(op) {
            arg_reduce(op);
        }
    }
    merge_equal(block);
}

fn arg_reduce(op: ArgReduceOp) {
    let (e, x, axis) = (Emit::new(Builder::before(op.op())), op.operand(), op.dim());
    let (shape, element) = (x.ty().dims(), x.ty().element());
    let kept: Vec<_> = (0..shape.len() as i64).filter(|&dim| dim != axis).collect();

    let row = op.result().ty().with_element(element);
    let extreme = ReduceOp::build(&e.b, op.kind(), x, &[axis], row).result();
    let mut hit = e.eq(x, e.broadcast(extreme, &shape, &kept));
    if element.is_float() {
        hit = e.or(hit, e.ne(x, x));
    }
    let is_short = shape[axis as usize].known().is_some_and(|size| size <= i64::from(i32::MAX));
    let (width, never) = if is_short { (32, i64::from(i32::MAX)) } else { (64, i64::MAX) };
    let word = Type::int(x.ty().ctx(), width);
    let iota = e.convert(e.iota(&shape, axis as usize), word);
    let elsewhere = e.select(hit, e.full_like(iota, 0_i64), e.full_like(iota, never));
    let row = op.result().ty().with_element(word);
    let index = ReduceOp::build(&e.b, ReduceKind::Min, e.or(iota, elsewhere), &[axis], row).result();
    op.result().replace_all_uses_with(e.convert(index, op.result().ty().element()));
    op.op().erase();
}

/// Value numbering over the straight-line body. Primitives have no effects, so the first of several equal ones replaces the others.
fn merge_equal(block: Block) {
    let mut first: HashMap<_, _> = HashMap::new();
    for op in block.ops() {
        if DynamoOp::of(op).is_none() || op.num_results() != 1 {
            continue;
        }
        match first.entry((op.name(), op.result(0).ty(), op.attrs(), op.operands())) {
            Entry::Vacant(entry) => {
                entry.insert(op.result(0));
            }
            Entry::Occupied(entry) => {
                op.result(0).replace_all_uses_with(*entry.get());
                op.erase();
            }
        }
    }
}
