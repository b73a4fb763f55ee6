//! Activation functions, in the formulas of eager's kernels.

use dynamlir_dialect::ir::Value;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use super::{
    Call, Lowering,
    compare::bound,
    pointwise::float,
    promote::{Domain, fits},
    shape::is_row_major,
};
use crate::emit::{Emit, Scalar};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.relu.default", |c| bounded(c, Some(Scalar::Int(0)), None)),
    ("aten.relu6.default", |c| bounded(c, Some(Scalar::Int(0)), Some(Scalar::Int(6)))),
    ("aten.hardtanh.default", |c| bounded(c, Some(c.scalar(1)?), Some(c.scalar(2)?))),
    ("aten.threshold.default", |c| {
        let d = Domain::number_of(c, &[0])?;
        let x = d.get(0)?;
        d.done(d.e.select(d.e.le(x, d.full(c.scalar(1)?)), d.full(c.scalar(2)?), x))
    }),
    ("aten.hardswish.default", |c| only_float(c, |e, x| e.div(e.mul(x, ramp6(e, x)), e.full_like(x, 6.0)))),
    ("aten.hardsigmoid.default", |c| only_float(c, |e, x| e.div(ramp6(e, x), e.full_like(x, 6.0)))),
    ("aten.leaky_relu.default", |c| {
        let d = Domain::only_float_of(c, &[0])?;
        let x = d.get(0)?;
        let below = d.e.mul(x, d.full(c.float(1)?));
        d.done(d.e.select(d.e.gt(x, d.full(0.0)), x, below))
    }),
    ("aten.elu.default", |c| elu(c, c.float(1)?, c.float(2)?, c.float(3)?)),
    ("aten.celu.default", |c| elu(c, c.float(1)?, 1.0, 1.0 / c.float(1).filter(|&alpha| alpha != 0.0)?)),
    // The constants from the SELU paper, as in eager.
    ("aten.selu.default", |c| elu(c, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)),
    ("aten.sigmoid.default", |c| float(c, sigmoid)),
    ("aten.special_expit.default", |c| float(c, sigmoid)),
    ("aten.silu.default", |c| only_float(c, |e, x| e.div(x, one_plus(e, e.exp(e.neg(x)))))),
    ("aten.mish.default", |c| only_float(c, |e, x| e.mul(x, e.tanh(e.log1p(e.exp(x)))))),
    ("aten.softplus.default", softplus),
    ("aten.softshrink.default", |c| {
        let d = Domain::only_float_of(c, &[0])?;
        let (x, lambda) = (d.get(0)?, d.rounded(1)?);
        // NaN passes through; a value between the bounds becomes +0, even a negative one.
        let between = d.e.select(d.e.ne(x, x), x, d.full(0.0));
        let inner = d.e.select(d.e.lt(x, d.e.neg(lambda)), d.e.add(x, lambda), between);
        d.done(d.e.select(d.e.gt(x, lambda), d.e.sub(x, lambda), inner))
    }),
    ("aten.hardshrink.default", |c| {
        let d = Domain::only_float_of(c, &[0])?;
        let (x, lambda) = (d.get(0)?, d.rounded(1)?);
        let inside = d.e.and(d.e.ge(x, d.e.neg(lambda)), d.e.le(x, lambda));
        d.done(d.e.select(inside, d.full(0.0), x))
    }),
    ("aten.gelu.default", |c| match c.str(1)?.as_str() {
        "none" => gelu(c),
        "tanh" => only_float(c, |e, x| {
            let (_, tanh) = gelu_tanh(e, x);
            e.mul(e.mul(e.full_like(x, 0.5), x), one_plus(e, tanh))
        }),
        _ => None,
    }),
    ("aten.log_sigmoid.default", |c| only_float(c, |e, x| log_sigmoid(e, x).0)),
    ("aten.log_sigmoid_forward.default", |c| {
        let d = Domain::only_float_of(c, &[0])?;
        let (value, buffer) = log_sigmoid(&d.e, d.get(0)?);
        let kept = d.e.convert(buffer, c.result_type(1).element());
        // If eager saves nothing for backward, the buffer is empty.
        let kept = if kept.ty() == c.result_type(1) { kept } else { d.e.full(&c.result_dims(1), kept.ty().element(), 0.0) };
        Some(vec![d.done(value)?[0], kept])
    }),
    ("aten.sigmoid_backward.default", |c| {
        let d = Domain::only_float_of(c, &[0, 1])?;
        let (g, y) = (d.get(0)?, d.get(1)?);
        // In f16, eager rounds after each step.
        let step = |v: Value| if d.element.is_f16() { d.stored(v) } else { v };
        d.done(d.e.mul(step(d.e.mul(g, step(d.e.sub(d.full(1.0), y)))), y))
    }),
    ("aten.tanh_backward.default", |c| backward(c, |e, g, y| e.mul(g, e.sub(e.full_like(y, 1.0), e.mul(y, y))))),
    ("aten.silu_backward.default", |c| {
        backward(c, |e, g, x| {
            let s = sigmoid(e, x);
            e.mul(e.mul(g, s), one_plus(e, e.mul(x, e.sub(e.full_like(x, 1.0), s))))
        })
    }),
    ("aten.threshold_backward.default", |c| {
        let d = Domain::number_of(c, &[0, 1])?;
        let (g, x) = (d.get(0)?, d.get(1)?);
        // Compared in the compute type, without rounding first, as in forward.
        d.done(d.e.select(d.e.le(x, d.full(c.scalar(2)?)), d.full(0), g))
    }),
    ("aten.leaky_relu_backward.default", |c| {
        let d = Domain::only_float_of(c, &[0, 1])?;
        let (g, x) = (d.get(0)?, d.get(1)?);
        d.done(d.e.select(d.e.gt(x, d.full(0.0)), g, d.e.mul(g, d.full(c.float(2)?))))
    }),
    ("aten.hardtanh_backward.default", |c| {
        let d = Domain::only_float_of(c, &[0, 1])?;
        let (g, x) = (d.get(0)?, d.get(1)?);
        let inside = d.e.and(d.e.gt(x, d.full(c.scalar(2)?)), d.e.lt(x, d.full(c.scalar(3)?)));
        d.done(d.e.select(inside, g, d.full(0.0)))
    }),
    // Eager's vectorized code treats NaN as lying between the bends, its scalar code as lying above them.
    ("aten.hardswish_backward.default", |c| {
        backward(c, |e, g, x| {
            let number = |v: f64| e.full_like(x, v);
            let between = e.mul(g, e.add(e.div(x, number(3.0)), number(0.5)));
            e.select(e.le(x, number(-3.0)), number(0.0), e.select(e.ge(x, number(3.0)), g, between))
        })
    }),
    // The same holds for NaN here.
    ("aten.elu_backward.default", |c| {
        let d = Domain::only_float_of(c, &[0, 5])?;
        let (g, x, alpha, scale, input_scale) = (d.get(0)?, d.get(5)?, c.float(1)?, c.float(2)?, c.float(3)?);
        let steep = d.full(alpha * scale);
        let below = if c.bool(4)? {
            d.e.mul(d.e.mul(g, d.full(input_scale)), d.e.add(x, steep))
        } else {
            d.e.mul(d.e.mul(d.e.mul(g, d.full(input_scale)), steep), d.e.exp(d.e.mul(x, d.full(input_scale))))
        };
        d.done(d.e.select(d.e.gt(x, d.full(0.0)), d.e.mul(g, d.full(scale)), below))
    }),
    ("aten.gelu_backward.default", |c| match c.str(2)?.as_str() {
        "none" => backward(c, gelu_backward),
        "tanh" => backward(c, gelu_tanh_backward),
        _ => None,
    }),
];

