//! Comparisons, selections and logic: ops whose result or condition is a truth value, bounds, and bits.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::Dim;

use super::{
    Call, Lowering,
    promote::{Domain, broadcasts, fits},
};
use crate::emit::{Emit, Scalar};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.eq.Tensor", |c| compare(c, "eq")),
    ("aten.eq.Scalar", |c| compare(c, "eq")),
    ("aten.ne.Tensor", |c| compare(c, "ne")),
    ("aten.ne.Scalar", |c| compare(c, "ne")),
    ("aten.lt.Tensor", |c| compare(c, "lt")),
    ("aten.lt.Scalar", |c| compare(c, "lt")),
    ("aten.le.Tensor", |c| compare(c, "le")),
    ("aten.le.Scalar", |c| compare(c, "le")),
    ("aten.gt.Tensor", |c| compare(c, "gt")),
    ("aten.gt.Scalar", |c| compare(c, "gt")),
    ("aten.ge.Tensor", |c| compare(c, "ge")),
    ("aten.ge.Scalar", |c| compare(c, "ge")),
    ("aten.where.self", choose),
    ("aten.where.ScalarOther", choose),
    ("aten.where.ScalarSelf", choose),
    ("aten.where.Scalar", choose),
    ("aten.maximum.default", |c| extreme(c, "max")),
    ("aten.max.other", |c| extreme(c, "max")),
    ("aten.minimum.default", |c| extreme(c, "min")),
    ("aten.min.other", |c| extreme(c, "min")),
    ("aten.fmax.default", |c| ignoring_nan(c, "max")),
    ("aten.fmin.default", |c| ignoring_nan(c, "min")),
    ("aten.clamp.default", |c| clamp(c, Some(1), Some(2))),
    ("aten.clamp.Tensor", |c| clamp(c, Some(1), Some(2))),
    ("aten.clamp_min.default", |c| clamp(c, Some(1), None)),
    ("aten.clamp_min.Tensor", |c| clamp(c, Some(1), None)),
    ("aten.clamp_max.default", |c| clamp(c, None, Some(1))),
    ("aten.clamp_max.Tensor", |c| clamp(c, None, Some(1))),
    ("aten.logical_and.default", |c| logical(c, "and")),
    ("aten.logical_or.default", |c| logical(c, "or")),
    ("aten.logical_xor.default", |c| logical(c, "xor")),
    ("aten.logical_not.default", |c| {
        let truth = truth(&c.e, c.tensor(0)?, &c.result_dims(0))?;
        Some(vec![c.e.convert(c.e.not(truth), c.result_type(0).element())])
    }),
    ("aten.bitwise_and.Tensor", |c| bitwise(c, "and")),
    ("aten.bitwise_and.Scalar", |c| bitwise(c, "and")),
    ("aten.bitwise_and.Scalar_Tensor", |c| bitwise(c, "and")),
    ("aten.bitwise_or.Tensor", |c| bitwise(c, "or")),
    ("aten.bitwise_or.Scalar", |c| bitwise(c, "or")),
    ("aten.bitwise_or.Scalar_Tensor", |c| bitwise(c, "or")),
    ("aten.bitwise_xor.Tensor", |c| bitwise(c, "xor")),
    ("aten.bitwise_xor.Scalar", |c| bitwise(c, "xor")),
    ("aten.bitwise_xor.Scalar_Tensor", |c| bitwise(c, "xor")),
    ("aten.__and__.Tensor", |c| bitwise(c, "and")),
    ("aten.__and__.Scalar", |c| bitwise(c, "and")),
    ("aten.__or__.Tensor", |c| bitwise(c, "or")),
    ("aten.__or__.Scalar", |c| bitwise(c, "or")),
    ("aten.__xor__.Tensor", |c| bitwise(c, "xor")),
    ("aten.__xor__.Scalar", |c| bitwise(c, "xor")),
    ("aten.bitwise_not.default", |c| {
        let d = Domain::of(c, &[0]).filter(|d| !d.element.is_float())?;
        d.done(d.e.not(d.get(0)?))
    }),
    ("aten.bitwise_left_shift.Tensor", |c| shift(c, "shl")),
    ("aten.bitwise_left_shift.Tensor_Scalar", |c| shift(c, "shl")),
    ("aten.bitwise_left_shift.Scalar_Tensor", |c| shift(c, "shl")),
    ("aten.bitwise_right_shift.Tensor", |c| shift(c, "shr")),
    ("aten.bitwise_right_shift.Tensor_Scalar", |c| shift(c, "shr")),
    ("aten.bitwise_right_shift.Scalar_Tensor", |c| shift(c, "shr")),
    ("aten.__lshift__.Tensor", |c| shift(c, "shl")),
    ("aten.__lshift__.Scalar", |c| shift(c, "shl")),
    ("aten.__rshift__.Tensor", |c| shift(c, "shr")),
    ("aten.__rshift__.Scalar", |c| shift(c, "shr")),
    ("aten.isnan.default", |c| class(c, |e, x| e.ne(x, x), false)),
    ("aten.isinf.default", |c| class(c, |e, x| e.eq(e.abs(x), e.full_like(x, f64::INFINITY)), false)),
    ("aten.isfinite.default", |c| class(c, |e, x| e.lt(e.abs(x), e.full_like(x, f64::INFINITY)), true)),
    ("aten.isposinf.default", |c| class(c, |e, x| e.eq(x, e.full_like(x, f64::INFINITY)), false)),
    ("aten.isneginf.default", |c| class(c, |e, x| e.eq(x, e.full_like(x, f64::NEG_INFINITY)), false)),
    ("aten.signbit.default", signbit),
    ("aten.heaviside.default", |c| {
        let d = Domain::of(c, &[0, 1])?;
        let (x, zero) = (d.get(0)?, d.full(0));
        // NaN does not compare greater than 0, so it counts as 0.
        let above = if d.element.is_bool() { x } else { d.e.convert(d.e.gt(x, zero), d.compute) };
        d.done(d.e.select(d.e.eq(x, zero), d.get(1)?, above))
    }),
];

