//! Special functions composed of a few primitives: logits, entropies, logarithms of sums.
//!
//! Functions computed by series are in the files `special_*.rs`.

use dynamlir_dialect::ir::{Type, Value};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use super::{
    Call, Lowering,
    pointwise::float,
    promote::{Domain, wide},
};
use crate::emit::{Emit, Scalar};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.logit.default", logit),
    ("aten.xlogy.Tensor", |c| x_times_log(c, Emit::log)),
    ("aten.xlogy.Scalar_Other", |c| x_times_log(c, Emit::log)),
    ("aten.xlogy.Scalar_Self", |c| x_times_log(c, Emit::log)),
    ("aten.special_xlogy.default", |c| x_times_log(c, Emit::log)),
    ("aten.special_xlogy.other_scalar", |c| x_times_log(c, Emit::log)),
    ("aten.special_xlogy.self_scalar", |c| x_times_log(c, Emit::log)),
    ("aten.special_xlog1py.default", |c| x_times_log(c, exact_log1p)),
    ("aten.special_xlog1py.other_scalar", |c| x_times_log(c, exact_log1p)),
    ("aten.special_xlog1py.self_scalar", |c| x_times_log(c, exact_log1p)),
    ("aten.special_entr.default", |c| {
        let d = Domain::float_of(c, &[0])?;
        d.done(entropy(&d, d.get(0)?))
    }),
    ("aten.special_ndtr.default", |c| {
        // For 16-bit floats eager rounds after each step; these errors are not reproduced, and the call is declined.
        Domain::float_of(c, &[0]).filter(|d| d.compute == d.element)?;
        float(c, normal_cdf)
    }),
    ("aten.logaddexp.default", |c| log_add(c, Emit::exp, 1.0)),
    ("aten.logaddexp2.default", |c| log_add(c, Emit::exp2, 1.0 / LN_2)),
    ("aten.ldexp.Tensor", ldexp),
    ("aten.mvlgamma.default", mvlgamma),
    ("aten.frexp.Tensor", frexp),
];

/// log(x / (1 - x)), with x clamped to [eps, 1 - eps] if eps is given.
fn logit(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0])?;
    let mut x = d.get(0)?;
    let one = d.full(1.0);
    if let Some(eps) = call.scalar(1) {
        // Both bounds are rounded to the operand's type.
        let eps = d.round(eps);
        let (low, high) = (d.full(eps), d.full(d.round(Scalar::Float(1.0 - eps.as_f64()))));
        x = d.e.select(d.e.lt(x, low), low, d.e.select(d.e.gt(x, high), high, x));
    }
    d.done(d.e.log(d.e.div(x, d.e.sub(one, x))))
}

/// ln(1 + x), which is x for tiny x: vectorized code would flush subnormal numbers.
fn exact_log1p(e: &Emit, x: Value) -> Value {
    e.select(e.lt(e.abs(x), e.full_like(x, 1e-17)), x, e.log1p(x))
}

/// x·log(y); 0 if x is 0, NaN if y is NaN. A 16-bit logarithm is rounded before the product.
fn x_times_log(call: &Call, log: fn(&Emit, Value) -> Value) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0, 1])?;
    let (x, y, zero) = (d.get(0)?, d.get(1)?, d.full(0.0));
    let product = d.e.select(d.e.eq(x, zero), zero, d.e.mul(x, d.stored(log(&d.e, y))));
    d.done(d.e.select(d.e.ne(y, y), y, product))
}

/// -x·log(x); 0 at 0, -∞ for negative x; NaN stays NaN.
fn entropy(d: &Domain, x: Value) -> Value {
    let e = &d.e;
    let zero = e.full_like(x, 0.0);
    let rest = e.select(e.eq(x, zero), zero, e.full_like(x, f64::NEG_INFINITY));
    let value = e.select(e.gt(x, zero), e.mul(e.neg(x), d.stored(e.log(x))), rest);
    e.select(e.ne(x, x), x, value)
}

/// The normal distribution function, with a form that preserves digits in the lower tail.
fn normal_cdf(e: &Emit, x: Value) -> Value {
    let t = e.mul(x, e.full_like(x, FRAC_1_SQRT_2));
    let half = e.full_like(x, 0.5);
    let tail = e.mul(half, e.erfc(e.neg(t)));
    let centre = e.mul(half, e.add(e.full_like(x, 1.0), e.erf(t)));
    e.select(e.lt(x, e.full_like(x, -1.0)), tail, centre)
}

/// log(bᵃ + bᶜ) for the base b of `exp`: the larger one plus a correction. Equal infinities are the result themselves.
fn log_add(call: &Call, exp: fn(&Emit, Value) -> Value, unit: f64) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    let (a, b) = (d.get(0)?, d.get(1)?);
    let e = &d.e;
    let distance = e.abs(e.sub(a, b));
    let correction = e.log1p(exp(e, e.neg(distance)));
    let correction = if unit == 1.0 { correction } else { e.mul(correction, d.full(unit)) };
    let sum = e.add(e.max(a, b), correction);
    let same_infinity = e.and(e.eq(a, b), e.eq(e.abs(a), d.full(f64::INFINITY)));
    d.done(e.select(same_infinity, a, sum))
}

