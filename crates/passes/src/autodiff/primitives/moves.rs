//! What only moves elements: the gradient moves back, and is zero for elements that went nowhere.
//!
//! Such a primitive is a matrix of zeros and ones, and the gradient goes through its transpose. Elements that went to several places
//! get the sum of what comes from there.

use dynamlir_dialect::{
    ir::{Type, Value},
    ops::DynamoOp,
};
use dynamlir_shapes::{Window, row_major};

use crate::autodiff::{at::At, aten::Aten};

/// Gives the gradients; None for another primitive.
pub fn differentiate(op: DynamoOp, at: &mut At, g: Value) -> Option<()> {
    let (a, e) = (at.a, at.a.e);
    let shape = g.ty().shape();
    match op {
        DynamoOp::Reshape(op) => at.give_to(op.operand(), e.reshape(g, &op.operand().ty().shape())),
        DynamoOp::Permute(op) => {
            let mut inverse = vec![0; shape.len()];
            for (to, from) in op.dims().into_iter().enumerate() {
                inverse[usize::try_from(from).ok()?] = to as i64;
            }
            at.give_to(op.operand(), e.permute(g, &inverse));
        }
        DynamoOp::Broadcast(op) => {
            let (from, dims) = (op.operand().ty().shape(), op.dims());
            let repeats = |dim: &i64| match dims.iter().position(|to| to == dim) {
                None => true,
                Some(index) => from[index] == 1 && shape[*dim as usize] != 1,
            };
            let summed: Vec<i64> = (0..shape.len() as i64).filter(repeats).collect();
            at.give_to(op.operand(), e.reshape(a.sum(g, &summed, false), &from));
        }
        DynamoOp::Slice(op) => {
            let (sizes, starts, steps) = (op.operand().ty().shape(), op.starts(), op.steps());
            let back = if steps.iter().all(|&step| step == 1) {
                let high: Vec<i64> = (0..sizes.len()).map(|d| sizes[d] - starts[d] - shape[d]).collect();
                e.pad(g, &starts, &high, 0.0)
            } else if g.ty().numel() == 0 {
                a.zeros(op.operand())
            } else {
                let unit = row_major(&sizes);
                let strides: Vec<i64> = unit.iter().zip(&steps).map(|(stride, step)| stride * step).collect();
                let offset = unit.iter().zip(&starts).map(|(stride, start)| stride * start).sum();
                e.as_strided_scatter(a.zeros(op.operand()), g, &strides, offset)
            };
            at.give_to(op.operand(), back);
        }
        DynamoOp::Pad(op) => at.give_to(op.operand(), e.slice(g, &op.low(), &vec![1; shape.len()], &op.operand().ty().shape())),
        DynamoOp::Reverse(op) => at.give_to(op.operand(), e.reverse(g, &op.dims())),
        DynamoOp::Concatenate(op) => {
            let (dim, mut start) = (op.dim(), 0);
            for input in op.inputs() {
                let size = input.ty().shape()[usize::try_from(dim).ok()?];
                if at.wants(input) {
                    at.give_to(input, e.slice_dim(g, dim, start, 1, size));
                }
                start += size;
            }
        }
        DynamoOp::Convert(op) => at.give_to(op.operand(), e.convert(g, op.operand().ty().element())),
        DynamoOp::Select(op) => {
            let zero = a.zeros(g);
            if at.wants(op.on_true()) {
                at.give_to(op.on_true(), e.select(op.condition(), g, zero));
            }
            if at.wants(op.on_false()) {
                at.give_to(op.on_false(), e.select(op.condition(), zero, g));
            }
        }
        DynamoOp::AsStrided(op) => {
            let window = Window { sizes: shape, strides: op.strides(), offset: op.offset() };
            at.give_to(op.operand(), put_back(&a, g, op.operand().ty(), &window));
        }
        DynamoOp::AsStridedScatter(op) => {
            let (strides, offset) = (op.strides(), op.offset());
            if at.wants(op.base()) {
                at.give_to(op.base(), e.as_strided_scatter(g, a.zeros(op.source()), &strides, offset));
            }
            if at.wants(op.source()) {
                at.give_to(op.source(), e.as_strided(g, &op.source().ty().shape(), &strides, offset));
            }
        }
        _ => return None,
    }
    Some(())
}

/// The gradient of what a window was read from: each element gets the sum of what the window shows of it.
pub fn put_back(a: &Aten, g: Value, from: Type, window: &Window<i64>) -> Value {
    let zeros = a.e.full(&from.shape(), from.element(), 0.0);
    if window.is_empty() {
        return zeros;
    }
    // Repetition by a stride of 0 is a sum along the dimension.
    let repeated: Vec<i64> = (0..window.sizes.len()).filter(|&d| window.strides[d] == 0 && window.sizes[d] > 1).map(|d| d as i64).collect();
    let once = a.sum(g, &repeated, true);
    let window = Window { sizes: once.ty().shape(), ..window.clone() };
    if !window.may_repeat() {
        return a.e.as_strided_scatter(zeros, once, &window.strides, window.offset);
    }
    // Windows that overlap otherwise: each element says where it was read.
    let (e, shape) = (a.e, &window.sizes);
    let place = |number: i64| e.full(shape, Type::int(e.ctx(), 64), number);
    let index = (0..shape.len()).fold(place(window.offset), |sum, d| e.add(sum, e.mul(e.iota(shape, d), place(window.strides[d]))));
    let flat = [from.numel()];
    let wide = if from.element().width() == 16 { Type::f32(e.ctx()) } else { from.element() };
    let all = e.scatter(e.full(&flat, wide, 0.0), &[-1], &[index], e.convert(once, wide), Some("sum"));
    e.reshape(e.convert(all, from.element()), &from.shape())
}
