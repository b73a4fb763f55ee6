//! Reading and writing by index: `gather` and a summing `scatter` are each other's transpose.

use dynamlir_dialect::{
    ir::{Type, Value},
    ops::{DynamoOp, ReduceKind, ScatterOp},
};

use crate::{autodiff::at::At, emit::Emit};

/// Emits the gradients; returns None for other primitives.
pub fn differentiate(op: DynamoOp, at: &mut At, g: Value) -> Option<()> {
    let e = at.a.e;
    match op {
        DynamoOp::Gather(op) => {
            let from = op.operand().ty();
            let wide = if from.element().width() == 16 { Type::f32(e.ctx()) } else { from.element() };
            let zeros = e.full(&from.dims(), wide, 0.0);
            let back = e.scatter(zeros, &vec![-1; from.rank()], &op.indices(), e.convert(g, wide), Some("sum"));
            at.give_to(op.operand(), e.convert(back, from.element()));
        }
        DynamoOp::Scatter(op) => {
            let (base, source, indices) = (op.base(), op.source(), op.indices());
            match op.kind() {
                Some(ReduceKind::Sum) => {
                    at.give_to(base, g);
                    if at.wants(source) {
                        at.give_to(source, e.gather(g, &places(&e, op)));
                    }
                }
                None => {
                    if at.wants(base) {
                        at.give_to(base, e.scatter(g, &op.dims(), &indices, at.a.zeros(source), None));
                    }
                    if at.wants(source) {
                        at.give_to(source, e.select(stays(&e, op)?, e.gather(g, &places(&e, op)), at.a.zeros(source)));
                    }
                }
                Some(_) => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

/// Returns the place of each element of the source, as one index for each dimension of the base.
fn places(e: &Emit, op: ScatterOp) -> Vec<Value> {
    let shape = op.source().ty().dims();
    let mut given = op.indices().into_iter();
    let place = |dim: i64| usize::try_from(dim).map_or_else(|_| given.next(), |dim| Some(e.iota(&shape, dim)));
    op.dims().into_iter().filter_map(place).collect()
}

/// Returns true for the elements of the source that remain in the end: of several for one place, the last.
fn stays(e: &Emit, op: ScatterOp) -> Option<Value> {
    let (ty, index) = (op.source().ty(), Type::int(e.ctx(), 64));
    let own = if ty.rank() == 0 { e.scalar(index, 0_i64) } else { e.reshape(e.iota(&[ty.count()?], 0), &ty.dims()) };
    let nobody = e.full(&op.base().ty().dims(), index, -1_i64);
    let last = e.scatter(nobody, &op.dims(), &op.indices(), own, None);
    Some(e.eq(e.gather(last, &places(e, op)), own))
}
