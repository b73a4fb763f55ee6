//! `sin`, `cos` and `tan` of `f64`.
//!
//! The argument minus the nearest multiple of π, or of half of it, is computed in two parts that together have more digits than an `f64`: π
//! is subtracted in one part of 33 bits, whose multiples are exact, and one of 53, as in Sun's fdlibm. Large arguments, and those whose
//! remainder is close to zero, are left to the library.

use std::f64::consts::{FRAC_1_PI, FRAC_2_PI};

use dynamlir_dialect::{
    ir::Value,
    upstream::arith::{CmpF, CmpI},
};

use super::Lanes;

/// π in two parts.
const PARTS: [f64; 2] = [3.141_592_653_468_251_2, 1.215_420_101_301_238_4e-10];
/// Arguments from here on are left to the library.
const BOUND: f64 = 1_048_576.0;
/// For an argument larger than one, the smallest remainder that is exact enough; smaller ones are left to the library.
const LEAST: f64 = 0.000_244_140_625;
/// Adding this to a number rounds it to an integer, in the lowest bits of the sum.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// (sin(√s)/√s - 1)/s on [0, π²/4], to 2e-19.
const SINE: &[f64] = &[
    2.722_258_159_087_994e-15,
    -7.643_098_017_839_486e-13,
    1.605_894_395_280_221_1e-10,
    -2.505_210_696_064_029_4e-8,
    2.755_731_921_213_703e-6,
    -0.000_198_412_698_412_153_17,
    0.008_333_333_333_333_212,
    -0.166_666_666_666_666_66,
];

/// (sin(√s)/√s - 1)/s on [0, π²/16], to 3e-17.
const FLAT_SINE: &[f64] = &[
    1.591_672_619_388_933_6e-10,
    -2.505_111_227_257_324_3e-8,
    2.755_731_600_817_155e-6,
    -0.000_198_412_698_365_757_1,
    0.008_333_333_333_330_827,
    -0.166_666_666_666_666_66,
];
/// (cos(√s) - 1 + s/2)/s² on [0, π²/16], to 2e-18.
const FLAT_COSINE: &[f64] = &[
    -1.138_175_465_366_279_5e-11,
    2.087_613_402_409_014_5e-9,
    -2.755_731_721_268_659e-7,
    2.480_158_729_865_129_2e-5,
    -0.001_388_888_888_888_732_2,
    0.041_666_666_666_666_664,
];

/// A reduced argument, its rounding error, and the lanes in which it is not exact enough.
struct Left {
    r: Value,
    rest: Value,
    fails: Value,
}

impl Left {
    /// Computes `x - turns · π / parts`.
    fn of(lanes: &Lanes, x: Value, turns: Value, parts: f64) -> Self {
        let [high, low] = PARTS.map(|part| lanes.number(-part / parts));
        let exact = lanes.fma(turns, high, x);
        let r = lanes.fma(turns, low, exact);
        let rest = lanes.fma(turns, low, lanes.subf(exact, r));
        let size = lanes.absf(x);
        let is_lost = lanes.andi(lanes.cmpf(CmpF::Olt, lanes.absf(r), lanes.number(LEAST)), lanes.cmpf(CmpF::Ogt, size, lanes.number(1.0)));
        Self { r, rest, fails: lanes.ori(lanes.not_below(size, BOUND), is_lost) }
    }
}

/// The sine of `x - turns · π`, negated if the integer in `sum` is odd, and the lanes in which it is not valid.
fn sine(lanes: &Lanes, x: Value, turns: Value, sum: Value) -> (Value, Value) {
    let Left { r, rest, fails } = Left::of(lanes, x, turns, 1.0);
    let square = lanes.mulf(r, r);
    // The correction `rest` is weighted by the cosine, about 1 - r²/2.
    let rest = lanes.fma(lanes.mulf(square, lanes.number(-0.5)), rest, rest);
    let value = lanes.addf(r, lanes.fma(lanes.mulf(r, square), lanes.polynomial(square, SINE), rest));
    let sign = lanes.shli(lanes.bitcast(sum, lanes.word()), lanes.bits(63));
    let value = lanes.bitcast(lanes.xori(lanes.bitcast(value, lanes.word()), sign), lanes.real);
    (value, fails)
}

/// The argument if it is zero, as the remainder loses the sign of a zero; otherwise the value.
fn signed(lanes: &Lanes, x: Value, value: Value) -> Value {
    lanes.select(lanes.cmpf(CmpF::Oeq, x, lanes.number(0.0)), x, value)
}

pub(super) fn sin(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let rounding = lanes.number(ROUNDING);
    let sum = lanes.fma(operands[0], lanes.number(FRAC_1_PI), rounding);
    let (value, fails) = sine(lanes, operands[0], lanes.subf(sum, rounding), sum);
    (signed(lanes, operands[0], value), fails)
}

/// The sine of the argument plus a quarter turn.
pub(super) fn cos(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let (rounding, half) = (lanes.number(ROUNDING), lanes.number(0.5));
    let sum = lanes.addf(lanes.fma(operands[0], lanes.number(FRAC_1_PI), half), rounding);
    sine(lanes, operands[0], lanes.subf(lanes.subf(sum, rounding), half), sum)
}

/// The sine divided by the cosine of the remainder within a quarter turn; inverted and negated if the number of quarters is odd.
pub(super) fn tan(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let (rounding, one, word) = (lanes.number(ROUNDING), lanes.number(1.0), lanes.word());
    let sum = lanes.fma(operands[0], lanes.number(FRAC_2_PI), rounding);
    let Left { r, rest, fails } = Left::of(lanes, operands[0], lanes.subf(sum, rounding), 2.0);
    let square = lanes.mulf(r, r);
    let half = lanes.mulf(square, lanes.number(0.5));
    let rest_of_sine = lanes.fma(lanes.negf(half), rest, rest);
    let sine = lanes.addf(r, lanes.fma(lanes.mulf(r, square), lanes.polynomial(square, FLAT_SINE), rest_of_sine));
    let first = lanes.subf(one, half);
    let lost = lanes.subf(lanes.subf(one, first), half);
    let rest_of_cosine = lanes.subf(lost, lanes.mulf(r, rest));
    let cosine = lanes.addf(first, lanes.fma(lanes.mulf(square, square), lanes.polynomial(square, FLAT_COSINE), rest_of_cosine));
    let odd = lanes.andi(lanes.bitcast(sum, word), lanes.bits(1));
    let is_odd = lanes.cmpi(CmpI::Ne, odd, lanes.bits(0));
    let value = lanes.divf(lanes.select(is_odd, lanes.negf(cosine), sine), lanes.select(is_odd, sine, cosine));
    (signed(lanes, operands[0], value), fails)
}
