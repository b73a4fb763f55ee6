//! Arc tangent, sine and cosine: odd polynomials near 0, and complements to a right angle elsewhere.

use std::f64::consts::{FRAC_PI_2, PI};

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Arithmetic;

/// (atan(√s)/√s - 1)/s on [0, 1], to 3e-9.
const TANGENT: &[f64] = &[
    -0.001_792_967_333_929_648_8,
    0.010_911_655_712_570_275,
    -0.031_172_298_241_653_705,
    0.057_951_956_874_669_18,
    -0.084_031_154_117_694_81,
    0.109_520_681_237_564_09,
    -0.142_642_181_429_188_3,
    0.199_985_458_600_708_1,
    -0.333_332_989_930_925_4,
];
/// (asin(√s)/√s - 1)/s on [0, ¼], to 5e-9.
const SINE: &[f64] =
    &[0.042_165_928_186_027_234, 0.024_179_713_622_296_87, 0.045_470_343_118_249_636, 0.074_952_978_026_108_36, 0.166_667_524_836_751_96];

impl Arithmetic {
    pub(super) fn atan(&self, x: Value) -> Value {
        let (t, one) = (self.absf(x), self.real(1.0));
        let is_steep = self.cmpf(CmpF::Ogt, t, one);
        let z = self.select(is_steep, self.divf(one, t), t);
        let square = self.mulf(z, z);
        let rest = self.mulf(self.mulf(z, square), self.polynomial(square, TANGENT));
        self.copysign(self.select(is_steep, self.less(FRAC_PI_2, z, rest), self.addf(z, rest)), x)
    }

    /// Returns an angle that has more digits than an `f32`, minus another one given in two parts, the second of which is small.
    fn less(&self, angle: f64, first: Value, rest: Value) -> Value {
        let single = f64::from(angle as f32);
        let rest = self.subf(rest, self.real(angle - single));
        self.subf(self.subf(self.real(single), first), rest)
    }
    /// The same, minus twice the other one.
    fn less_twice(&self, angle: f64, first: Value, rest: Value) -> Value {
        self.less(angle, self.addf(first, first), self.addf(rest, rest))
    }

    /// Returns whether a sine is beyond ½, and its angle in two parts; beyond ½, half of the angle's complement instead.
    fn angle_of_sine(&self, x: Value) -> (Value, Value, Value) {
        let t = self.absf(x);
        let is_steep = self.cmpf(CmpF::Ogt, t, self.real(0.5));
        let half = self.fma(t, self.real(-0.5), self.real(0.5));
        let square = self.select(is_steep, half, self.mulf(t, t));
        let z = self.select(is_steep, self.sqrt(half), t);
        (is_steep, z, self.mulf(self.mulf(z, square), self.polynomial(square, SINE)))
    }
    pub(super) fn asin(&self, x: Value) -> Value {
        let (is_steep, z, rest) = self.angle_of_sine(x);
        let steep = self.less_twice(FRAC_PI_2, z, rest);
        self.copysign(self.select(is_steep, steep, self.addf(z, rest)), x)
    }
    pub(super) fn acos(&self, x: Value) -> Value {
        let (is_steep, z, rest) = self.angle_of_sine(x);
        let y = self.addf(z, rest);
        let is_below = self.cmpf(CmpF::Olt, x, self.real(0.0));
        let steep = self.select(is_below, self.less_twice(PI, z, rest), self.addf(y, y));
        self.select(is_steep, steep, self.less(FRAC_PI_2, self.copysign(z, x), self.copysign(rest, x)))
    }
}
