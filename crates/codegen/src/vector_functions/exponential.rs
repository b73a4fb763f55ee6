//! `exp` and `tanh` of `f64`.
//!
//! As by Cody and Waite, an argument is split into an integer multiple of ln 2 and a remainder of at most half of that. A polynomial
//! computes the exponential of the remainder minus one, so that small results keep all of their digits. Processors with 512-bit vectors can
//! multiply by any power of two; on others, results that are not normal numbers take the rare path.

use std::f64::consts::{LN_2, LOG2_E};

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Lanes;

/// The difference between ln 2 and the nearest `f64`.
const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;
/// Adding this to a number rounds it to an integer, in the lowest bits of the sum.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// The bit position of the exponent in an `f64`.
const EXPONENT: i64 = 52;
/// Beyond this magnitude results may be subnormal or infinite.
const BOUND: f64 = 708.0;
/// (exp(r) - 1 - r)/r² for r up to ln 2 / 2, to 1e-16.
const SERIES: &[f64] = &[
    2.511_004_989_585_871_6e-8,
    2.762_009_051_849_942_7e-7,
    2.755_724_233_668_035_7e-6,
    2.480_152_129_097_334_5e-5,
    0.000_198_412_698_865_91,
    0.001_388_888_891_721_745_7,
    0.008_333_333_333_322_207,
    0.041_666_666_666_624_12,
    0.166_666_666_666_666_74,
    0.500_000_000_000_000_1,
];

/// Exponentials of arguments from the first bound on are infinite; of arguments below the negative of the second they are 0.
const ENDS: f64 = 710.0;
const GONE: f64 = 745.2;
/// (tanh(√s)/√s - 1)/s on [0, 0.3025], to 8e-18.
const TANGENT: &[f64] = &[
    -2.060_276_537_636_634e-5,
    8.511_313_685_577_672e-5,
    -0.000_234_634_741_088_723_7,
    0.000_588_936_052_007_405_7,
    -0.001_455_661_830_100_716,
    0.003_592_110_378_689_024,
    -0.008_863_234_397_814_355,
    0.021_869_488_493_666_944,
    -0.053_968_253_967_434_016,
    0.133_333_333_333_327_14,
    -0.333_333_333_333_333_3,
];
/// `tanh` is a polynomial up to the first bound, and 1 from the second on.
const STEEP: f64 = 0.55;
const FLAT: f64 = 22.0;

impl Lanes {
    /// exp(r) - 1, and a number with n in its lowest bits, for the argument x plus a small correction.
    fn exp_in_parts(&self, x: Value, more: Option<Value>) -> (Value, Value) {
        let rounding = self.number(ROUNDING);
        let sum = self.fma(x, self.number(LOG2_E), rounding);
        let n = self.subf(sum, rounding);
        let r = self.fma(n, self.number(-LN_2_REST), self.fma(n, self.number(-LN_2), x));
        let r = more.map_or(r, |more| self.addf(r, more));
        let rest = self.fma(self.mulf(r, r), self.polynomial(r, SERIES), r);
        (rest, sum)
    }
    /// The same decomposition of the argument of an exponential: exp(r) - 1, and n.
    fn exp_and_exponent(&self, x: Value, more: Option<Value>) -> (Value, Value) {
        let (rest, sum) = self.exp_in_parts(x, more);
        (rest, self.subf(sum, self.number(ROUNDING)))
    }
    /// The exponential of x between `-GONE` and `ENDS`, times a factor; without 512-bit vectors, correct only if the result is a normal
    /// number.
    pub(super) fn exp_times(&self, x: Value, more: Option<Value>, factor: Option<Value>) -> Value {
        if self.scales() {
            let (rest, n) = self.exp_and_exponent(x, more);
            return self.scale(self.one_more_times(rest, factor), n);
        }
        let (rest, sum) = self.exp_in_parts(x, more);
        let mantissa = self.one_more_times(rest, factor);
        self.bitcast(self.addi(self.bitcast(mantissa, self.word()), self.exponent(sum)), self.real)
    }
    /// `1 + rest`, times a factor if there is one.
    fn one_more_times(&self, rest: Value, factor: Option<Value>) -> Value {
        factor.map_or_else(|| self.addf(rest, self.number(1.0)), |factor| self.fma(rest, factor, factor))
    }
    /// The bits which, added to those of a number, multiply it by two to the power of the integer in the lowest bits of `sum`.
    fn exponent(&self, sum: Value) -> Value {
        self.shli(self.bitcast(sum, self.word()), self.bits(EXPONENT))
    }
    /// The minimum of x and `most`; NaN is kept.
    pub(super) fn at_most(&self, x: Value, most: f64) -> Value {
        let most = self.number(most);
        self.select(self.cmpf(CmpF::Ogt, x, most), most, x)
    }
}

pub(super) fn exp(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let x = operands[0];
    if lanes.scales() {
        // Rounding a result to zero takes the processor as long as computing twenty others.
        let is_gone = lanes.cmpf(CmpF::Olt, x, lanes.number(-GONE));
        let value = lanes.exp_times(lanes.at_most(lanes.select(is_gone, lanes.number(0.0), x), ENDS), None, None);
        return (lanes.select(is_gone, lanes.number(0.0), value), lanes.none());
    }
    (lanes.exp_times(x, None, None), lanes.not_below(lanes.absf(x), BOUND))
}

/// `1 - 2e / (1 + e)` with `e = exp(-2t)`, so that the difference from 1 is as exact as the last subtraction; near 0 an odd polynomial.
pub(super) fn tanh(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let t = lanes.at_most(lanes.absf(operands[0]), FLAT);
    let one = lanes.number(1.0);
    let (rest, sum) = lanes.exp_in_parts(lanes.mulf(t, lanes.number(-2.0)), None);
    let power = lanes.bitcast(lanes.addi(lanes.exponent(sum), lanes.bitcast(one, lanes.word())), lanes.real);
    let e = lanes.fma(power, rest, power);
    let far = lanes.subf(one, lanes.divf(lanes.addf(e, e), lanes.addf(one, e)));
    let square = lanes.mulf(t, t);
    let near = lanes.fma(lanes.mulf(t, square), lanes.polynomial(square, TANGENT), t);
    let is_far = lanes.cmpf(CmpF::Ogt, t, lanes.number(STEEP));
    (lanes.copysign(lanes.select(is_far, far, near), operands[0]), lanes.none())
}
