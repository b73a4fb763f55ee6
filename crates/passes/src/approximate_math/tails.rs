//! `tanh` and `erfc`, whose tails are exponentials.

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Arithmetic;

/// (tanh(√s)/√s - 1)/s on [0, 0.39], to 4e-9.
const TANGENT: &[f64] =
    &[-0.005_702_479_774_876_55, 0.020_636_902_623_566_99, -0.053_739_063_830_377_99, 0.133_314_346_093_100_14, -0.333_332_816_691_175_1];
/// exp(t²)·erfc(t) of (t - 3)/(t + 3), to 2e-9 for t up to 10.1.
const TAIL: &[f64] = &[
    5.586_862_329_584_372e-5,
    2.876_695_192_524_812_2e-5,
    -5.946_249_805_421_755e-4,
    7.157_805_356_199_311e-4,
    4.268_917_069_239_191e-3,
    -2.439_423_684_357_732_6e-2,
    7.166_585_639_348_252e-2,
    -1.501_157_817_774_086_7e-1,
    2.456_037_980_169_837_6e-1,
    -3.262_335_638_239_857e-1,
    1.790_011_512_617_397_4e-1,
];

impl Arithmetic {
    /// `1 - 2e / (1 + e)` with `e = exp(-2t)`, which is as accurate as the subtraction from 1; near 0 an odd polynomial.
    pub(super) fn tanh(&self, x: Value) -> Value {
        // From 9.1 on the result is 1.
        let (t, one) = (self.at_most(self.absf(x), 9.5), self.real(1.0));
        let e = self.exp_within(self.mulf(t, self.real(-2.0)));
        let far = self.subf(one, self.divf(self.addf(e, e), self.addf(one, e)));
        let square = self.mulf(t, t);
        let near = self.fma(self.mulf(t, square), self.polynomial(square, TANGENT), t);
        let is_far = self.cmpf(CmpF::Ogt, t, self.real(0.625));
        self.copysign(self.select(is_far, far, near), x)
    }

    /// `exp(-t²)` times a polynomial, with `t²` in two parts; up to ½ it is 1 minus `erf`.
    pub(super) fn erfc(&self, x: Value) -> Value {
        let (one, three) = (self.real(1.0), self.real(3.0));
        // From 10.1 on the result is 0.
        let t = self.at_most(self.absf(x), 10.1);
        let ratio = self.divf(self.subf(t, three), self.addf(t, three));
        let square = self.mulf(t, t);
        let lost = self.fma(t, t, self.negf(square));
        let tail = self.mulf(self.exp(self.negf(square)), self.polynomial(ratio, TAIL));
        let tail = self.fma(self.negf(lost), tail, tail);
        let is_below = self.cmpf(CmpF::Olt, x, self.real(0.0));
        let far = self.select(is_below, self.subf(self.real(2.0), tail), tail);
        let is_far = self.cmpf(CmpF::Ogt, t, self.real(0.5));
        self.select(is_far, far, self.subf(one, self.erf_near(x)))
    }
}
