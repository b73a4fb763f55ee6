//! `fmod`, exactly.
//!
//! A fused multiply-add computes the dividend minus its rounded quotient times the divisor exactly: the difference is a multiple of the
//! divisor's last place, and has no more digits than the divisor. So a quotient of many digits is removed step by step, in each step as
//! many digits as a mantissa has. The truncated quotient of the last step is correct or one too large; in that case the divisor is added
//! once.

use dynamlir_dialect::{
    ir::{Builder, Value},
    upstream::arith::CmpF,
};

use super::{Lanes, any};

/// A power of two that scales a divisor, applied once or twice, so that quotients of all numbers are finite.
const SCALE: f64 = 1.071_508_607_186_267_3e301;

/// A single step; not valid for longer quotients, and for operands that do not have a quotient.
pub(super) fn one_step(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let digits = if lanes.real.element().is_f32() { 23 } else { 52 };
    let [dividend, divisor] = [lanes.absf(operands[0]), lanes.absf(operands[1])];
    let ratio = lanes.divf(dividend, divisor);
    let rest = lanes.fma(lanes.negf(lanes.trunc(ratio)), divisor, dividend);
    let value = lanes.finish(rest, divisor, operands[0]);
    let fails = lanes.ori(lanes.not_below(ratio, 2f64.powi(digits)), lanes.cmpf(CmpF::Uno, rest, rest));
    (value, fails)
}

/// Steps in `f64`, in which a quotient of `f32`s is never infinite.
pub(super) fn in_double(lanes: &Lanes, operands: &[Value]) -> Value {
    let wide = lanes.wide();
    let [dividend, divisor] = [operands[0], operands[1]].map(|operand| wide.absf(wide.extf(operand, wide.real)));
    let rest = wide.steps(dividend, divisor, |_, _| divisor);
    let sign = wide.extf(operands[0], wide.real);
    lanes.truncf(wide.finish(rest, divisor, sign), lanes.real)
}

/// Repeated steps. If the quotient is infinite, the first ones subtract multiples of the divisor times a power of two.
pub(super) fn step_by_step(lanes: &Lanes, operands: &[Value]) -> Value {
    let [dividend, divisor] = [lanes.absf(operands[0]), lanes.absf(operands[1])];
    let scale = lanes.number(SCALE);
    let larger = lanes.mulf(divisor, scale);
    let largest = lanes.mulf(larger, scale);
    let infinite = lanes.number(f64::INFINITY);
    let fitting = |step: Builder, rest: Value| {
        let is_infinite = |by: Value| step.cmpf(CmpF::Oeq, step.absf(step.divf(rest, by)), infinite);
        step.select(is_infinite(divisor), step.select(is_infinite(larger), largest, larger), divisor)
    };
    let rest = lanes.steps(dividend, divisor, fitting);
    lanes.finish(rest, divisor, operands[0])
}

impl Lanes {
    /// Subtracts multiples of the value that `fitting` returns until all remainders are smaller than the divisor. NaN, for operands without
    /// a remainder, ends the loop.
    fn steps(&self, dividend: Value, divisor: Value, fitting: impl FnOnce(Builder, Value) -> Value) -> Value {
        let is_left = |b: Builder, rest: Value| b.cmpf(CmpF::Oge, b.absf(rest), divisor);
        let start = self.select(self.cmpf(CmpF::Uno, divisor, divisor), divisor, dividend);
        self.scf_while(
            start,
            |asked, rest| any(asked, is_left(asked, rest)),
            |step, rest| {
                let by = fitting(step, rest);
                let next = step.fma(step.negf(step.trunc(step.divf(rest, by))), by, rest);
                // Keeps finished lanes: their divisor may be infinite.
                step.select(is_left(step, rest), next, rest)
            },
        )
    }
    /// Turns a remainder between minus and plus the divisor into one with the dividend's sign.
    fn finish(&self, rest: Value, divisor: Value, dividend: Value) -> Value {
        let is_short = self.cmpf(CmpF::Olt, rest, self.number(0.0));
        self.copysign(self.select(is_short, self.addf(rest, divisor), rest), dividend)
    }
}
