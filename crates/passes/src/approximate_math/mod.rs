//! `dynamo-approximate-math`: expands functions on `f32`, or on vectors of it, into arithmetic that can be vectorized.
//!
//! Calls of vector math libraries spill every register around the call, and SLEEF's functions take two to five times as long as those that
//! torch calls. `exp`, `exp2` and `erf` become polynomials, accurate to about one unit in the last place. `log`, `log2`, `log10`, `atan`,
//! `asin`, `acos`, `tanh` and `erfc` are composed of these and similar polynomials, accurate to two units, the tail of `erfc` to four.
//! Subnormal results, infinities and NaN are correct.
//!
//! `f64` and all other functions remain calls. Only square roots of whole 512-bit vectors become arithmetic in both types, with correct
//! rounding. Option `keep=1` leaves everything unchanged.

mod inverse;
mod logarithm;
mod roots;
mod tails;

use dynamlir_dialect::{
    ir::{Builder, Op, Type, Value},
    pass::{Options, Pass, PassResult, Run, Statistic, Takes},
    pass_options,
    upstream::{arith::CmpF, math},
};
use std::ops::Deref;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-approximate-math",
    description: "Expand math functions on f32 into arithmetic",
    takes: Takes::Lowered,
    options: ApproximateMathOptions::DECLARED,
    statistics: &[EXPANDED],
    run,
};

const EXPANDED: Statistic = Statistic { name: "expanded", description: "functions expanded into arithmetic" };