fn only_float(call: &Call, f: fn(&Emit, Value) -> Value) -> Option<Vec<Value>> {
    Domain::only_float_of(call, &[0])?;
    float(call, f)
}

/// Lowers a function of the gradient and of forward's input or output.
fn backward(call: &Call, f: fn(&Emit, Value, Value) -> Value) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    d.done(f(&d.e, d.get(0)?, d.get(1)?))
}

/// Clamps to constant bounds in the operand's own type; NaN passes through.
fn bounded(call: &Call, min: Option<Scalar>, max: Option<Scalar>) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0])?;
    // Eager compares ui8 with a negative bound in a wider type.
    if ![min, max].into_iter().flatten().all(|bound| fits(bound, d.element)) {
        return None;
    }
    let mut x = d.get(0)?;
    for (limit, kind) in [(min, "max"), (max, "min")] {
        if let Some(limit) = limit {
            x = bound(&d, kind, x, d.round(limit));
        }
    }
    d.done(x)
}

fn one_plus(e: &Emit, x: Value) -> Value {
    e.add(x, e.full_like(x, 1.0))
}

/// min(max(x + 3, 0), 6)
fn ramp6(e: &Emit, x: Value) -> Value {
    let shifted = e.add(x, e.full_like(x, 3.0));
    e.min(e.max(shifted, e.full_like(x, 0.0)), e.full_like(x, 6.0))
}

