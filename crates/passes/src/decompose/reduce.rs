//! Reductions and scans. 16-bit floats are accumulated in `f32`; integers and bools are summed in `i64`.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Dimension, Relation, product};

use super::{
    Call, Lowering, arith,
    index::broadcast_shapes,
    promote::{to_float, wide},
};
use crate::emit::{Emit, Scalar};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.sum.default", |c| accumulate(c, "sum", None)),
    ("aten.sum.dim_IntList", |c| accumulate(c, "sum", Some(1))),
    ("aten.prod.default", |c| accumulate(c, "prod", None)),
    ("aten.prod.dim_int", |c| accumulate(c, "prod", Some(1))),
    ("aten.nansum.default", nansum),
    ("aten.mean.default", |c| mean(c, None)),
    ("aten.mean.dim", |c| mean(c, Some(1))),
    ("aten.amax.default", |c| extreme(c, "max", Some(1))),
    ("aten.amin.default", |c| extreme(c, "min", Some(1))),
    ("aten.max.default", |c| extreme(c, "max", None)),
    ("aten.min.default", |c| extreme(c, "min", None)),
    ("aten.max.dim", |c| extreme_with_index(c, "max")),
    ("aten.min.dim", |c| extreme_with_index(c, "min")),
    ("aten.argmax.default", |c| arg_extreme(c, "max")),
    ("aten.argmin.default", |c| arg_extreme(c, "min")),
    ("aten.aminmax.default", aminmax),
    ("aten.any.default", |c| truth(c, "or", None)),
    ("aten.any.dim", |c| truth(c, "or", Some(1))),
    ("aten.any.dims", |c| truth_of_dims(c, "or")),
    ("aten.all.default", |c| truth(c, "and", None)),
    ("aten.all.dim", |c| truth(c, "and", Some(1))),
    ("aten.all.dims", |c| truth_of_dims(c, "and")),
    ("aten.count_nonzero.default", count_nonzero),
    ("aten.count_nonzero.dim_IntList", count_nonzero),
    ("aten.logsumexp.default", logsumexp),
    ("aten.cumsum.default", |c| scan(c, "sum")),
    ("aten.cumprod.default", |c| scan(c, "prod")),
    ("aten.var.correction", |c| variance(c, false)),
    ("aten.std.correction", |c| variance(c, true)),
    ("aten.var_mean.correction", |c| variance(c, false)),
    ("aten.std_mean.correction", |c| variance(c, true)),
    ("aten.linalg_vector_norm.default", |c| norm(c, c.tensor(0)?, c.float(1)?, Some(2), 3)),
    ("aten.norm.Scalar", |c| norm(c, c.tensor(0)?, c.float(1)?, None, 2)),
    ("aten.norm.ScalarOpt_dtype", |c| norm(c, c.tensor(0)?, c.float(1).unwrap_or(2.0), None, 3)),
    ("aten.norm.ScalarOpt_dim", |c| norm(c, c.tensor(0)?, c.float(1).unwrap_or(2.0), Some(2), 3)),
    ("aten.norm.ScalarOpt_dim_dtype", |c| norm(c, c.tensor(0)?, c.float(1).unwrap_or(2.0), Some(2), 3)),
    ("aten.dist.default", dist),
];

/// Returns the dimensions in argument `dims`, or all if the overload has none, and true if argument `dims + 1` keeps them.
fn dims(call: &Call, x: Value, dims: Option<usize>) -> Option<(Vec<i64>, bool)> {
    let rank = x.ty().rank();
    match dims {
        None => Some(((0..rank as i64).collect(), false)),
        Some(i) => Some((call.dims(i, rank)?, call.bool(i + 1).unwrap_or(false))),
    }
}

/// Returns the number of elements that are reduced to one result.
fn count(x: Value, dims: &[i64]) -> Option<Dim> {
    let shape = x.ty().dims();
    product(&dims.iter().map(|&d| shape[d as usize].clone()).collect::<Vec<_>>()).ok()
}

