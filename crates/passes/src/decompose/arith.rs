//! Arithmetic on two or more operands: sums, products, the kinds of division, powers, interpolation.
//!
//! Integer division, remainder and powers are lowered only if the divisor or exponent is a constant for which eager does not raise.

use dynamlir_dialect::ir::Value;

use super::{
    Call, Lowering,
    promote::{Arg, Domain, broadcasts},
};
use crate::emit::{Emit, Scalar};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.add.Tensor", add),
    ("aten.add.Scalar", add),
    ("aten.sub.Tensor", |c| subtract(c, 0, 1)),
    ("aten.sub.Scalar", |c| subtract(c, 0, 1)),
    ("aten.rsub.Tensor", |c| subtract(c, 1, 0)),
    ("aten.rsub.Scalar", |c| subtract(c, 1, 0)),
    ("aten.mul.Tensor", mul),
    ("aten.mul.Scalar", mul),
    ("aten.div.Tensor", true_div),
    ("aten.div.Scalar", true_div),
    ("aten.true_divide.Tensor", true_div),
    ("aten.true_divide.Scalar", true_div),
    ("aten.div.Tensor_mode", div_mode),
    ("aten.div.Scalar_mode", div_mode),
    ("aten.floor_divide.default", floor_div),
    ("aten.floor_divide.Scalar", floor_div),
    ("aten.remainder.Tensor", remainder),
    ("aten.remainder.Scalar", remainder),
    ("aten.remainder.Scalar_Tensor", remainder),
    ("aten.fmod.Tensor", fmod),
    ("aten.fmod.Scalar", fmod),
    ("aten.pow.Tensor_Tensor", pow_tensor),
    ("aten.pow.Tensor_Scalar", pow_scalar),
    ("aten.pow.Scalar", pow_base),
    ("aten.float_power.Tensor_Tensor", float_power),
    ("aten.float_power.Tensor_Scalar", float_power),
    ("aten.float_power.Scalar", float_power),
    ("aten.square.default", |c| {
        let d = Domain::of(c, &[0])?;
        let x = d.get(0)?;
        d.done(if d.element.is_bool() { d.e.and(x, x) } else { d.e.mul(x, x) })
    }),
    ("aten.addcmul.default", |c| {
        let d = Domain::number_of(c, &[0, 1, 2])?;
        d.done(multiply_add(&d, scaled(&d, c, 3, d.get(1)?)?, d.get(2)?, d.get(0)?))
    }),
    ("aten.addcdiv.default", |c| {
        let d = Domain::only_float_of(c, &[0, 1, 2])?;
        let quotient = d.e.div(scaled(&d, c, 3, d.get(1)?)?, d.get(2)?);
        d.done(d.e.add(d.get(0)?, quotient))
    }),
    ("aten.lerp.Scalar", lerp_scalar),
    ("aten.lerp.Tensor", lerp_tensor),
];

/// Returns `value` times argument `i`, a number that is usually 1. Integers cannot have a float factor.
fn scaled(d: &Domain, call: &Call, i: usize, value: Value) -> Option<Value> {
    let factor = call.scalar(i).unwrap_or(Scalar::Int(1));
    if matches!(factor, Scalar::Float(_)) && !d.element.is_float() {
        return None;
    }
    if factor.as_f64() == 1.0 {
        return Some(value);
    }
    Some(d.e.mul(value, d.full(factor)))
}

/// `a·b + c`; for floats it is rounded once, as in eager's kernels.
fn multiply_add(d: &Domain, a: Value, b: Value, c: Value) -> Value {
    if d.element.is_float() { d.e.fma(a, b, c) } else { d.e.add(d.e.mul(a, b), c) }
}

/// `a + sign·alpha·b`, with `alpha` rounded to the common dtype as eager does.
fn add_scaled(d: &Domain, call: &Call, a: Value, b: Value, sign: i64) -> Option<Value> {
    let alpha = call.scalar(2).unwrap_or(Scalar::Int(1));
    if alpha.as_f64() == 1.0 {
        return Some(if sign < 0 { d.e.sub(a, b) } else { d.e.add(a, b) });
    }
    (d.element.is_float() || !matches!(alpha, Scalar::Float(_))).then_some(())?;
    let factor = d.rounded(2)?;
    Some(multiply_add(d, if sign < 0 { d.e.neg(b) } else { b }, factor, a))
}

fn add(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0, 1])?;
    if d.element.is_bool() {
        // true + true is true; a false alpha drops the second operand.
        let keep = call.scalar(2).is_none_or(Scalar::as_bool);
        return d.done(if keep { d.e.or(d.get(0)?, d.get(1)?) } else { d.get(0)? });
    }
    d.done(add_scaled(&d, call, d.get(0)?, d.get(1)?, 1)?)
}