fn compare(call: &Call, predicate: &str) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0, 1])?;
    let truth = d.e.compare(predicate, d.get(0)?, d.get(1)?);
    Some(vec![d.e.convert(truth, call.result_type(0).element())])
}

/// Selection does not change values, so 16-bit floats are not widened.
fn choose(call: &Call) -> Option<Vec<Value>> {
    let mut d = Domain::of(call, &[1, 2])?;
    d.compute = d.element;
    let condition = truth(&d.e, call.tensor(0)?, &d.shape)?;
    d.done(d.e.select(condition, d.get(1)?, d.get(2)?))
}

/// Returns for each element whether it differs from 0, broadcast to a shape.
pub fn truth(e: &Emit, x: Value, shape: &[Dim]) -> Option<Value> {
    broadcasts(&x.ty().dims(), shape).then(|| e.broadcast_to(e.convert(x, e.bool_type()), shape))
}

fn extreme(call: &Call, name: &str) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0, 1])?;
    d.done(d.e.binary(name, d.get(0)?, d.get(1)?))
}

/// C's `fmax` and `fmin`, which prefer a number to NaN.
fn ignoring_nan(call: &Call, kind: &str) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0, 1])?;
    let (a, b) = (d.get(0)?, d.get(1)?);
    if !d.element.is_float() {
        return d.done(d.e.binary(kind, a, b));
    }
    // Of two zeros the first is chosen; in bf16 the second.
    let first = match (kind, d.element.is_bf16()) {
        ("max", false) => d.e.ge(a, b),
        ("max", true) => d.e.gt(a, b),
        (_, false) => d.e.le(a, b),
        (_, true) => d.e.lt(a, b),
    };
    d.done(d.e.select(d.e.or(first, d.e.ne(b, b)), a, b))
}

/// Returns `x`, or the number `bound` where `x` is below it (`max`) or above it (`min`). As in eager, a NaN in `x` stays, and of two zeros
/// `x` is chosen; `dynamo.max` leaves that unspecified.
pub fn bound(d: &Domain, kind: &str, x: Value, bound: Scalar) -> Value {
    let limit = d.full(bound);
    if !d.element.is_float() || bound.as_f64().is_nan() {
        return d.e.binary(kind, x, limit);
    }
    let beyond = if kind == "max" { d.e.lt(x, limit) } else { d.e.gt(x, limit) };
    if !d.element.is_f16() {
        return d.e.select(beyond, limit, x);
    }
    // The selection precedes the widening: LLVM would move a cast out of the selection and turn `<` into `<=`.
    let stored = |v: Value| d.e.convert(v, d.element);
    d.e.convert(d.e.select(beyond, stored(limit), stored(x)), d.compute)
}

/// Applies the upper bound last, so that it wins if the bounds cross. NaN passes through both.
fn clamp(call: &Call, min: Option<usize>, max: Option<usize>) -> Option<Vec<Value>> {
    let min = min.filter(|&i| !call.is_none(i));
    let max = max.filter(|&i| !call.is_none(i));
    let args: Vec<usize> = [Some(0), min, max].into_iter().flatten().collect();
    let d = Domain::of(call, &args)?;
    let in_range = |i: Option<usize>| i.and_then(|i| call.scalar(i)).is_none_or(|v| fits(v, d.element));
    if !in_range(min) || !in_range(max) {
        return None;
    }
    let mut x = d.get(0)?;
    for (i, kind) in [(min, "max"), (max, "min")] {
        let Some(i) = i else { continue };
        x = match call.scalar(i) {
            Some(number) => bound(&d, kind, x, d.round(number)),
            None => d.e.binary(kind, x, d.get(i)?),
        };
    }
    d.done(x)
}

fn logical(call: &Call, name: &str) -> Option<Vec<Value>> {
    let shape = call.result_dims(0);
    let (a, b) = (truth(&call.e, call.tensor(0)?, &shape)?, truth(&call.e, call.tensor(1)?, &shape)?);
    Some(vec![call.e.convert(call.e.binary(name, a, b), call.result_type(0).element())])
}

fn bitwise(call: &Call, name: &str) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0, 1]).filter(|d| !d.element.is_float())?;
    d.done(d.e.binary(name, d.get(0)?, d.get(1)?))
}

fn shift(call: &Call, name: &str) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0, 1]).filter(|d| !d.element.is_float())?;
    d.done(d.e.binary(name, d.get(0)?, d.get(1)?))
}

/// A predicate on floats; all integers have the same answer, `of_integers`.
fn class(call: &Call, question: fn(&Emit, Value) -> Value, of_integers: bool) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0])?;
    let answer = if d.element.is_float() { question(&d.e, d.get(0)?) } else { d.e.full(&d.shape, d.e.bool_type(), of_integers) };
    Some(vec![d.e.convert(answer, call.result_type(0).element())])
}

/// The sign bit itself: set for -0 and for half of the NaNs.
fn signbit(call: &Call) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let element = x.ty().element();
    let e = call.e;
    let answer = if element.is_float() {
        let bits = e.bitcast(x, Type::int(e.ctx(), element.width()));
        e.lt(bits, e.full_like(bits, 0))
    } else if element.is_bool() || element.is_unsigned() {
        e.full(&x.ty().dims(), e.bool_type(), false)
    } else {
        e.lt(x, e.full_like(x, 0))
    };
    Some(vec![e.convert(answer, call.result_type(0).element())])
}