/// Returns true if each result reduces at least one element, for all values of the symbols.
fn is_of_some(call: &Call, x: Value, dims: &[i64]) -> bool {
    count(x, dims).is_some_and(|count| call.surely(&count, Relation::Gt, 0))
}

/// Converts the value to the result's element type; declines if its shape is not the result's.
fn done(call: &Call, value: Value) -> Option<Vec<Value>> {
    let ty = call.result_type(0);
    (value.ty().dims() == ty.dims()).then(|| vec![call.e.convert(value, ty.element())])
}

/// Converts the operand to the type in which eager accumulates: the result's dtype, widened.
fn operand(call: &Call, x: Value) -> Value {
    let element = call.result_type(0).element();
    call.e.convert(call.e.convert(x, element), wide(element))
}

fn accumulate(call: &Call, kind: &str, at: Option<usize>) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, keepdim) = dims(call, x, at)?;
    let x = operand(call, x);
    if x.ty().element().is_bool() {
        // For dtype=torch.bool a sum is a disjunction, a product a conjunction.
        return done(call, call.e.reduce(if kind == "sum" { "or" } else { "and" }, x, &dims, keepdim));
    }
    done(call, call.e.reduce(kind, x, &dims, keepdim))
}

fn nansum(call: &Call) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, keepdim) = dims(call, x, Some(1))?;
    let from_float = x.ty().element().is_float();
    let x = operand(call, x);
    let element = x.ty().element();
    if element.is_bool() || from_float != element.is_float() {
        return None;
    }
    let x = if element.is_float() { call.e.select(call.e.ne(x, x), call.e.full_like(x, 0.0), x) } else { x };
    done(call, call.e.sum(x, &dims, keepdim))
}

fn mean(call: &Call, at: Option<usize>) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, keepdim) = dims(call, x, at)?;
    let x = operand(call, x);
    x.ty().element().is_float().then_some(())?;
    done(call, call.e.mean(x, &dims, keepdim))
}

/// Declines reductions over no elements, for which eager raises.
fn extreme(call: &Call, kind: &str, at: Option<usize>) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, keepdim) = dims(call, x, at)?;
    is_of_some(call, x, &dims).then_some(())?;
    done(call, call.e.reduce(kind, widened(&call.e, x), &dims, keepdim))
}

/// Converts the operand to a type of the same order; `arg_reduce` does not accept bools.
fn ordered(e: &Emit, x: Value) -> Value {
    if x.ty().element().is_bool() { e.convert(x, Type::int(e.ctx(), 8)) } else { widened(e, x) }
}

fn widened(e: &Emit, x: Value) -> Value {
    e.convert(x, wide(x.ty().element()))
}

fn extreme_with_index(call: &Call, kind: &str) -> Option<Vec<Value>> {
    let (x, e) = (call.tensor(0)?, call.e);
    let rank = x.ty().rank();
    let dim = call.dim(1, rank)?;
    let keepdim = call.bool(2).unwrap_or(false);
    if rank == 0 {
        return Some(vec![done(call, x)?[0], e.scalar(call.result_type(1).element(), 0)]);
    }
    is_of_some(call, x, &[dim]).then_some(())?;
    let x = ordered(&e, x);
    let value = e.reduce(kind, x, &[dim], keepdim);
    Some(vec![done(call, value)?[0], e.arg_reduce(kind, x, dim, keepdim)])
}

