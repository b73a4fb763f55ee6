//! Functions of one operand: roots, exponentials, trigonometry, rounding, signs.

use dynamlir_dialect::ir::Value;
use std::f64::consts::PI;

use super::{Call, Lowering, promote::Domain};
use crate::emit::{Emit, Scalar};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.exp.default", |c| float(c, Emit::exp)),
    ("aten.exp2.default", |c| float(c, Emit::exp2)),
    ("aten.expm1.default", |c| float(c, Emit::expm1)),
    ("aten.log.default", |c| float(c, Emit::log)),
    ("aten.log2.default", |c| float(c, Emit::log2)),
    ("aten.log10.default", |c| float(c, Emit::log10)),
    ("aten.log1p.default", |c| float(c, Emit::log1p)),
    ("aten.sqrt.default", |c| float(c, Emit::sqrt)),
    ("aten.rsqrt.default", |c| float(c, Emit::rsqrt)),
    ("aten.sin.default", |c| float(c, Emit::sin)),
    ("aten.cos.default", |c| float(c, Emit::cos)),
    ("aten.tan.default", |c| float(c, Emit::tan)),
    ("aten.asin.default", |c| float(c, Emit::asin)),
    ("aten.acos.default", |c| float(c, Emit::acos)),
    ("aten.atan.default", |c| float(c, Emit::atan)),
    ("aten.sinh.default", |c| float(c, Emit::sinh)),
    ("aten.cosh.default", |c| float(c, Emit::cosh)),
    ("aten.tanh.default", |c| float(c, Emit::tanh)),
    ("aten.asinh.default", |c| float(c, Emit::asinh)),
    ("aten.acosh.default", |c| float(c, Emit::acosh)),
    ("aten.atanh.default", |c| float(c, Emit::atanh)),
    ("aten.erf.default", |c| float(c, Emit::erf)),
    ("aten.erfc.default", |c| float(c, Emit::erfc)),
    ("aten.lgamma.default", |c| float(c, Emit::lgamma)),
    ("aten.reciprocal.default", |c| float(c, |e, x| e.div(e.full_like(x, 1.0), x))),
    ("aten.deg2rad.default", |c| float(c, |e, x| e.mul(x, e.full_like(x, PI / 180.0)))),
    ("aten.rad2deg.default", |c| float(c, |e, x| e.mul(x, e.full_like(x, 180.0 / PI)))),
    ("aten.sinc.default", |c| float(c, sinc)),
    ("aten.angle.default", |c| float(c, angle)),
    ("aten.atan2.default", |c| float2(c, Emit::atan2)),
    ("aten.hypot.default", hypot),
    ("aten.copysign.Tensor", |c| float2(c, Emit::copysign)),
    ("aten.copysign.Scalar", |c| float2(c, Emit::copysign)),
    ("aten.nextafter.default", nextafter),
    ("aten.floor.default", |c| rounding(c, Emit::floor)),
    ("aten.ceil.default", |c| rounding(c, Emit::ceil)),
    ("aten.trunc.default", |c| rounding(c, Emit::trunc)),
    ("aten.fix.default", |c| rounding(c, Emit::trunc)),
    ("aten.round.default", |c| rounding(c, Emit::round)),
    ("aten.round.decimals", round_decimals),
    ("aten.frac.default", |c| {
        let d = Domain::only_float_of(c, &[0])?;
        let x = d.get(0)?;
        d.done(d.e.sub(x, d.e.trunc(x)))
    }),
    ("aten.neg.default", |c| number(c, Emit::neg)),
    ("aten.abs.default", |c| number(c, |e, x| if x.ty().element().is_unsigned() { x } else { e.abs(x) })),
    ("aten.sign.default", sign),
    ("aten.sgn.default", sign),
    ("aten.positive.default", |c| {
        let d = Domain::number_of(c, &[0])?;
        d.done(d.get(0)?)
    }),
    ("aten.nan_to_num.default", nan_to_num),
];

