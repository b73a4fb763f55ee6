//! Makes kernel bodies simpler before they are split into phases: equal primitives become one, and `arg_reduce`
//! becomes primitives.
//!
//! The index of the largest element takes two reductions, each of which vectorizes, where one that carries value and
//! index along would not: the maximum, then the smallest index at which it stands. In `max`, where both are wanted,
//! the first is shared.
//!
//! Before: `%i = dynamo.arg_reduce max %x dim 1 : tensor<4x8xf32> -> tensor<4xi64>`
//!
//! After:
//! ```mlir
//! %m = dynamo.reduce max %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
//! %hit = …                             // %x == %m; or %x is NaN, which counts as the largest
//! %j = dynamo.select %hit, %iota, %never : tensor<4x8xi1>, tensor<4x8xi64>
//! %i = dynamo.reduce min %j dims [1] : tensor<4x8xi64> -> tensor<4xi64>
//! ```

use std::collections::{HashMap, hash_map::Entry};

use dynamlir_dialect::{
    ir::{Block, Builder},
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
    let iota = e.iota(&shape, axis as usize);
    let candidate = e.select(hit, iota, e.full_like(iota, i64::MAX));
    let index = ReduceOp::build(&e.b, ReduceKind::Min, candidate, &[axis], op.result().ty()).result();
    op.result().replace_all_uses_with(index);
    op.op().erase();
}

/// Value numbering over the straight-line body. Primitives have no effects, so the first of equals serves for all.
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