fn subtract(call: &Call, from: usize, what: usize) -> Option<Vec<Value>> {
    // Eager rejects a bool on either side, regardless of the other operand's type.
    let is_bool = |i: usize| call.tensor(i).is_some_and(|x| x.ty().element().is_bool()) || matches!(call.scalar(i), Some(Scalar::Bool(_)));
    if is_bool(from) || is_bool(what) {
        return None;
    }
    let d = Domain::number_of(call, &[from, what])?;
    d.done(add_scaled(&d, call, d.get(from)?, d.get(what)?, -1)?)
}

fn mul(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::of(call, &[0, 1])?;
    let (a, b) = (d.get(0)?, d.exact(1)?);
    d.done(if d.element.is_bool() { d.e.and(a, b) } else { d.e.mul(a, b) })
}

fn true_div(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0, 1])?;
    d.done(d.e.div(d.get(0)?, d.exact(1)?))
}

fn div_mode(call: &Call) -> Option<Vec<Value>> {
    match call.str(2).as_deref() {
        None => true_div(call),
        Some("floor") => floor_div(call),
        Some("trunc") => {
            let d = Domain::number_of(call, &[0, 1])?;
            if d.element.is_float() {
                let quotient = d.e.div(d.get(0)?, d.exact(1)?);
                // If the divisor is a single number, eager computes in f32; otherwise it rounds a 16-bit quotient first.
                let single = call.tensor(1).is_none_or(|x| x.ty().is_single());
                return d.done(d.e.trunc(if single { quotient } else { d.stored(quotient) }));
            }
            let quotient = int_div(&d, d.get(0)?, d.divisor(1)?);
            d.done(quotient)
        }
        Some(_) => None,
    }
}

/// `x / divisor`, rounded toward zero. Division by -1 is emitted as a negation, since the hardware traps on the smallest integer.
fn int_div(d: &Domain, x: Value, divisor: i64) -> Value {
    match divisor {
        1 => x,
        -1 => d.e.neg(x),
        _ => d.e.div(x, d.full(divisor)),
    }
}

/// The remainder of integers as in C.
fn int_rem(d: &Domain, x: Value, divisor: i64) -> Value {
    if divisor == 1 || divisor == -1 { d.full(0) } else { d.e.rem(x, d.full(divisor)) }
}

fn floor_div(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0, 1])?;
    if d.element.is_float() {
        return d.done(floor_div_float(&d.e, d.get(0)?, d.exact(1)?));
    }
    let (x, divisor) = (d.get(0)?, d.divisor(1)?);
    let quotient = int_div(&d, x, divisor);
    if d.element.is_unsigned() || divisor == 1 || divisor == -1 {
        return d.done(quotient);
    }
    // The quotient is one less if the division was inexact and the signs differ.
    let rem = int_rem(&d, x, divisor);
    let zero = d.full(0);
    let below = if divisor > 0 { d.e.lt(rem, zero) } else { d.e.gt(rem, zero) };
    d.done(d.e.select(below, d.e.sub(quotient, d.full(1)), quotient))
}

/// Torch's floor division of floats, which is Python's: exact in cases where `floor(a / b)` would be off by one.
fn floor_div_float(e: &Emit, a: Value, b: Value) -> Value {
    let zero = e.full_like(a, 0.0);
    let one = e.full_like(a, 1.0);
    let plain = e.div(a, b);
    let rem = e.rem(a, b);
    let exact = e.div(e.sub(a, rem), b);
    let adjust = e.and(e.ne(rem, zero), e.xor(e.lt(b, zero), e.lt(rem, zero)));
    let quotient = e.select(adjust, e.sub(exact, one), exact);
    // The nearest integer at or below `quotient`, which is an integer except for rounding errors.
    let floor = e.floor(quotient);
    let short = e.gt(e.sub(quotient, floor), e.full_like(a, 0.5));
    let floor = e.select(short, e.add(floor, one), floor);
    let result = e.select(e.ne(quotient, zero), floor, e.copysign(zero, plain));
    e.select(e.eq(b, zero), plain, result)
}

/// The remainder, with the divisor's sign.
fn remainder(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0, 1])?;
    if d.element.is_float() {
        let (a, b) = (d.get(0)?, d.get(1)?);
        let zero = d.full(0.0);
        let rem = d.e.rem(a, b);
        let adjust = d.e.and(d.e.ne(rem, zero), d.e.xor(d.e.lt(b, zero), d.e.lt(rem, zero)));
        return d.done(d.e.select(adjust, d.e.add(rem, b), rem));
    }
    let (x, divisor) = (d.get(0)?, d.divisor(1)?);
    let rem = int_rem(&d, x, divisor);
    if d.element.is_unsigned() {
        return d.done(rem);
    }
    let zero = d.full(0);
    let adjust = if divisor > 0 { d.e.lt(rem, zero) } else { d.e.gt(rem, zero) };
    d.done(d.e.select(adjust, d.e.add(rem, d.full(divisor)), rem))
}

