//! Lowers a matrix product to a separate `linalg.generic`, before all phases.
//!
//! ```mlir
//! %s = linalg.generic {indexing_maps = [(d0, d1, d2) -> (d0, d2), (d0, d1, d2) -> (d2, d1), (d0, d1, d2) -> (d0, d1)],
//!     iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w) outs(%zero) attrs = {dynamo.batch = 0 : i64} {
//! ^bb0(%a: f32, %b: f32, %sum: f32):
//!   %p = arith.mulf %a, %b : f32
//!   %next = arith.addf %sum, %p : f32
//!   linalg.yield %next : f32
//! } -> tensor<4x3xf32>
//! ```
//! The tag lets `dynamo-schedule` find it; to all other passes it is an ordinary generic.

use dynamlir_dialect::{
    ir::{AffineMap, Builder, Op, Value},
    ops::{self, MatmulOp},
};

/// Builds the product and returns the sums. A convolution is kept as it is: `dynamo-schedule` lowers it.
pub(super) fn build(builder: Builder, op: Op) -> Value {
    let Some(product) = MatmulOp::cast(op) else { return op.result(0) };
    let b = builder.with_loc(op.loc());
    let (ctx, ty) = (b.ctx(), product.result().ty());
    let (rank, batch) = (ty.rank(), product.batch() as usize);
    let k = rank;
    let columns = product.rhs().ty().rank() - batch - 1;
    let left = AffineMap::of_dims(ctx, rank + 1, (0..product.lhs().ty().rank() - 1).chain([k]));
    let right = AffineMap::of_dims(ctx, rank + 1, (0..batch).chain([k]).chain(rank - columns..rank));
    let maps = [left, right, AffineMap::of_dims(ctx, rank + 1, 0..rank)];
    let reductions: Vec<_> = (0..=rank).map(|dim| dim == k).collect();

    let zero = b.float(ty.element(), 0.0);
    let fill = b.linalg_fill(zero, b.tensor_empty(ty, &[], &[]), &[]);
    let tag = [ops::BATCH.with(ctx, product.batch())];
    let (generic, body) = b.linalg_generic(&[product.lhs(), product.rhs()], &[fill.result(0)], &maps, &reductions, &tag);
    let (inside, args) = (Builder::at_end(body, b.loc), body.args());
    let next = inside.addf(args[2], inside.mulf(args[0], args[1]));
    inside.linalg_yield(&[next]);
    generic.result(0)
}
