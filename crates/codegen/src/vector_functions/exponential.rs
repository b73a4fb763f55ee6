//! `exp` and `erf` of `f64`.
//!
//! An argument is a whole number of ln 2 and a rest of at most half of that, as by Cody and Waite; the exponential of the rest less one is a
//! polynomial, so that small results keep all of their digits.
//!
//! `erf` is an odd polynomial up to 1, and what is missing from 1 beyond; that is an exponential times a fraction, as in Cody's functions.

use std::f64::consts::{LN_2, LOG2_E};

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Lanes;

/// ln 2 less the `f64` next to it.
const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;
/// Adding this to a number rounds it to an integer, which then stands in the lowest bits of the sum.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// Where an `f64` has its exponent.
const EXPONENT: i64 = 52;
/// From here on results are subnormal, or infinite.
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
const TAIL: [&[f64]; 2] = [
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
/// Where the tail begins, and from where on `erf` is 1.
const NEAR: f64 = 1.0;
const FAR: f64 = 10.0;

impl Lanes {
    /// exp(r) - 1, and bits that, added to those of a number, multiply it by 2^n; of the argument and a small rest of it.
    fn exp_in_parts(&self, x: Value, more: Option<Value>) -> (Value, Value) {
        let rounding = self.number(ROUNDING);
        let sum = self.fma(x, self.number(LOG2_E), rounding);
        let n = self.subf(sum, rounding);
        let r = self.fma(n, self.number(-LN_2_REST), self.fma(n, self.number(-LN_2), x));
        let r = more.map_or(r, |more| self.addf(r, more));
        let rest = self.fma(self.mulf(r, r), self.polynomial(r, SERIES), r);
        (rest, self.shli(self.bitcast(sum, self.word()), self.bits(EXPONENT)))
    }
    /// The exponential, where that is neither subnormal nor infinite.
    fn exp(&self, x: Value, more: Option<Value>) -> Value {
        let (rest, exponent) = self.exp_in_parts(x, more);
        let mantissa = self.addf(rest, self.number(1.0));
        self.bitcast(self.addi(self.bitcast(mantissa, self.word()), exponent), self.real)
    }
    /// No more than this; NaN stays.
    fn at_most(&self, x: Value, most: f64) -> Value {
        let most = self.number(most);
        self.select(self.cmpf(CmpF::Ogt, x, most), most, x)
    }
    /// `erf` up to 1.
    fn erf_near(&self, x: Value) -> Value {
        self.fma(x, self.polynomial(self.mulf(x, x), ERF), x)
    }
    /// `erfc` from ½ to [`FAR`], to five units in the last place.
    fn erfc_far(&self, t: Value) -> Value {
        let square = self.mulf(t, t);
        let more = self.negf(self.fma(t, t, self.negf(square)));
        let [top, bottom] = TAIL.map(|coefficients| self.polynomial(t, coefficients));
        self.divf(self.mulf(self.exp(self.negf(square), Some(more)), top), bottom)
    }
}

pub(super) fn exp(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    (lanes.exp(operands[0], None), lanes.not_below(lanes.absf(operands[0]), BOUND))
}

pub(super) fn erf(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    let x = operands[0];
    let t = lanes.absf(x);
    let far = lanes.subf(lanes.number(1.0), lanes.erfc_far(lanes.at_most(t, FAR)));
    let is_far = lanes.cmpf(CmpF::Ogt, t, lanes.number(NEAR));
    (lanes.select(is_far, lanes.copysign(far, x), lanes.erf_near(x)), lanes.is_nan(x))
}