pass_options! {
    /// Options of `dynamo-approximate-math`.
    pub struct ApproximateMathOptions {
        /// keep the functions unchanged, for comparison (false)
        keep: bool = false,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    if !pass.options::<ApproximateMathOptions>()?.keep {
        pass.count(&EXPANDED, expand(module) + roots::expand(module));
    }
    Ok(())
}

/// Emits a function as arithmetic.
type Formula = fn(&Arithmetic, Value) -> Value;

/// The functions that are expanded into arithmetic.
const FUNCTIONS: &[(&str, Formula)] = &[
    (math::EXP, Arithmetic::exp),
    (math::EXP2, Arithmetic::exp2),
    (math::ERF, Arithmetic::erf),
    (math::LOG, Arithmetic::ln),
    (math::LOG2, Arithmetic::lb),
    (math::LOG10, Arithmetic::lg),
    (math::ATAN, Arithmetic::atan),
    (math::ASIN, Arithmetic::asin),
    (math::ACOS, Arithmetic::acos),
    (math::TANH, Arithmetic::tanh),
    (math::ERFC, Arithmetic::erfc),
];

/// Returns true if an operation on `f32` is expanded into arithmetic.
pub(crate) fn is_expanded(name: &str) -> bool {
    FUNCTIONS.iter().any(|(function, _)| *function == name)
}

/// Expands the functions inside an operation; returns their number.
pub fn expand(module: Op) -> usize {
    let mut found = Vec::new();
    module.walk(&mut |op| {
        let formula = FUNCTIONS.iter().find(|(name, _)| op.is(name)).map(|&(_, formula)| formula);
        found.extend(formula.map(|formula| (op, formula)));
    });
    found.retain(|(op, _)| op.result(0).ty().element().is_f32() && !op.result(0).ty().is_tensor());
    let count = found.len();
    for (op, formula) in found {
        let value = formula(&Arithmetic::before(op), op.operand(0));
        op.result(0).replace_all_uses_with(value);
        op.erase();
    }
    count
}

/// Short names for building arithmetic on `f32`, or on vectors of it.
struct Arithmetic {
    builder: Builder,
    real: Type,
    word: Type,
}

impl Deref for Arithmetic {
    type Target = Builder;
    fn deref(&self) -> &Builder {
        &self.builder
    }
}

/// Adding this to a number below 2^22 rounds it to an integer n, and the lowest bits of the sum are n + 126. Shifted to the position of an
/// `f32`'s exponent, these bits are `2^(n - 1)`.
const ROUNDING: f64 = 12_582_912.0 + 126.0;
/// Below this, `exp` computes 2^65 times the result and scales it down, so that subnormal results are rounded only once.
const SMALL: f64 = -80.0;
/// The same for `exp2`.
const SMALL_POWER: f64 = -120.0;

impl Arithmetic {
    fn before(op: Op) -> Self {
        let (ctx, real) = (op.ctx(), op.result(0).ty());
        Self { builder: Builder::before(op), real, word: real.with_element(Type::int(ctx, 32)) }
    }
    fn real(&self, value: f64) -> Value {
        self.float(self.real, value)
    }
    fn word(&self, value: i64) -> Value {
        self.int(self.word, value)
    }
    /// Raises `x` to at least `low`; NaN stays NaN.
    fn at_least(&self, x: Value, low: f64) -> Value {
        let low = self.real(low);
        self.select(self.cmpf(CmpF::Olt, x, low), low, x)
    }
    /// Lowers `x` to at most `high`; NaN stays NaN.
    fn at_most(&self, x: Value, high: f64) -> Value {
        let high = self.real(high);
        self.select(self.cmpf(CmpF::Ogt, x, high), high, x)
    }
    /// A polynomial, highest coefficient first, by Horner's scheme: it needs the fewest operations, each dependent on the one before.
    fn polynomial(&self, x: Value, coefficients: &[f64]) -> Value {
        let (first, rest) = coefficients.split_first().expect("a polynomial has a coefficient");
        rest.iter().fold(self.real(*first), |sum, &coefficient| self.fma(sum, x, self.real(coefficient)))
    }
    /// `exp(x) = 2^n exp(r)` with `n = round(x / ln 2)` and `r = x - n ln 2`, with `ln 2` in two parts.
    ///
    /// NaN propagates through the polynomial. Beyond the bounds the result is 0 or infinity anyway.
    fn exp(&self, x: Value) -> Value {
        let bounded = self.at_most(self.at_least(x, -104.0), 89.0);
        self.rounded_once(self.exp_in_parts(bounded), self.cmpf(CmpF::Olt, bounded, self.real(SMALL)))
    }
    /// `2^x = 2^n 2^r` with `n = round(x)` and `r = x - n`, which is exact. Powers with whole exponents are exact, too.
    fn exp2(&self, x: Value) -> Value {
        let bounded = self.at_most(self.at_least(x, -151.0), 129.0);
        let rounding = self.real(ROUNDING);
        let shifted = self.addf(bounded, rounding);
        let r = self.subf(bounded, self.subf(shifted, rounding));
        let p = self
            .polynomial(r, &[3.065_294_004e-4, 2.678_161_487e-3, 1.923_701_167e-2, 1.110_071_987e-1, 4.804_529_548e-1, 1.386_294_365, 2.0]);
        let bits = self.bitcast(shifted, self.word);
        self.rounded_once((p, bits), self.cmpf(CmpF::Olt, bounded, self.real(SMALL_POWER)))
    }
    /// Multiplies the parts from [`Self::exp_in_parts`]; if `small`, the product may be subnormal and is rounded once.
    fn rounded_once(&self, (p, bits): (Value, Value), small: Value) -> Value {
        let bits = self.select(small, self.addi(bits, self.word(65)), bits);
        let y = self.product(p, bits);
        self.select(small, self.mulf(y, self.real(2.0_f64.powi(-65))), y)
    }

    /// `exp(x)` for arguments between [`SMALL`] and 88.
    fn exp_within(&self, x: Value) -> Value {
        let (p, bits) = self.exp_in_parts(x);
        self.product(p, bits)
    }
    /// Returns 2·exp(r), and bits that end in the exponent of 2^(n - 1). 2^n itself would be infinite for the largest finite results.
    fn exp_in_parts(&self, x: Value) -> (Value, Value) {
        let rounding = self.real(ROUNDING);
        let shifted = self.fma(x, self.real(std::f64::consts::LOG2_E), rounding);
        let n = self.subf(shifted, rounding);
        let r = self.fma(n, self.real(-0.693_359_375), x);
        let r = self.fma(n, self.real(2.121_944_400_546_905_8e-4), r);
        let p = self.polynomial(r, &[2.763_659_460e-3, 1.673_590_951e-2, 8.333_645_016e-2, 3.333_304_524e-1, 9.999_998_808e-1, 2.0, 2.0]);
        (p, self.bitcast(shifted, self.word))
    }
    fn product(&self, p: Value, bits: Value) -> Value {
        self.mulf(p, self.bitcast(self.shli(bits, self.word(23)), self.real))
    }

    /// Up to 1 an odd polynomial; beyond, a polynomial in the distance from a point where `erf` is nearly an exact `f32`.
    fn erf(&self, x: Value) -> Value {
        let t = self.absf(x);
        // From 3.94 on the result is 1.
        let u = self.subf(self.at_most(t, 3.94), self.real(2.470_566_988));
        let far = self.polynomial(
            u,
            &[
                1.040_703_637e-6,
                2.246_618_465e-7,
                -1.693_670_856e-5,
                2.270_795_085e-5,
                7.757_147_250e-5,
                -2.919_208_491e-4,
                3.291_152_243e-4,
                4.887_353_862e-4,
                -2.903_005_108e-3,
                6.614_156_533e-3,
                -9.559_547_529e-3,
                9.420_985_356e-3,
                -6.229_417_864e-3,
                2.521_380_782e-3,
            ],
        );
        let far = self.fma(far, u, self.real(9.995_239_973e-1));
        let far = self.copysign(far, x);
        let near = self.erf_near(x);
        // NaN does not compare greater, so it takes `near`, which propagates it.
        self.select(self.cmpf(CmpF::Ogt, t, self.real(1.0)), far, near)
    }

    /// `erf` up to 1.
    fn erf_near(&self, x: Value) -> Value {
        let p = self.polynomial(
            self.mulf(x, x),
            &[
                7.806_903_886e-5,
                -7.997_853_099e-4,
                5.187_162_198e-3,
                -2.685_334_720e-2,
                1.128_357_872e-1,
                -3.761_262_596e-1,
                1.283_791_661e-1,
            ],
        );
        self.fma(p, x, x)
    }
}
