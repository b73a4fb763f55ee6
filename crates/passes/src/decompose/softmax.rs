//! Softmax and related ops: exponentials relative to the largest element of a row.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, Lowering, promote::wide};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._log_softmax.default", log_softmax),
    ("aten._log_softmax_backward_data.default", log_softmax_backward),
    ("aten._safe_softmax.default", safe_softmax),
    ("aten._softmax.default", softmax),
    ("aten._softmax_backward_data.default", softmax_backward),
    ("aten.log_softmax.int", log_softmax),
    ("aten.softmax.int", softmax),
];

/// Argument `i` in the compute type, with at least one dimension. It is rounded to the result's type first, which is that of the dtype
/// argument if there is one.
fn row(c: &Call, i: usize) -> Option<Value> {
    let x = c.tensor(i)?;
    let x = if x.ty().rank() == 0 { c.e.reshape(x, &[1]) } else { x };
    let rounded = c.e.convert(x, c.result_type(0).element());
    Some(c.e.convert(rounded, wide(rounded.ty().element())))
}

/// Converts a value to the type and shape of result 0.
fn finish(c: &Call, x: Value) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    Some(vec![c.e.reshape(c.e.convert(x, ty.element()), &ty.dims())])
}

/// Returns an empty result for an empty tensor, which does not have a largest element.
fn nothing(c: &Call, ty: Type) -> Option<Vec<Value>> {
    ty.shape().contains(&0).then(|| vec![c.e.full(&ty.dims(), ty.element(), 0i64)])
}

/// The values shared by the softmaxes.
struct Exponentials {
    /// `x - max`.
    shifted: Value,
    /// `exp(x - max)`.
    exps: Value,
    /// Its sum along the dimension, which keeps size 1.
    sum: Value,
    /// The largest element along the dimension, which keeps size 1.
    max: Value,
}

fn exponentials(c: &Call, x: Value, dim: i64) -> Exponentials {
    let max = c.e.reduce("max", x, &[dim], true);
    let shifted = c.e.sub(x, c.e.broadcast_to(max, &x.ty().dims()));
    let exps = c.e.exp(shifted);
    Exponentials { shifted, exps, sum: c.e.sum(exps, &[dim], true), max }
}

fn softmax(c: &Call) -> Option<Vec<Value>> {
    nothing(c, c.result_type(0)).or_else(|| {
        let x = row(c, 0)?;
        let e = exponentials(c, x, c.dim(1, x.ty().rank())?);
        finish(c, c.e.div(e.exps, c.e.broadcast_to(e.sum, &x.ty().dims())))
    })
}

fn log_softmax(c: &Call) -> Option<Vec<Value>> {
    nothing(c, c.result_type(0)).or_else(|| {
        let x = row(c, 0)?;
        let e = exponentials(c, x, c.dim(1, x.ty().rank())?);
        finish(c, c.e.sub(e.shifted, c.e.broadcast_to(c.e.log(e.sum), &x.ty().dims())))
    })
}

/// A row of only -∞ (completely masked) gives zeros instead of NaN.
fn safe_softmax(c: &Call) -> Option<Vec<Value>> {
    nothing(c, c.result_type(0)).or_else(|| {
        let x = row(c, 0)?;
        let shape = x.ty().dims();
        let e = exponentials(c, x, c.dim(1, shape.len())?);
        let masked = c.e.eq(e.max, c.e.full_like(e.max, f64::NEG_INFINITY));
        let out = c.e.div(e.exps, c.e.broadcast_to(e.sum, &shape));
        finish(c, c.e.select(c.e.broadcast_to(masked, &shape), c.e.full_like(out, 0.0), out))
    })
}

/// Returns gradient, output and dimension of a backward op, in the compute type.
fn gradients(c: &Call) -> Option<(Value, Value, i64)> {
    let at_least_1d = |x: Value| if x.ty().rank() == 0 { c.e.reshape(x, &[1]) } else { x };
    let (grad, out) = (at_least_1d(c.tensor(0)?), at_least_1d(c.tensor(1)?));
    let element = wide(out.ty().element());
    Some((c.e.convert(grad, element), c.e.convert(out, element), c.dim(2, out.ty().rank())?))
}

/// `(grad - Σ grad·out) · out`.
fn softmax_backward(c: &Call) -> Option<Vec<Value>> {
    nothing(c, c.result_type(0)).or_else(|| {
        let (grad, out, dim) = gradients(c)?;
        let sum = c.e.sum(c.e.mul(grad, out), &[dim], true);
        finish(c, c.e.mul(c.e.sub(grad, c.e.broadcast_to(sum, &out.ty().dims())), out))
    })
}

/// `grad - exp(out) · Σ grad`.
fn log_softmax_backward(c: &Call) -> Option<Vec<Value>> {
    nothing(c, c.result_type(0)).or_else(|| {
        let (grad, out, dim) = gradients(c)?;
        let sum = c.e.broadcast_to(c.e.sum(grad, &[dim], true), &out.ty().dims());
        finish(c, c.e.sub(grad, c.e.mul(c.e.exp(out), sum)))
    })
}
