//! Primitives that only move elements: the gradient moves back, and is zero for elements that were not used.
//!
//! Such a primitive is a matrix of zeros and ones, and the gradient is multiplied by its transpose. Elements that were copied to several
//! places get the sum of the gradients at these places.

use dynamlir_dialect::{
    ir::{Type, Value},
    ops::DynamoOp,
};
use dynamlir_shapes::{Dim, Dimension, Window, is_empty_in};

use crate::autodiff::{at::At, aten::Aten};

/// Emits the gradients; returns None for other primitives.
pub fn differentiate(op: DynamoOp, at: &mut At, g: Value) -> Option<()> {
    let (a, e) = (at.a, at.a.e);
    let shape = g.ty().dims();
    match op {
        DynamoOp::Reshape(op) => at.give_to(op.operand(), e.reshape(g, &op.operand().ty().dims())),
        DynamoOp::Permute(op) => {
            let mut inverse = vec![0; shape.len()];
            for (to, from) in op.dims().into_iter().enumerate() {
                inverse[usize::try_from(from).ok()?] = to as i64;
            }
            at.give_to(op.operand(), e.permute(g, &inverse));
        }
        DynamoOp::Broadcast(op) => {
            let (from, dims) = (op.operand().ty().dims(), op.dims());
            let repeats = |dim: &i64| match dims.iter().position(|to| to == dim) {
                None => true,
                Some(index) => from[index].is(1) && !shape[*dim as usize].is(1),
            };
            let summed: Vec<i64> = (0..shape.len() as i64).filter(repeats).collect();
            at.give_to(op.operand(), e.reshape(a.sum(g, &summed, false), &from));
        }
        DynamoOp::Slice(op) => {
            let (whole, starts, steps) = (op.operand().ty(), op.starts_dims(), op.steps());
            let back = if steps.iter().all(|&step| step == 1) {
                let after = |((size, start), part): ((&Dim, &Dim), &Dim)| size.sub(start)?.sub(part);
                let high: Vec<Dim> = whole.dims().iter().zip(&starts).zip(&shape).map(after).collect::<Result<_, _>>().ok()?;
                e.pad(g, &starts, &high, 0.0)
            } else if is_empty_in(&shape, a.scope).ok()? {
                a.zeros(op.operand())
            } else {
                let unit = a.row_major(whole);
                let stepped = |(stride, step): (&Dim, &i64)| stride.mul(&Dim::from(*step));
                let strides: Vec<Dim> = unit.iter().zip(&steps).map(stepped).collect::<Result<_, _>>().ok()?;
                let first = |sum: Dim, (stride, start): (&Dim, &Dim)| sum.add(&stride.mul(start)?);
                let offset = unit.iter().zip(&starts).try_fold(Dim::from(0), first).ok()?;
                e.as_strided_scatter(a.zeros(op.operand()), g, &strides, offset)
            };
            at.give_to(op.operand(), back);
        }
        DynamoOp::Pad(op) => at.give_to(op.operand(), e.slice(g, &op.low_dims(), &vec![1; shape.len()], &op.operand().ty().dims())),
        DynamoOp::Reverse(op) => at.give_to(op.operand(), e.reverse(g, &op.dims())),
        DynamoOp::Concatenate(op) => {
            let (dim, mut start) = (op.dim(), Dim::from(0));
            for input in op.inputs() {
                let size = input.ty().dims().swap_remove(usize::try_from(dim).ok()?);
                if at.wants(input) {
                    at.give_to(input, e.slice_dim(g, dim, start.clone(), 1, size.clone()));
                }
                start = start.add(&size).ok()?;
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
            let window = Window { sizes: shape, strides: op.strides_dims(), offset: op.offset_dims() };
            at.give_to(op.operand(), put_back(&a, g, op.operand().ty(), &window)?);
        }
        DynamoOp::AsStridedScatter(op) => {
            let (strides, offset) = (op.strides_dims(), op.offset_dims());
            if at.wants(op.base()) {
                at.give_to(op.base(), e.as_strided_scatter(g, a.zeros(op.source()), &strides, offset.clone()));
            }
            if at.wants(op.source()) {
                at.give_to(op.source(), e.as_strided(g, &op.source().ty().dims(), &strides, offset));
            }
        }
        _ => return None,
    }
    Some(())
}

/// The gradient of a tensor from which a window was read: each element gets the sum of the gradients of its occurrences in the window.
/// Returns None if it is not known which elements the window contains.
pub fn put_back(a: &Aten, g: Value, from: Type, window: &Window) -> Option<Value> {
    let zeros = a.e.full(&from.dims(), from.element(), 0.0);
    if window.is_empty_in(a.scope).ok()? {
        return Some(zeros);
    }
    // The gradient of a repetition by a stride of 0 is a sum along the dimension.
    let repeats = |d: &usize| window.strides[*d].is(0) && !window.sizes[*d].is(1);
    let repeated: Vec<i64> = (0..window.sizes.len()).filter(repeats).map(|d| d as i64).collect();
    let once = a.sum(g, &repeated, true);
    let window = Window { sizes: once.ty().dims(), ..window.clone() };
    let may_repeat = match window.known() {
        Some(window) => window.may_repeat(),
        None => window.may_repeat_in(a.scope).ok()?,
    };
    if !may_repeat {
        return Some(a.e.as_strided_scatter(zeros, once, &window.strides, window.offset));
    }
    // For windows that overlap in other ways, each element is added at the index from which it was read.
    let (e, shape) = (a.e, &window.sizes);
    let place = |number: &Dim| e.size(number, Type::tensor_of(shape, Type::int(e.ctx(), 64)));
    let index = (0..shape.len()).fold(place(&window.offset), |sum, d| e.add(sum, e.mul(e.iota(shape, d), place(&window.strides[d]))));
    let flat = [from.count()?];
    let wide = if from.element().width() == 16 { Type::f32(e.ctx()) } else { from.element() };
    let all = e.scatter(e.full(&flat, wide, 0.0), &[-1], &[index], e.convert(once, wide), Some("sum"));
    Some(e.reshape(e.convert(all, from.element()), &from.dims()))
}