/// A function on floats; integers are converted to `f32`.
pub fn float(call: &Call, f: fn(&Emit, Value) -> Value) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0])?;
    d.done(f(&d.e, d.get(0)?))
}

/// A function of two floats.
pub fn float2(call: &Call, f: fn(&Emit, Value, Value) -> Value) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0, 1])?;
    d.done(f(&d.e, d.get(0)?, d.get(1)?))
}

/// A function on numbers in their own type.
fn number(call: &Call, f: fn(&Emit, Value) -> Value) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0])?;
    d.done(f(&d.e, d.get(0)?))
}

/// A rounding function, which leaves integers unchanged.
fn rounding(call: &Call, f: fn(&Emit, Value) -> Value) -> Option<Vec<Value>> {
    number(call, if call.tensor(0)?.ty().element().is_float() { f } else { |_, x| x })
}

/// Scales the number by a power of ten, rounds it and scales it back. The power is never a fraction, so that it is exact.
fn round_decimals(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0])?;
    let (x, decimals) = (d.get(0)?, call.int(1)?);
    let power = d.full(10f64.powi(i32::try_from(decimals.abs()).ok()?));
    d.done(match decimals {
        0 => d.e.round(x),
        1.. => d.e.div(d.e.round(d.e.mul(x, power)), power),
        _ => d.e.mul(d.e.round(d.e.div(x, power)), power),
    })
}

fn hypot(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    d.done(d.e.hypot(d.get(0)?, d.get(1)?))
}

/// The next 16-bit float is not the next `f32`, so 16-bit floats are left to eager.
fn nextafter(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1]).filter(|d| d.compute == d.element)?;
    d.done(d.e.nextafter(d.get(0)?, d.get(1)?))
}

/// sin(πx) / πx, 1 at 0.
fn sinc(e: &Emit, x: Value) -> Value {
    let scaled = e.mul(x, e.full_like(x, PI));
    let quotient = e.div(e.sin(scaled), scaled);
    e.select(e.eq(x, e.full_like(x, 0.0)), e.full_like(x, 1.0), quotient)
}

/// π for negative numbers, else 0; NaN stays NaN.
fn angle(e: &Emit, x: Value) -> Value {
    let zero = e.full_like(x, 0.0);
    let turned = e.select(e.lt(x, zero), e.full_like(x, PI), zero);
    e.select(e.ne(x, x), x, turned)
}

/// -1, 0 or 1; 0 for NaN; a bool is its own sign.
fn sign(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0])?;
    let (x, zero) = (d.get(0)?, d.full(0));
    if d.element.is_bool() {
        return d.done(x);
    }
    let above = d.e.convert(d.e.gt(x, zero), d.compute);
    if d.element.is_unsigned() {
        return d.done(above);
    }
    d.done(d.e.sub(above, d.e.convert(d.e.lt(x, zero), d.compute)))
}

fn nan_to_num(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0])?;
    let x = d.get(0)?;
    if !d.element.is_float() {
        return d.done(x);
    }
    let largest = match d.element {
        element if element.is_f64() => f64::MAX,
        element if element.is_f32() => f64::from(f32::MAX),
        element if element.is_bf16() => f64::from(f32::from_bits(0x7f7f_0000)),
        element if element.is_f16() => 65504.0,
        _ => return None,
    };
    let replaced = |is: Value, i: usize, default: f64, other: Value| {
        let by = Scalar::Float(call.float(i).unwrap_or(default));
        d.e.select(is, d.full(by), other)
    };
    let finite = replaced(d.e.eq(x, d.full(f64::NEG_INFINITY)), 3, -largest, x);
    let finite = replaced(d.e.eq(x, d.full(f64::INFINITY)), 2, largest, finite);
    d.done(replaced(d.e.ne(x, x), 1, 0.0, finite))
}