/// x·2ⁿ: for a float and an integer as in C, otherwise by a power in a type that depends on both operands. Other combinations stay extern
/// calls.
fn ldexp(call: &Call) -> Option<Vec<Value>> {
    let (from, to) = (call.tensor(0)?.ty().element(), call.tensor(1)?.ty().element());
    if from.is_float() && to.is_int() && !to.is_bool() && call.result_type(0).element() == from {
        return scale(call);
    }
    let d = Domain::float_of(call, &[0, 1]).filter(|_| from == to || !from.is_float() && !to.is_float())?;
    // A 16-bit power is rounded before the product.
    let power = d.stored(d.e.exp2(d.get(1)?));
    d.done(d.e.mul(d.get(0)?, power))
}

/// x·2ⁿ in doubles, rounded once: no step before the last can overflow or underflow.
fn scale(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::with(call, call.result_type(0).element());
    let (e, word, double) = (&d.e, Type::int(call.e.ctx(), 64), Type::f64(call.e.ctx()));
    let mut x = e.convert(d.get(0)?, double);
    let n = e.broadcast_to(e.convert(call.tensor(1)?, word), &d.shape);
    let number = |value: i64| e.full_like(n, value);
    let bounded = |n: Value, low: i64, high: i64| e.max(e.min(n, number(high)), number(low));
    let power = |n: Value| e.bitcast(e.shl(e.add(n, number(1023)), number(52)), double);
    // In types smaller than `f64`, 2³⁰⁰ and 2⁻³⁰⁰ suffice: the product is a finite double, and infinite or 0 in that type.
    let mut n = bounded(n, -2200, 2200);
    for _ in 0..if d.element.width() == 64 { 2 } else { 0 } {
        // -969 is the smallest normal exponent plus the 53 digits of a double; otherwise the last step would round a second time.
        let (low, high) = (e.lt(n, number(-1022)), e.gt(n, number(1023)));
        let step = e.select(low, number(-969), e.select(high, number(1023), number(0)));
        x = e.mul(x, power(step));
        n = e.sub(n, step);
    }
    let last = if d.element.width() == 64 { bounded(n, -1022, 1023) } else { bounded(n, -300, 300) };
    Some(vec![e.convert(e.mul(x, power(last)), d.element)])
}

/// Σ lgamma(x - i/2) for i below p, plus a constant.
fn mvlgamma(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0])?;
    let p = call.int(1).filter(|p| (1..=64).contains(p))?;
    let x = d.get(0)?;
    // Eager composes it of steps that are rounded separately.
    let terms = (0..p).map(|i| d.stored(d.e.lgamma(d.stored(d.e.sub(x, d.full(i as f64 / 2.0))))));
    let sum = terms.reduce(|a, b| d.e.add(a, b))?;
    let constant = (p * (p - 1)) as f64 * PI.ln() / 4.0;
    d.done(d.e.add(d.stored(sum), d.full(constant)))
}

/// The power of 2 by which a subnormal number is scaled up: larger than the number of digits of a double.
const LIFT: i64 = 60;

/// Extracts mantissa, in [1/2, 1), and exponent from the bits. Subnormal numbers are scaled up first.
fn frexp(call: &Call) -> Option<Vec<Value>> {
    let x = call.tensor(0).filter(|x| x.ty().element().is_float())?;
    let (e, element) = (&call.e, x.ty().element());
    let wide = e.convert(x, wide(element));
    let width = wide.ty().element().width();
    let (digits, smallest, mask, half) =
        if width == 64 { (52, f64::MIN_POSITIVE, 0x7ff, 0x3fe_i64) } else { (23, f64::from(f32::MIN_POSITIVE), 0xff, 0x7e) };
    let subnormal = e.lt(e.abs(wide), e.full_like(wide, smallest));
    let lift = 2f64.powi(LIFT as i32);
    let scaled = e.select(subnormal, e.mul(wide, e.full_like(wide, lift)), wide);
    let bits = e.bitcast(scaled, Type::int(e.ctx(), width));
    let number = |value: i64| e.full_like(bits, value);
    let biased = e.and(e.shr(bits, number(digits)), number(mask));
    let lifted = e.select(subnormal, number(half + LIFT), number(half));
    let exponent = e.sub(biased, lifted);
    let kept = e.and(bits, number(!(mask << digits)));
    let mantissa = e.bitcast(e.or(kept, number(half << digits)), wide.ty().element());
    // Zeros, infinities and NaN are their own mantissas.
    let zero = e.eq(wide, e.full_like(wide, 0.0));
    let plain = e.or(zero, e.eq(biased, number(mask)));
    let mantissa = e.convert(e.select(plain, wide, mantissa), element);
    let exponent = e.convert(e.select(plain, number(0), exponent), call.result_type(1).element());
    Some(vec![mantissa, exponent])
}