/// Without a dimension, returns the index into the flattened tensor.
fn arg_extreme(call: &Call, kind: &str) -> Option<Vec<Value>> {
    let (x, e) = (call.tensor(0)?, call.e);
    let rank = x.ty().rank();
    let keepdim = call.bool(2).unwrap_or(false);
    // Eager rejects bools.
    (!x.ty().element().is_bool()).then_some(())?;
    if rank == 0 {
        return Some(vec![e.scalar(call.result_type(0).element(), 0)]);
    }
    if !call.is_none(1) {
        let dim = call.dim(1, rank)?;
        is_of_some(call, x, &[dim]).then_some(())?;
        return done(call, e.arg_reduce(kind, ordered(&e, x), dim, keepdim));
    }
    let all: Vec<i64> = (0..rank as i64).collect();
    is_of_some(call, x, &all).then_some(())?;
    let index = e.arg_reduce(kind, e.reshape(ordered(&e, x), &[x.ty().count()?]), 0, false);
    done(call, e.reshape(index, &call.result_dims(0)))
}

fn aminmax(call: &Call) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, keepdim) = dims(call, x, Some(1))?;
    is_of_some(call, x, &dims).then_some(())?;
    let wide = widened(&call.e, x);
    let both = |kind| done(call, call.e.reduce(kind, wide, &dims, keepdim)).map(|v| v[0]);
    Some(vec![both("min")?, both("max")?])
}

fn truth(call: &Call, kind: &str, at: Option<usize>) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, keepdim) = dims(call, x, at)?;
    done(call, call.e.reduce(kind, call.e.convert(x, call.e.bool_type()), &dims, keepdim))
}

/// Like [`truth`], except that an empty list means no dimension at all.
fn truth_of_dims(call: &Call, kind: &str) -> Option<Vec<Value>> {
    if call.ints(1).is_some_and(|dims| dims.is_empty()) {
        return done(call, call.e.convert(call.tensor(0)?, call.e.bool_type()));
    }
    truth(call, kind, Some(1))
}

fn count_nonzero(call: &Call) -> Option<Vec<Value>> {
    let x = call.tensor(0)?;
    let (dims, _) = dims(call, x, Some(1))?;
    let truth = call.e.convert(x, call.e.bool_type());
    done(call, call.e.sum(call.e.convert(truth, call.result_type(0).element()), &dims, false))
}

/// Computes relative to the maximum, so that nothing overflows; an infinite maximum is replaced by 0. Eager composes this from several
/// operations, and rounds each step of a 16-bit result.
fn logsumexp(call: &Call) -> Option<Vec<Value>> {
    let (x, e) = (call.tensor(0)?, call.e);
    let (dims, keepdim) = dims(call, x, Some(1))?;
    let x = e.convert(x, wide(to_float(x.ty().element())));
    if count(x, &dims)?.is(0) {
        return done(call, e.log(e.sum(e.exp(x), &dims, keepdim)));
    }
    let max = e.reduce("max", x, &dims, true);
    let infinite = e.eq(e.abs(max), e.full_like(max, f64::INFINITY));
    let max = e.select(infinite, e.full_like(max, 0.0), max);
    let element = call.result_type(0).element();
    let step = |v: Value| e.convert(e.convert(v, element), v.ty().element());
    let exps = step(e.exp(step(e.sub(x, e.broadcast_to(max, &x.ty().dims())))));
    let value = e.add(step(e.log(step(e.sum(exps, &dims, true)))), max);
    done(call, e.reshape(value, &call.result_dims(0)))
}

/// Scans in the type of eager's accumulator: `f64` for `f32`, `f32` for 16-bit floats.
fn scan(call: &Call, kind: &str) -> Option<Vec<Value>> {
    let (x, e) = (call.tensor(0)?, call.e);
    let dim = call.dim(1, x.ty().rank())?;
    let element = call.result_type(0).element();
    let x = e.convert(x, element);
    if element.is_bool() {
        return None;
    }
    if x.ty().rank() == 0 {
        return done(call, x);
    }
    let accumulator = if element.is_float() && element.width() == 32 { Type::f64(e.ctx()) } else { wide(element) };
    done(call, e.scan(kind, e.convert(x, accumulator), dim))
}