fn fmod(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0, 1])?;
    if d.element.is_float() {
        return d.done(d.e.rem(d.get(0)?, d.get(1)?));
    }
    let rem = int_rem(&d, d.get(0)?, d.divisor(1)?);
    d.done(rem)
}

fn pow_tensor(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    d.done(d.e.pow(d.get(0)?, d.get(1)?))
}

fn pow_scalar(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::number_of(call, &[0, 1])?;
    let (x, exponent) = (d.get(0)?, call.scalar(1)?);
    if d.element.is_float() {
        let exponent = exponent.as_f64();
        // For f16 eager calls C's pow, which differs from a square root at -0 and -inf.
        if d.element.is_f16() && exponent.abs() == 0.5 {
            return d.done(d.e.pow(x, d.full(exponent)));
        }
        // An exponent without its own kernel in eager is rounded to the operand's type.
        let exponent = if has_kernel(exponent) { exponent } else { d.round(Scalar::Float(exponent)).as_f64() };
        return d.done(pow_float(&d.e, x, exponent));
    }
    // Computed modulo 2^n by repeated multiplication; a negative exponent raises in eager.
    let exponent = u64::try_from(exponent.as_i64()).ok()?;
    d.done(pow_int(&d, x, exponent))
}

/// Square and multiply, from the exponent's top bit.
fn pow_int(d: &Domain, x: Value, exponent: u64) -> Value {
    if exponent == 0 {
        return d.full(1);
    }
    let mut power = x;
    for bit in (0..exponent.ilog2()).rev() {
        power = d.e.mul(power, power);
        if exponent >> bit & 1 == 1 {
            power = d.e.mul(power, x);
        }
    }
    power
}

/// Returns true for exponents for which eager has its own kernel: their powers are products, roots and reciprocals.
fn has_kernel(exponent: f64) -> bool {
    [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0].contains(&exponent)
}

/// A float raised to a constant power. Exponents for which eager has its own kernel become products, roots and reciprocals.
pub fn pow_float(e: &Emit, x: Value, exponent: f64) -> Value {
    let reciprocal = |y: Value| e.div(e.full_like(y, 1.0), y);
    match exponent {
        0.0 => e.full_like(x, 1.0),
        1.0 => x,
        2.0 => e.mul(x, x),
        3.0 => e.mul(e.mul(x, x), x),
        0.5 => e.sqrt(x),
        -0.5 => e.rsqrt(x),
        -1.0 => reciprocal(x),
        -2.0 => reciprocal(e.mul(x, x)),
        _ => e.pow(x, e.full_like(x, exponent)),
    }
}

fn pow_base(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    if call.float(0)? == 1.0 {
        return d.done(d.full(1.0));
    }
    d.done(d.e.pow(d.get(0)?, d.get(1)?))
}

/// A power computed in `f64`, regardless of the operands' types.
fn float_power(call: &Call) -> Option<Vec<Value>> {
    Domain::of(call, &[0, 1])?;
    let d = Domain::with(call, dynamlir_dialect::ir::Type::f64(call.e.ctx()));
    let x = d.get(0)?;
    match call.operand_arg(1)? {
        Arg::Scalar(exponent) => d.done(pow_float(&d.e, x, exponent.as_f64())),
        Arg::Tensor(_) | Arg::Size(_) => d.done(d.e.pow(x, d.get(1)?)),
    }
}

/// Interpolates from the nearer end, so that both ends are reached exactly.
fn lerp_scalar(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    let (start, end, weight) = (d.get(0)?, d.get(1)?, call.float(2)?);
    let span = d.e.sub(end, start);
    d.done(if weight.abs() < 0.5 {
        d.e.fma(d.full(weight), span, start)
    } else {
        let rest = d.e.sub(d.full(1.0), d.full(weight));
        d.e.fma(d.e.neg(span), rest, end)
    })
}

fn lerp_tensor(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(call, &[0, 1])?;
    let weight = call.tensor(2).filter(|w| broadcasts(&w.ty().dims(), &d.shape))?;
    let (start, end, weight) = (d.get(0)?, d.get(1)?, d.tensor(weight));
    let span = d.e.sub(end, start);
    let from_start = d.e.fma(weight, span, start);
    let from_end = d.e.fma(d.e.neg(span), d.e.sub(d.full(1.0), weight), end);
    d.done(d.e.select(d.e.lt(d.e.abs(weight), d.full(0.5)), from_start, from_end))
}
