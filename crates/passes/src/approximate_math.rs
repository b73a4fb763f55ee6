//! `dynamo-approximate-math`: writes `exp` and `erf` on `f32`, or on vectors of it, out as arithmetic that can be
//! vectorized.
//!
//! Calls of vector math libraries spill every register round the call, and the library's `erf` costs several times what
//! torch's own vector code spends. Both functions become polynomials, within about one unit in the last place; subnormal
//! results, infinities and NaN are as they should be.
//!
//! `f64` and all other functions stay calls. Option `keep=1` leaves everything as it is.

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
    description: "Expand exp and erf on f32 into arithmetic",
    takes: Takes::Lowered,
    options: ApproximateMathOptions::DECLARED,
    statistics: &[EXPANDED],
    run,
};

const EXPANDED: Statistic = Statistic { name: "expanded", description: "functions written as arithmetic" };

pass_options! {
    /// Options of `dynamo-approximate-math`.
    pub struct ApproximateMathOptions {
        /// leave the functions as they are, to be compared with (false)
        keep: bool = false,
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    if !pass.options::<ApproximateMathOptions>()?.keep {
        pass.count(&EXPANDED, expand(module));
    }
    Ok(())
}

/// Expands the functions inside an operation; how many.
pub fn expand(module: Op) -> usize {
    let mut ops = Vec::new();
    module.walk(&mut |op| {
        if op.is(math::EXP) || op.is(math::ERF) {
            ops.push(op);
        }
    });
    ops.retain(|op| op.result(0).ty().element().is_f32() && !op.result(0).ty().is_tensor());
    let count = ops.len();
    for op in ops {
        let (arithmetic, x) = (Arithmetic::before(op), op.operand(0));
        let value = if op.is(math::EXP) { arithmetic.exp(x) } else { arithmetic.erf(x) };
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

/// Adding this to a number below 2^22 rounds it to an integer, which stands in the lowest bits of the sum with 126 added
/// to it: moved to where an `f32` has its exponent, these bits are `2^(n - 1)`.
const ROUNDING: f64 = 12_582_912.0 + 126.0;
/// Below this `exp` takes a detour, so that subnormal results are rounded once: it computes 2^65 times the result.
const SMALL: f64 = -80.0;

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
    /// No less than `low`; NaN stays.
    fn at_least(&self, x: Value, low: f64) -> Value {
        let low = self.real(low);
        self.select(self.cmpf(CmpF::Olt, x, low), low, x)
    }
    /// No more than `high`; NaN stays.
    fn at_most(&self, x: Value, high: f64) -> Value {
        let high = self.real(high);
        self.select(self.cmpf(CmpF::Ogt, x, high), high, x)
    }
    /// A polynomial, highest coefficient first: the fewest operations, one after the other.
    fn polynomial(&self, x: Value, coefficients: &[f64]) -> Value {
        let (first, rest) = coefficients.split_first().expect("a polynomial has a coefficient");
        rest.iter().fold(self.real(*first), |sum, &coefficient| self.fma(sum, x, self.real(coefficient)))
    }
    /// The same as a tree over the squares of `x`: for long polynomials, whose operations would wait for each other.
    fn tree(&self, x: Value, coefficients: &[f64]) -> Value {
        let mut terms: Vec<_> = coefficients.iter().rev().map(|&coefficient| self.real(coefficient)).collect();
        let mut power = x;
        while terms.len() > 1 {
            terms = terms.chunks(2).map(|pair| if let [a, b] = *pair { self.fma(b, power, a) } else { pair[0] }).collect();
            if terms.len() > 1 {
                power = self.mulf(power, power);
            }
        }
        terms[0]
    }

    /// `exp(x) = 2^n exp(r)` with `n = round(x / ln 2)` and `r = x - n ln 2`, `ln 2` in two parts.
    ///
    /// NaN goes through the polynomial. Beyond the bounds the result is 0 or infinity anyway.
    fn exp(&self, x: Value) -> Value {
        let bounded = self.at_most(self.at_least(x, -104.0), 89.0);
        let rounding = self.real(ROUNDING);
        let shifted = self.fma(bounded, self.real(std::f64::consts::LOG2_E), rounding);
        let n = self.subf(shifted, rounding);
        let r = self.fma(n, self.real(-0.693_359_375), bounded);
        let r = self.fma(n, self.real(2.121_944_400_546_905_8e-4), r);
        // Twice exp(r), times half of 2^n: 2^n itself is not a number where the result is just finite.
        let p = self.polynomial(r, &[2.763_659_460e-3, 1.673_590_951e-2, 8.333_645_016e-2, 3.333_304_524e-1, 9.999_998_808e-1, 2.0, 2.0]);
        let small = self.cmpf(CmpF::Olt, bounded, self.real(SMALL));
        let bits = self.bitcast(shifted, self.word);
        let bits = self.select(small, self.addi(bits, self.word(65)), bits);
        let y = self.mulf(p, self.bitcast(self.shli(bits, self.word(23)), self.real));
        self.select(small, self.mulf(y, self.real(2.0_f64.powi(-65))), y)
    }

    /// Up to 1 an odd polynomial, further out a polynomial in the distance from a place where `erf` is nearly an `f32`.
    fn erf(&self, x: Value) -> Value {
        let t = self.absf(x);
        // From 3.94 on the result is 1.
        let u = self.subf(self.at_most(t, 3.94), self.real(2.470_566_988));
        let far = self.tree(
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
        // The constant by itself: in the tree each level would round a number near 1.
        let far = self.fma(far, u, self.real(9.995_239_973e-1));
        let far = self.copysign(far, x);
        let p = self.tree(
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
        let near = self.fma(p, x, x);
        // NaN is not greater, and the polynomial hands it on.
        self.select(self.cmpf(CmpF::Ogt, t, self.real(1.0)), far, near)
    }
}
