//! Special functions that are a few primitives: logits, entropies, logarithms of sums.
//!
//! Those that are series stand in the files `special_*.rs`.

use dynamlir_dialect::ir::{Type, Value};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use super::{
    Call, Lowering,
    pointwise::{float, float2},
    promote::{Domain, wide},
};
use crate::emit::Emit;

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.logit.default", logit),
    ("aten.xlogy.Tensor", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log(y)))),
    ("aten.xlogy.Scalar_Other", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log(y)))),
    ("aten.xlogy.Scalar_Self", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log(y)))),
    ("aten.special_xlogy.default", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log(y)))),
    ("aten.special_xlogy.other_scalar", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log(y)))),
    ("aten.special_xlogy.self_scalar", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log(y)))),
    ("aten.special_xlog1py.default", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log1p(y)))),
    ("aten.special_xlog1py.other_scalar", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log1p(y)))),
    ("aten.special_xlog1py.self_scalar", |c| float2(c, |e, x, y| x_times_log(e, x, y, e.log1p(y)))),
    ("aten.special_entr.default", |c| float(c, entropy)),
    ("aten.special_ndtr.default", |c| {
        // Eager composes it of 16-bit steps, whose errors are not ours to make.
        Domain::float_of(c, &[0]).filter(|d| d.compute == d.element)?;
        float(c, normal_cdf)
    }),
    ("aten.logaddexp.default", |c| log_add(c, Emit::exp, 1.0)),
    ("aten.logaddexp2.default", |c| log_add(c, Emit::exp2, 1.0 / LN_2)),
    ("aten.ldexp.Tensor", ldexp),
    ("aten.mvlgamma.default", mvlgamma),
    ("aten.frexp.Tensor", frexp),
];

/// log(x / (1 - x)), of x moved into [eps, 1 - eps] where that is given.
fn logit(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0])?;
    let mut x = d.get(0)?;
    let one = d.full(1.0);
    if let Some(eps) = call.float(1) {
        let (low, high) = (d.full(eps), d.full(1.0 - eps));
        x = d.e.select(d.e.lt(x, low), low, d.e.select(d.e.gt(x, high), high, x));
    }
    d.done(d.e.log(d.e.div(x, d.e.sub(one, x))))
}

/// x·log, 0 where x is 0, NaN where y is.
fn x_times_log(e: &Emit, x: Value, y: Value, log: Value) -> Value {
    let zero = e.full_like(x, 0.0);
    let product = e.select(e.eq(x, zero), zero, e.mul(x, log));
    e.select(e.ne(y, y), y, product)
}

/// -x·log(x); 0 at 0, -∞ below, NaN stays.
fn entropy(e: &Emit, x: Value) -> Value {
    let zero = e.full_like(x, 0.0);
    let rest = e.select(e.eq(x, zero), zero, e.full_like(x, f64::NEG_INFINITY));
    let value = e.select(e.gt(x, zero), e.mul(e.neg(x), e.log(x)), rest);
    e.select(e.ne(x, x), x, value)
}

/// The normal distribution function, with the form that keeps digits in the lower tail.
fn normal_cdf(e: &Emit, x: Value) -> Value {
    let t = e.mul(x, e.full_like(x, FRAC_1_SQRT_2));
    let half = e.full_like(x, 0.5);
    let tail = e.mul(half, e.erfc(e.neg(t)));
    let centre = e.mul(half, e.add(e.full_like(x, 1.0), e.erf(t)));
    e.select(e.lt(x, e.full_like(x, -1.0)), tail, centre)
}

/// log(bᵃ + bᶜ) for the base b of `exp`: the larger one plus a correction; equal infinities are the result.
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

/// x·2ⁿ. Eager takes the power in a type that depends on both operands; other mixtures than these stay extern.
fn ldexp(call: &Call) -> Option<Vec<Value>> {
    let (x, exponent) = (call.tensor(0)?.ty(), call.tensor(1)?.ty());
    let (from, to) = (x.element(), exponent.element());
    let alike = from == to || !from.is_float() && !to.is_float();
    let whole_exponent = x.rank() > 0 && from.is_float() && from.width() > 16 && !to.is_float();
    let d = Domain::float_of(call, &[0, 1]).filter(|_| alike || whole_exponent)?;
    // A 16-bit power is rounded before the product.
    let power = d.e.convert(d.e.convert(d.e.exp2(d.get(1)?), d.element), d.compute);
    d.done(d.e.mul(d.get(0)?, power))
}

/// Σ lgamma(x - i/2) for i below p, plus a constant.
fn mvlgamma(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0])?;
    let p = call.int(1).filter(|p| (1..=64).contains(p))?;
    let x = d.get(0)?;
    let terms = (0..p).map(|i| d.e.lgamma(d.e.sub(x, d.full(i as f64 / 2.0))));
    let sum = terms.reduce(|a, b| d.e.add(a, b))?;
    let constant = (p * (p - 1)) as f64 * PI.ln() / 4.0;
    d.done(d.e.add(sum, d.full(constant)))
}

/// Mantissa in [1/2, 1) and exponent, from the bits. Subnormal numbers are scaled up first.
fn frexp(call: &Call) -> Option<Vec<Value>> {
    let x = call.tensor(0).filter(|x| x.ty().element().is_float())?;
    let (e, element) = (&call.e, x.ty().element());
    let wide = e.convert(x, wide(element));
    let width = wide.ty().element().width();
    let (digits, smallest, mask, half) =
        if width == 64 { (52, f64::MIN_POSITIVE, 0x7ff, 0x3fe_i64) } else { (23, f64::from(f32::MIN_POSITIVE), 0xff, 0x7e) };
    let subnormal = e.lt(e.abs(wide), e.full_like(wide, smallest));
    let lift = f64::from(1u32 << 30);
    let scaled = e.select(subnormal, e.mul(wide, e.full_like(wide, lift)), wide);
    let bits = e.bitcast(scaled, Type::int(e.ctx(), width));
    let number = |value: i64| e.full_like(bits, value);
    let biased = e.and(e.shr(bits, number(digits)), number(mask));
    let lifted = e.select(subnormal, number(half + 30), number(half));
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