/// Two passes: the mean, then the squared differences from it, divided by max(0, n - correction). Computed in `f64` regardless of the
/// element type, as in eager: the square of 1e20 overflows `f32`.
fn variance(call: &Call, root: bool) -> Option<Vec<Value>> {
    let (x, e) = (call.tensor(0)?, call.e);
    let dims = call.dims(1, x.ty().rank())?;
    let keepdim = call.bool(3).unwrap_or(false);
    x.ty().element().is_float().then_some(())?;
    let x = e.convert(x, Type::f64(e.ctx()));
    let correction = call.scalar(2).unwrap_or(Scalar::Int(1)).as_f64();
    let mean = e.mean(x, &dims, true);
    let distance = e.sub(x, e.broadcast_to(mean, &x.ty().dims()));
    let squares = e.sum(e.mul(distance, distance), &dims, keepdim);
    let count = count(x, &dims)?;
    let divisor = match count.known() {
        Some(count) => e.full_like(squares, (count as f64 - correction).max(0.0)),
        None => e.max(e.sub(e.size_like(squares, &count), e.full_like(squares, correction)), e.full_like(squares, 0.0)),
    };
    let variance = e.div(squares, divisor);
    let mut values = done(call, if root { e.sqrt(variance) } else { variance })?;
    if call.op.num_results() == 2 {
        let ty = call.result_type(1);
        values.push(e.convert(e.reshape(mean, &ty.dims()), ty.element()));
    }
    Some(values)
}

fn norm(call: &Call, x: Value, p: f64, at: Option<usize>, keepdim: usize) -> Option<Vec<Value>> {
    let dims = at.map_or_else(|| Some((0..x.ty().rank() as i64).collect()), |i| call.dims(i, x.ty().rank()))?;
    let keepdim = at.is_some() && call.bool(keepdim).unwrap_or(false);
    x.ty().element().is_float().then_some(())?;
    let value = vector_norm(call, operand(call, x), p, &dims, keepdim)?;
    done(call, value)
}

/// (Σ |x|ᵖ)^(1/p) and its limits; the largest and the smallest of no elements are left to eager.
fn vector_norm(call: &Call, x: Value, p: f64, dims: &[i64], keepdim: bool) -> Option<Value> {
    let e = &call.e;
    if p < 0.0 || p.is_infinite() {
        is_of_some(call, x, dims).then_some(())?;
    }
    // For a single number eager skips the power and the root, in which it could overflow or underflow.
    let is_one = count(x, dims)?.is(1);
    Some(if p == f64::INFINITY {
        e.reduce("max", e.abs(x), dims, keepdim)
    } else if p == f64::NEG_INFINITY {
        e.reduce("min", e.abs(x), dims, keepdim)
    } else if p == 0.0 {
        let nonzero = e.ne(x, e.full_like(x, 0.0));
        e.sum(e.convert(nonzero, x.ty().element()), dims, keepdim)
    } else if p == 1.0 || is_one {
        e.sum(e.abs(x), dims, keepdim)
    } else if p == 2.0 {
        e.sqrt(e.sum(e.mul(x, x), dims, keepdim))
    } else {
        let sum = e.sum(arith::pow_float(e, e.abs(x), p), dims, keepdim);
        arith::pow_float(e, sum, 1.0 / p)
    })
}

/// The norm of the difference.
fn dist(call: &Call) -> Option<Vec<Value>> {
    let (a, b, e) = (call.tensor(0)?, call.tensor(1)?, call.e);
    if a.ty().element() != b.ty().element() || !a.ty().element().is_float() {
        return None;
    }
    let shape = broadcast_shapes(a.ty().dims(), b.ty().dims())?;
    let side = |x: Value| e.broadcast_to(widened(&e, x), &shape);
    let difference = e.sub(side(a), side(b));
    let dims: Vec<i64> = (0..shape.len() as i64).collect();
    done(call, vector_norm(call, difference, call.float(2)?, &dims, false)?)
}
