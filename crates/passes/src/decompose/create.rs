//! Creation of tensors, copies, and triangular masks.

use dynamlir_dialect::ir::{Type, Value};

use super::{
    Call, Lowering,
    promote::{broadcasts, fits, wide},
};
use crate::emit::Scalar;

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.full.default", |c| constant(c, 1)),
    ("aten.full_like.default", |c| constant(c, 1)),
    ("aten.new_full.default", |c| constant(c, 2)),
    ("aten.fill.Scalar", |c| constant(c, 1)),
    ("aten.scalar_tensor.default", |c| constant(c, 0)),
    ("aten.zeros.default", zeros),
    ("aten.zeros_like.default", zeros),
    ("aten.new_zeros.default", zeros),
    ("aten.zero.default", zeros),
    ("aten.ones.default", ones),
    ("aten.ones_like.default", ones),
    ("aten.new_ones.default", ones),
    // The contents of an empty tensor are unspecified, so zeros will do.
    ("aten.empty.memory_format", zeros),
    ("aten.empty_like.default", zeros),
    ("aten.empty_strided.default", zeros),
    ("aten.empty_permuted.default", zeros),
    ("aten.new_empty.default", zeros),
    ("aten.new_empty_strided.default", zeros),
    ("aten.fill.Tensor", |c| copy(c, c.tensor(1)?)),
    ("aten.copy.default", |c| copy(c, c.tensor(1)?)),
    ("aten._to_copy.default", |c| copy(c, c.tensor(0)?)),
    ("aten.clone.default", |c| copy(c, c.tensor(0)?)),
    ("aten.lift_fresh_copy.default", |c| copy(c, c.tensor(0)?)),
    ("aten.to.dtype", |c| copy(c, c.tensor(0)?)),
    ("aten.to.device", |c| copy(c, c.tensor(0)?)),
    ("aten.to.other", |c| copy(c, c.tensor(0)?)),
    ("aten.arange.default", |c| arange(c, Scalar::Int(0), Scalar::Int(1))),
    ("aten.arange.start", |c| arange_from(c, Scalar::Int(1))),
    ("aten.arange.start_step", |c| arange_from(c, c.scalar(2)?)),
    ("aten.linspace.default", linspace),
    ("aten.eye.default", eye),
    ("aten.eye.m", eye),
    ("aten.tril.default", |c| triangle(c, "le")),
    ("aten.triu.default", |c| triangle(c, "ge")),
];

/// A constant tensor; a value that does not fit an integer type raises in eager.
fn full(call: &Call, value: Scalar) -> Option<Vec<Value>> {
    let ty = call.result_type(0);
    fits(value, ty.element()).then(|| vec![call.e.full(&ty.dims(), ty.element(), value)])
}

/// A tensor filled with argument `i`, which is a number or a size.
fn constant(call: &Call, i: usize) -> Option<Vec<Value>> {
    if let Some(value) = call.scalar(i) {
        return full(call, value);
    }
    let (size, ty) = (call.size(i)?, call.result_type(0));
    let holds = ty.element().is_float() || ty.element().width() == 64;
    holds.then(|| vec![call.e.size(&size, ty)])
}

fn zeros(call: &Call) -> Option<Vec<Value>> {
    full(call, Scalar::Int(0))
}

fn ones(call: &Call) -> Option<Vec<Value>> {
    full(call, Scalar::Int(1))
}

/// Converts a value to the result's element type and shape. A plain copy emits nothing.
fn copy(call: &Call, from: Value) -> Option<Vec<Value>> {
    let ty = call.result_type(0);
    broadcasts(&from.ty().dims(), &ty.dims()).then(|| vec![call.e.broadcast_to(call.e.convert(from, ty.element()), &ty.dims())])
}

