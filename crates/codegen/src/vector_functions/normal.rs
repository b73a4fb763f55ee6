//! `erf` and `erfc` of `f64`: an odd polynomial near 0; beyond, the difference from 1, which is an exponential times a fraction, as in
//! Cody's functions.

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Lanes;

/// erf(√s)/√s - 1 on [0, 1], to 1e-19.
const ERF: &[f64] = &[
    5.960_380_544_241_622e-11,
    -1.137_477_954_590_139_2e-9,
    1.466_028_423_441_364_7e-8,
    -1.635_038_978_105_916e-7,
    1.646_100_788_743_700_1e-6,
    -1.492_559_573_652_290_4e-5,
    0.000_120_553_311_315_226_74,
    -0.000_854_832_698_138_773_7,
    0.005_223_977_624_827_801,
    -0.026_866_170_645_077_812,
    0.112_837_916_709_548_85,
    -0.376_126_389_031_837_5,
    0.128_379_167_095_512_6,
];
/// Numerator and denominator of exp(t²)·erfc(t) from 0.46 to 10.1, to 3e-17.
const SHORT: [&[f64]; 2] = [
    &[
        0.000_226_520_711_934_450_65,
        0.003_726_070_422_675_743_5,
        0.029_915_642_354_329_267,
        0.150_395_459_361_577_78,
        0.513_707_992_387_394_1,
        1.218_148_208_747_735_6,
        1.964_897_984_980_564,
        1.992_426_641_901_091_9,
        1.000_000_000_016_049_2,
    ],
    &[
        0.000_401_497_507_891_376_26,
        0.006_604_287_892_667_205,
        0.053_224_843_362_866_15,
        0.269_871_176_084_505_56,
        0.936_834_655_978_887_8,
        2.289_098_270_110_182_7,
        3.911_899_338_023_556_7,
        4.486_350_242_584_334,
        3.120_805_809_266_345,
        1.0,
    ],
];
/// The same from 0.45 to 27.4, to 2e-17.
const LONG: [&[f64]; 2] = [
    &[
        0.000_101_012_159_997_184_4,
        0.001_747_214_777_087_245_2,
        0.015_145_019_611_599_262,
        0.084_199_056_201_516_8,
        0.326_978_489_133_712_2,
        0.914_377_727_587_636_5,
        1.838_310_642_705_696,
        2.568_744_454_395_827,
        2.282_081_253_787_725_7,
        0.999_999_999_969_211_5,
    ],
    &[
        0.000_179_039_391_975_343_68,
        0.003_096_857_559_999_119,
        0.026_933_368_029_215_428,
        0.150_787_370_159_570_56,
        0.592_886_687_539_191_8,
        1.693_763_347_651_436_9,
        3.534_900_109_542_270_3,
        5.292_574_620_346_48,
        5.417_036_946_772_61,
        3.410_460_420_382_350_3,
        1.0,
    ],
];
/// The bound from which `erf` is computed by its tail, and the bound from which it is 1.
const NEAR: f64 = 1.0;
const FAR: f64 = 10.0;
/// The bounds from which `erfc` is computed by its tail, may be subnormal, and is 0.
const HALF: f64 = 0.5;
const SUBNORMAL: f64 = 26.5;
const GONE: f64 = 27.3;

impl Lanes {
    /// `erf` up to 1.
    fn erf_near(&self, x: Value) -> Value {
        self.fma(x, self.polynomial(self.mulf(x, x), ERF), x)
    }
    /// `erfc` of arguments from ½ on: an exponential, whose argument is in two parts, times a fraction.
    fn erfc_far(&self, t: Value, fraction: [&[f64]; 2]) -> Value {
        let square = self.mulf(t, t);
        let more = self.negf(self.fma(t, t, self.negf(square)));
        let [top, bottom] = fraction.map(|coefficients| self.polynomial(t, coefficients));
        self.exp_times(self.negf(square), Some(more), Some(self.divf(top, bottom)))
    }
}

pub(super) fn erf(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let x = operands[0];
    let t = lanes.absf(x);
    let far = lanes.subf(lanes.number(1.0), lanes.erfc_far(lanes.at_most(t, FAR), SHORT));
    let is_far = lanes.cmpf(CmpF::Ogt, t, lanes.number(NEAR));
    (lanes.select(is_far, lanes.copysign(far, x), lanes.erf_near(x)), lanes.is_nan(x))
}

pub(super) fn erfc(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let x = operands[0];
    let size = lanes.absf(x);
    let t = lanes.at_most(size, GONE);
    // Rounding a result to zero takes the processor as long as computing several others.
    let is_gone = lanes.cmpf(CmpF::Oeq, t, lanes.number(GONE));
    let tail = lanes.erfc_far(lanes.select(is_gone, lanes.number(NEAR), t), LONG);
    let tail = lanes.select(is_gone, lanes.number(0.0), tail);
    let is_below = lanes.cmpf(CmpF::Olt, x, lanes.number(0.0));
    let far = lanes.select(is_below, lanes.subf(lanes.number(2.0), tail), tail);
    let near = lanes.subf(lanes.number(1.0), lanes.erf_near(x));
    let value = lanes.select(lanes.cmpf(CmpF::Ogt, t, lanes.number(HALF)), far, near);
    let fails = if lanes.scales() { lanes.is_nan(x) } else { lanes.not_below(size, SUBNORMAL) };
    (value, fails)
}
