//! `sin`, `cos` and `tan` of `f32`, computed in `f64`.
//!
//! The argument minus the nearest multiple of π (or of π/2) is exact to more digits than an `f32` has, because π is subtracted in two parts
//! of 53 bits each by fused multiply-adds. This is true for arguments far beyond 2^30; from there on the library's functions are used.

use std::f64::consts::{FRAC_1_PI, FRAC_2_PI, PI};

use dynamlir_dialect::{
    ir::{Type, Value},
    upstream::arith::CmpI,
};

use super::Lanes;

/// The difference between π and the nearest `f64`.
const PI_REST: f64 = 1.224_646_799_147_353_2e-16;
/// Arguments from here on are left to the library.
const BOUND: f64 = 1_073_741_824.0;
/// Adding this to a number rounds it to an integer, in the lowest bits of the sum.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// (sin(√s)/√s - 1)/s on [0, π²/4], to 6e-9.
const SINE: &[f64] = &[2.605_590_238_028_572_5e-6, -1.980_952_146_939_458_7e-4, 8.333_065_206_409_397e-3, -1.666_665_951_314_861e-1];

/// Arguments in `f64`, with builders for the wide and the original lanes.
struct Angle<'a> {
    lanes: &'a Lanes,
    wide: Lanes,
    x: Value,
    word: Type,
}

impl<'a> Angle<'a> {
    fn new(lanes: &'a Lanes, x: Value) -> Self {
        let wide = lanes.wide();
        let word = wide.real.with_element(Type::int(lanes.ctx(), 64));
        Self { x: wide.extf(x, wide.real), wide, lanes, word }
    }
    /// The argument minus `multiple` times π/`parts`.
    fn less(&self, multiple: Value, parts: f64) -> Value {
        let [high, rest] = [-PI / parts, -PI_REST / parts].map(|number| self.wide.number(number));
        self.wide.fma(multiple, rest, self.wide.fma(multiple, high, self.x))
    }
    /// The sine of `r` within half a turn, negated if the integer in `sum` is odd.
    fn sine(&self, r: Value, sum: Value) -> Value {
        let w = &self.wide;
        let square = w.mulf(r, r);
        // A product with the argument as the last factor, which keeps the sign of a zero.
        let value = w.mulf(r, w.fma(w.polynomial(square, SINE), square, w.number(1.0)));
        let sign = w.shli(w.bitcast(sum, self.word), w.int(self.word, 63));
        w.bitcast(w.xori(w.bitcast(value, self.word), sign), w.real)
    }
    /// The result, and the lanes in which it is not valid.
    fn done(&self, value: Value, x: Value) -> (Value, Value) {
        (self.wide.truncf(value, self.lanes.real), self.lanes.not_below(self.lanes.absf(x), BOUND))
    }
}

pub(super) fn sin(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let angle = Angle::new(lanes, operands[0]);
    let w = &angle.wide;
    let sum = w.fma(angle.x, w.number(FRAC_1_PI), w.number(ROUNDING));
    let turns = w.subf(sum, w.number(ROUNDING));
    angle.done(angle.sine(angle.less(turns, 1.0), sum), operands[0])
}

/// The sine of the argument plus a quarter turn.
pub(super) fn cos(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let angle = Angle::new(lanes, operands[0]);
    let w = &angle.wide;
    let sum = w.addf(w.fma(angle.x, w.number(FRAC_1_PI), w.number(0.5)), w.number(ROUNDING));
    let turns = w.subf(w.subf(sum, w.number(ROUNDING)), w.number(0.5));
    angle.done(angle.sine(angle.less(turns, 1.0), sum), operands[0])
}

/// A fraction of `r` within a quarter turn, to 6e-11; inverted and negated if the number of quarters is odd.
pub(super) fn tan(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let angle = Angle::new(lanes, operands[0]);
    let w = &angle.wide;
    let sum = w.fma(angle.x, w.number(FRAC_2_PI), w.number(ROUNDING));
    let quarters = w.subf(sum, w.number(ROUNDING));
    let r = angle.less(quarters, 2.0);
    let square = w.mulf(r, r);
    let top = w.mulf(r, w.polynomial(square, &[21.0, -1260.0, 10395.0]));
    let bottom = w.polynomial(square, &[-1.0, 210.0, -4725.0, 10395.0]);
    let odd = w.andi(w.bitcast(sum, angle.word), w.int(angle.word, 1));
    let is_odd = w.cmpi(CmpI::Ne, odd, w.int(angle.word, 0));
    let value = w.divf(w.select(is_odd, w.negf(bottom), top), w.select(is_odd, top, bottom));
    angle.done(value, operands[0])
}
