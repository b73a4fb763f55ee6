//! `atan`, `asin` and `acos` of `f64`: odd polynomials near 0; elsewhere the argument is reduced by an eighth, a quarter or half of a turn,
//! as in Moshier's Cephes.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Lanes;

/// The difference between π/2 and the nearest `f64`.
const FRAC_PI_2_REST: f64 = 6.123_233_995_736_766e-17;
/// The tangents of a sixteenth and of three sixteenths of a turn.
const TANGENTS: [f64; 2] = [0.414_213_562_373_095_03, 2.414_213_562_373_095];
/// (atan(√s)/√s - 1)/s for √s up to the first of these tangents, to 2e-18.
const TANGENT: &[f64] = &[
    -0.018_367_995_073_872_156,
    0.038_504_991_743_094_18,
    -0.050_575_059_816_279_744,
    0.058_521_455_781_622_655,
    -0.066_637_228_821_144_24,
    0.076_921_180_774_907_56,
    -0.090_909_012_339_092_93,
    0.111_111_109_134_728_46,
    -0.142_857_142_830_143_09,
    0.199_999_999_999_841_58,
    -0.333_333_333_333_333_15,
];
/// (asin(√s)/√s - 1)/s on [0, ¼], to 2e-17.
const SINE: &[f64] = &[
    0.030_892_547_058_306_49,
    -0.014_661_312_459_086_914,
    0.018_478_008_643_503_2,
    0.006_934_361_387_059_273_5,
    0.012_069_225_632_728_73,
    0.013_901_531_912_713_478,
    0.017_357_927_331_697_946,
    0.022_371_886_050_377_546,
    0.030_381_953_282_289_74,
    0.044_642_856_985_982_93,
    0.075_000_000_001_215_01,
    0.166_666_666_666_664_58,
];

pub(super) fn atan(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let (size, one) = (lanes.absf(operands[0]), lanes.number(1.0));
    let [is_steep, is_steepest] = TANGENTS.map(|bound| lanes.cmpf(CmpF::Ogt, size, lanes.number(bound)));
    let choose = |first: Value, steep: Value, steepest: Value| lanes.select(is_steepest, steepest, lanes.select(is_steep, steep, first));
    let top = choose(size, lanes.subf(size, one), lanes.number(-1.0));
    let bottom = choose(one, lanes.addf(size, one), size);
    let z = lanes.divf(top, bottom);
    let square = lanes.mulf(z, z);
    let parts = |factor: f64| choose(lanes.number(0.0), lanes.number(FRAC_PI_4 * factor), lanes.number(FRAC_PI_2 * factor));
    let rest = lanes.fma(lanes.mulf(z, square), lanes.polynomial(square, TANGENT), parts(FRAC_PI_2_REST / FRAC_PI_2));
    let value = lanes.addf(parts(1.0), lanes.addf(z, rest));
    (lanes.copysign(value, operands[0]), lanes.is_nan(operands[0]))
}

/// The parts of an arcsine. Beyond ½, half of the angle missing to a right angle.
struct Angle {
    is_steep: Value,
    z: Value,
    rest: Value,
}

impl Lanes {
    fn angle_of_sine(&self, x: Value) -> Angle {
        let size = self.absf(x);
        let is_steep = self.cmpf(CmpF::Ogt, size, self.number(0.5));
        let half = self.fma(size, self.number(-0.5), self.number(0.5));
        let square = self.select(is_steep, half, self.mulf(size, size));
        let z = self.select(is_steep, self.sqrt(half), size);
        Angle { is_steep, z, rest: self.mulf(self.mulf(z, square), self.polynomial(square, SINE)) }
    }
    /// A constant angle in two parts minus another angle in two parts.
    fn less(&self, [angle, more]: [f64; 2], first: Value, rest: Value) -> Value {
        self.addf(self.subf(self.number(angle), first), self.subf(self.number(more), rest))
    }
    /// The lanes whose value is not a sine.
    fn is_no_sine(&self, x: Value) -> Value {
        let is_one = self.cmpf(CmpF::Ole, self.absf(x), self.number(1.0));
        self.xori(is_one, self.int(is_one.ty(), 1))
    }
}

pub(super) fn asin(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let Angle { is_steep, z, rest } = lanes.angle_of_sine(operands[0]);
    let steep = lanes.less([FRAC_PI_2, FRAC_PI_2_REST], lanes.addf(z, z), lanes.addf(rest, rest));
    let value = lanes.select(is_steep, steep, lanes.addf(z, rest));
    (lanes.copysign(value, operands[0]), lanes.is_no_sine(operands[0]))
}

pub(super) fn acos(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let x = operands[0];
    let Angle { is_steep, z, rest } = lanes.angle_of_sine(x);
    let angle = lanes.addf(z, rest);
    let is_below = lanes.cmpf(CmpF::Olt, x, lanes.number(0.0));
    let beyond = lanes.less([PI, 2.0 * FRAC_PI_2_REST], lanes.addf(z, z), lanes.addf(rest, rest));
    let steep = lanes.select(is_below, beyond, lanes.addf(angle, angle));
    let flat = lanes.less([FRAC_PI_2, FRAC_PI_2_REST], lanes.copysign(z, x), lanes.copysign(rest, x));
    (lanes.select(is_steep, steep, flat), lanes.is_no_sine(x))
}