/// 1 / (1 + e^-x)
pub fn sigmoid(e: &Emit, x: Value) -> Value {
    e.div(e.full_like(x, 1.0), one_plus(e, e.exp(e.neg(x))))
}

/// Returns log(sigmoid(x)) without overflow, and e^-|x|, which backward needs.
fn log_sigmoid(e: &Emit, x: Value) -> (Value, Value) {
    let buffer = e.exp(e.neg(e.abs(x)));
    (e.sub(e.min(x, e.full_like(x, 0.0)), e.log1p(buffer)), buffer)
}

fn elu(call: &Call, alpha: f64, scale: f64, input_scale: f64) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0])?;
    let x = d.get(0)?;
    let times = |x: Value, by: f64| if by == 1.0 { x } else { d.e.mul(x, d.full(by)) };
    let below = times(d.e.expm1(times(x, input_scale)), alpha * scale);
    d.done(d.e.select(d.e.lt(x, d.full(0.0)), below, times(x, scale)))
}

/// log(1 + e^βx) / β, or x itself above the threshold, where the two are equal after rounding.
fn softplus(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0])?;
    let (x, beta) = (d.get(0)?, d.full(call.float(1)?));
    let scaled = d.e.mul(x, beta);
    let soft = d.e.div(d.e.log1p(d.e.exp(scaled)), beta);
    d.done(d.e.select(d.e.gt(scaled, d.full(call.float(2)?)), x, soft))
}

/// The normal distribution function: (1 + erf(x/√2)) / 2
fn normal_cdf(e: &Emit, x: Value) -> Value {
    let erf = e.erf(e.mul(x, e.full_like(x, FRAC_1_SQRT_2)));
    e.mul(one_plus(e, erf), e.full_like(x, 0.5))
}

/// x·Φ(x). For a contiguous tensor of more than one `f32` or `bf16` element eager calls oneDNN, whose product at +∞ is NaN.
fn gelu(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0])?;
    let x = d.get(0)?;
    let erf = d.e.erf(d.e.mul(x, d.full(FRAC_1_SQRT_2)));
    // oneDNN's AVX-512 code returns NaN at infinity; its code for narrower vectors does not.
    let library = call.wide && (d.element.is_f32() || d.element.is_bf16()) && !x.ty().is_single() && is_row_major(call, 0);
    let one = if library { d.e.add(d.e.sub(x, x), d.full(1.0)) } else { d.full(1.0) };
    d.done(d.e.mul(x, d.e.mul(d.e.add(erf, one), d.full(0.5))))
}

/// √(2/π)
const GELU_BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
const GELU_CUBE: f64 = 0.044_715;

/// Returns x² and tanh(√(2/π)·(x + 0.044715·x³)).
fn gelu_tanh(e: &Emit, x: Value) -> (Value, Value) {
    let square = e.mul(x, x);
    let cube = e.mul(square, x);
    let inner = e.add(x, e.mul(e.full_like(x, GELU_CUBE), cube));
    (square, e.tanh(e.mul(e.full_like(x, GELU_BETA), inner)))
}

/// g·(Φ(x) + x·φ(x))
fn gelu_backward(e: &Emit, g: Value, x: Value) -> Value {
    let density = e.exp(e.mul(e.mul(x, x), e.full_like(x, -0.5)));
    let density = e.mul(density, e.full_like(x, FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5));
    e.mul(g, e.add(normal_cdf(e, x), e.mul(x, density)))
}

fn gelu_tanh_backward(e: &Emit, g: Value, x: Value) -> Value {
    let (square, tanh) = gelu_tanh(e, x);
    let half = e.full_like(x, 0.5);
    let left = e.mul(half, x);
    let right = one_plus(e, tanh);
    let tanh_slope = e.sub(e.full_like(x, 1.0), e.mul(tanh, tanh));
    let inner_slope = e.mul(e.full_like(x, GELU_BETA), one_plus(e, e.mul(e.full_like(x, 3.0 * GELU_CUBE), square)));
    let right_slope = e.mul(e.mul(left, tanh_slope), inner_slope);
    e.mul(g, e.add(e.mul(half, right), right_slope))
}