/// start + i·step: for integers in `i64`, for floats in `f64` and then rounded, as eager does.
fn arange(call: &Call, start: Scalar, step: Scalar) -> Option<Vec<Value>> {
    let ty = call.result_type(0);
    let (shape, element, e) = (ty.dims(), ty.element(), call.e);
    let [count] = &shape[..] else { return None };
    let whole = |value: Scalar| match value {
        Scalar::Float(v) => (v.fract() == 0.0 && v.abs() < 1e9).then_some(v as i64),
        other => Some(other.as_i64()),
    };
    let small = |value: i64| value.checked_abs().is_some_and(|v| v <= 1 << 24);
    let iota = e.iota(&shape, 0);
    let compute = if !element.is_float() {
        Type::int(e.ctx(), 64)
    } else if let (Some(first), Some(step)) = (whole(start), whole(step))
        && small(first)
        && count.known().is_some_and(|count| step.checked_mul(count).and_then(|span| span.checked_add(first)).is_some_and(small))
    {
        // Every value is a whole number that f32 holds exactly, and f32 is cheaper.
        Type::f32(e.ctx())
    } else {
        Type::f64(e.ctx())
    };
    let mut value = e.convert(iota, compute);
    let constant = |v: Scalar| e.full(&shape, compute, v);
    if step.as_f64() != 1.0 {
        let step = if compute.is_float() { step } else { Scalar::Int(step.as_i64()) };
        value = e.mul(value, constant(step));
    }
    if start.as_f64() != 0.0 {
        value = e.add(value, constant(start));
    }
    Some(vec![e.convert(value, element)])
}

/// A range that starts at argument 0, which is a number, or for integers a size.
fn arange_from(call: &Call, step: Scalar) -> Option<Vec<Value>> {
    if let Some(start) = call.scalar(0) {
        return arange(call, start, step);
    }
    let (start, element) = (call.size(0)?, call.result_type(0).element());
    let steps = arange(call, Scalar::Int(0), step).filter(|_| element.is_int() && element.width() == 64)?;
    Some(vec![call.e.add(steps[0], call.e.size_like(steps[0], &start))])
}

/// Counts from the nearer end, so that both ends are reached exactly. Eager computes 16-bit results step by step in their own type; those
/// stay extern calls.
fn linspace(call: &Call) -> Option<Vec<Value>> {
    let ty = call.result_type(0);
    let (shape, element, e) = (ty.dims(), ty.element(), call.e);
    let count = shape.first().filter(|_| shape.len() == 1)?.known()?;
    if wide(element) != element || element.is_bool() {
        return None;
    }
    let (start, end) = (call.scalar(0)?, call.scalar(1)?);
    if count <= 1 {
        return full(call, start);
    }
    let compute = if element.is_float() { element } else { Type::f64(e.ctx()) };
    let single = element.is_float() && element.width() == 32;
    let round = |v: f64| if single { f64::from(v as f32) } else { v };
    // An integer result converts its ends to integers.
    let ends = [start, end].map(|v| if element.is_float() { Some(round(v.as_f64())) } else { v.attr(element).as_i64().map(|v| v as f64) });
    let [Some(start), Some(end)] = ends else { return None };
    let step = round((end - start) / (count - 1) as f64);
    let iota = e.iota(&shape, 0);
    let constant = |v: f64| e.full(&shape, compute, v);
    let index = e.convert(iota, compute);
    let from_start = e.add(constant(start), e.mul(constant(step), index));
    let rest = e.convert(e.sub(e.full_like(iota, count - 1), iota), compute);
    let from_end = e.sub(constant(end), e.mul(constant(step), rest));
    let first_half = e.lt(iota, e.full_like(iota, count / 2));
    Some(vec![e.convert(e.select(first_half, from_start, from_end), element)])
}

fn eye(call: &Call) -> Option<Vec<Value>> {
    let ty = call.result_type(0);
    let shape = ty.dims();
    (shape.len() == 2).then(|| {
        let diagonal = call.e.eq(call.e.iota(&shape, 0), call.e.iota(&shape, 1));
        vec![call.e.convert(diagonal, ty.element())]
    })
}

/// Keeps the elements on one side of a diagonal: those with column - row (predicate) diagonal.
fn triangle(call: &Call, predicate: &str) -> Option<Vec<Value>> {
    let (x, diagonal, e) = (call.tensor(0)?, call.size(1)?, call.e);
    let shape = x.ty().dims();
    let [.., _, _] = shape[..] else { return None };
    // The mask is two-dimensional; batches share it.
    let matrix = &shape[shape.len() - 2..];
    let distance = e.sub(e.iota(matrix, 1), e.iota(matrix, 0));
    let kept = e.compare(predicate, distance, e.size_like(distance, &diagonal));
    let value = e.select(e.broadcast_to(kept, &shape), x, e.full_like(x, 0));
    Some(vec![e.convert(value, call.result_type(0).element())])
}
