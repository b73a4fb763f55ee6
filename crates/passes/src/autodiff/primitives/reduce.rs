//! Reductions and scans.

use dynamlir_dialect::{
    ir::Value,
    ops::{DynamoOp, ReduceKind},
};

use dynamlir_shapes::{Dim, product};

use crate::{autodiff::at::At, emit::Emit};

/// Emits the gradients; returns None for other primitives.
pub fn differentiate(op: DynamoOp, at: &mut At, g: Value) -> Option<()> {
    let e = at.a.e;
    match op {
        DynamoOp::Reduce(op) => {
            let (x, dims) = (op.operand(), op.dims());
            let back = match op.kind() {
                ReduceKind::Sum => spread(&e, g, x, &dims),
                _ if x.ty().element().width() == 16 => return None,
                ReduceKind::Max | ReduceKind::Min => {
                    // Elements equal to the result share the gradient evenly, as in torch's `amax`.
                    let is_one = e.convert(e.eq(x, spread(&e, op.result(), x, &dims)), x.ty().element());
                    let count = e.sum(is_one, &dims, false);
                    e.mul(is_one, spread(&e, e.div(g, count), x, &dims))
                }
                ReduceKind::Prod => e.mul(products_of_others(&e, x, &dims)?, spread(&e, g, x, &dims)),
                _ => return None,
            };
            at.give_to(x, back);
        }
        DynamoOp::Scan(op) if op.kind() == ReduceKind::Sum && g.ty().element().width() > 16 => {
            // x_i is part of all sums from the i-th on.
            let dims = [op.dim()];
            at.give_to(op.operand(), e.reverse(e.scan("sum", e.reverse(g, &dims), op.dim()), &dims));
        }
        _ => return None,
    }
    Some(())
}

/// Broadcasts the result of a reduction along `dims` to the shape of its operand.
fn spread(e: &Emit, reduced: Value, x: Value, dims: &[i64]) -> Value {
    let shape = x.ty().dims();
    let kept: Vec<i64> = (0..shape.len() as i64).filter(|d| !dims.contains(d)).collect();
    e.broadcast(reduced, &shape, &kept)
}

/// Returns for each element the product of the others along `dims`: the product of those before it times that of those after it. This
/// avoids a division, so that zeros need no special case.
fn products_of_others(e: &Emit, x: Value, dims: &[i64]) -> Option<Value> {
    let shape = x.ty().dims();
    let kept: Vec<i64> = (0..shape.len() as i64).filter(|d| !dims.contains(d)).collect();
    let mut listed = dims.to_vec();
    listed.sort_unstable();
    let order = [kept.clone(), listed.clone()].concat();
    let moved = e.permute(x, &order);
    let sizes = |dims: &[i64]| dims.iter().map(|&d| shape[d as usize].clone()).collect::<Vec<Dim>>();
    // The count decides if there are elements before and after each element.
    let count = product(&sizes(&listed)).ok()?.known()?;
    let rows = [sizes(&kept), vec![Dim::from(count)]].concat();
    let (flat, last) = (e.reshape(moved, &rows), kept.len() as i64);
    let others =
        if count == 0 { flat } else { e.mul(before(e, flat, last), e.reverse(before(e, e.reverse(flat, &[last]), last), &[last])) };
    let mut inverse = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        inverse[from as usize] = to as i64;
    }
    Some(e.permute(e.reshape(others, &moved.ty().dims()), &inverse))
}

/// Returns for each element the product of all elements before it.
fn before(e: &Emit, x: Value, dim: i64) -> Value {
    let mut shape = x.ty().dims();
    let count = shape[dim as usize].known().unwrap_or(0);
    shape[dim as usize] = Dim::from(1);
    let one = e.full(&shape, x.ty().element(), 1.0);
    let rest = e.slice_dim(x, dim, 0, 1, count - 1);
    if count == 1 { one } else { e.concat(&[one, e.scan("prod", rest, dim)], dim) }
}
