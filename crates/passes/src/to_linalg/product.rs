//! A product of matrices becomes a `linalg.generic` of its own, before all phases.
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
//! The tag lets `dynamo-schedule` find it; to everything else it is a generic like others.

use dynamlir_dialect::ir::{Attr, Builder, Op, Value};

use crate::matmul::BATCH;

/// Builds it; the sums. A convolution stays what it is: `dynamo-schedule` takes it.
pub(super) fn build(builder: Builder, op: Op) -> Value {
    if !op.is("dynamo.matmul") {
        return op.result(0);
    }
    let b = builder.with_loc(op.loc());
    let (ctx, ty) = (b.ctx(), op.result(0).ty());
    let (rank, batch) = (ty.rank(), op.attr_i64("batch").unwrap_or(0) as usize);
    let k = rank;
    let left = (0..op.operand(0).ty().rank() - 1).chain([k]);
    let columns = op.operand(1).ty().rank() - batch - 1;
    let right = (0..batch).chain([k]).chain(rank - columns..rank);
    let dims = |list: &mut dyn Iterator<Item = usize>| list.map(|dim| format!("d{dim}")).collect::<Vec<_>>().join(", ");
    let all = dims(&mut (0..=rank));
    let map = |list: &mut dyn Iterator<Item = usize>| Attr::affine_map(ctx, &format!("({all}) -> ({})", dims(list)));
    let maps = [map(&mut left.clone()), map(&mut right.clone()), map(&mut (0..rank))];
    let iterator = |kind: &str| Attr::parse(ctx, &format!("#linalg.iterator_type<{kind}>")).unwrap_or_else(|| Attr::unit(ctx));
    let iterators: Vec<_> = (0..=rank).map(|dim| iterator(if dim == k { "reduction" } else { "parallel" })).collect();
    let segments = |text: &str| Attr::parse(ctx, text).unwrap_or_else(|| Attr::unit(ctx));

    let element = ty.element();
    let zero = b.value("arith.constant", &[], element, &[("value", Attr::float_of(element, 0.0))]);
    let empty = b.value("tensor.empty", &[], ty, &[]);
    let fill_attrs = [("operandSegmentSizes", segments("array<i32: 1, 1>"))];
    let (fill, body) = b.op_with_body("linalg.fill", &[zero, empty], &[ty], &fill_attrs, &[element, element]);
    Builder::at_end(body, b.loc).op("linalg.yield", &[body.args()[0]], &[], &[]);
    let attrs = [
        ("indexing_maps", Attr::array(ctx, &maps)),
        ("iterator_types", Attr::array(ctx, &iterators)),
        ("operandSegmentSizes", segments("array<i32: 2, 1>")),
        (BATCH, Attr::i64(ctx, batch as i64)),
    ];
    let operands = [op.operand(0), op.operand(1), fill.result(0)];
    let (generic, body) = b.op_with_body("linalg.generic", &operands, &[ty], &attrs, &[element; 3]);
    let (inside, args) = (Builder::at_end(body, b.loc), body.args());
    let product = inside.value("arith.mulf", &args[..2], element, &[]);
    let next = inside.value("arith.addf", &[args[2], product], element, &[]);
    inside.op("linalg.yield", &[next], &[], &[]);
    generic.result(0)
}
