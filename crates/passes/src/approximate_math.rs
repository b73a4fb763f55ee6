//! `dynamo-approximate-math`: writes `exp` and `erf` on `f32` out as arithmetic that the vectorizer can work with.
//!
//! Calls of vector math libraries spill every register round the call, and the library's `erf` costs several times what
//! torch's own vector code spends. Both functions become polynomials after a range reduction, within about one unit in
//! the last place; subnormal results, infinities and NaN are as they should be.
//!
//! `f64` and all other functions stay calls. Option `keep=1` leaves everything as it is.

use dynamlir_dialect::{
    ir::{Attr, Builder, Op, Type, Value},
    pass::{Config, Pass, PassResult},
};

/// The pass.
pub const PASS: Pass = Pass { name: "dynamo-approximate-math", description: "Expand exp and erf on f32 into arithmetic", run };

#[expect(clippy::unnecessary_wraps, reason = "the signature of all passes")]
fn run(module: Op, config: &Config) -> PassResult {
    if config.number("keep") == Some(1) {
        return Ok(());
    }
    let mut ops = Vec::new();
    module.walk(&mut |op| {
        if op.is("math.exp") || op.is("math.erf") {
            ops.push(op);
        }
    });
    for op in ops {
        let arithmetic = Arithmetic::before(op);
        if op.result(0).ty() != arithmetic.real {
            continue;
        }
        let x = op.operand(0);
        let value = if op.is("math.exp") { arithmetic.exp(x) } else { arithmetic.erf(x) };
        op.result(0).replace_all_uses_with(value);
        op.erase();
    }
    Ok(())
}

/// Short names for building `f32` arithmetic.
struct Arithmetic {
    builder: Builder,
    real: Type,
    word: Type,
}

/// `arith.cmpf` predicates.
const OGT: i64 = 2;
const OLT: i64 = 4;
const UNO: i64 = 14;

impl Arithmetic {
    fn before(op: Op) -> Self {
        Self { builder: Builder::before(op), real: Type::f32(op.ctx()), word: Type::int(op.ctx(), 32) }
    }
    fn real(&self, value: f64) -> Value {
        self.builder.value("arith.constant", &[], self.real, &[("value", Attr::float_of(self.real, value))])
    }
    fn word(&self, value: i64) -> Value {
        self.builder.value("arith.constant", &[], self.word, &[("value", Attr::int_of(self.word, value))])
    }
    fn op(&self, name: &str, operands: &[Value]) -> Value {
        self.builder.value(name, operands, self.real, &[])
    }
    fn mul(&self, a: Value, b: Value) -> Value {
        self.op("arith.mulf", &[a, b])
    }
    /// `a * b + c`, rounded once.
    fn fma(&self, a: Value, b: Value, c: Value) -> Value {
        self.op("math.fma", &[a, b, c])
    }
    fn integer(&self, name: &str, a: Value, b: Value) -> Value {
        self.builder.value(name, &[a, b], self.word, &[])
    }
    /// `a` if the comparison holds, else `b`.
    fn select(&self, predicate: i64, left: Value, right: Value, a: Value, b: Value) -> Value {
        let ctx = self.builder.ctx();
        let kind = [("predicate", Attr::i64(ctx, predicate))];
        let holds = self.builder.value("arith.cmpf", &[left, right], Type::int(ctx, 1), &kind);
        self.op("arith.select", &[holds, a, b])
    }
    /// A polynomial, highest coefficient first.
    fn polynomial(&self, x: Value, coefficients: &[f64]) -> Value {
        let (first, rest) = coefficients.split_first().expect("a polynomial has a coefficient");
        rest.iter().fold(self.real(*first), |sum, &coefficient| self.fma(sum, x, self.real(coefficient)))
    }
    /// `2^n` for an integer from -126 to 127.
    fn power_of_two(&self, n: Value) -> Value {
        let exponent = self.integer("arith.addi", n, self.word(127));
        self.op("arith.bitcast", &[self.integer("arith.shli", exponent, self.word(23))])
    }

    /// `exp(x) = 2^n exp(r)` with `n = round(x / ln 2)` and `r = x - n ln 2`, `ln 2` in two parts.
    fn exp(&self, x: Value) -> Value {
        // Beyond these bounds the result is 0 or infinity anyway; NaN fails both comparisons and is put back last.
        let (low, high) = (self.real(-105.0), self.real(89.0));
        let bounded = self.select(OGT, x, low, x, low);
        let bounded = self.select(OLT, bounded, high, bounded, high);
        let n = self.op("math.roundeven", &[self.mul(bounded, self.real(std::f64::consts::LOG2_E))]);
        let r = self.fma(n, self.real(-0.693_359_375), bounded);
        let r = self.fma(n, self.real(2.121_944_400_546_905_8e-4), r);
        let p = self.polynomial(
            r,
            &[1.987_569_15e-4, 1.398_199_950_7e-3, 8.333_451_907_3e-3, 4.166_579_589_4e-2, 1.666_666_545_9e-1, 5.000_000_120_1e-1],
        );
        let y = self.fma(p, self.mul(r, r), r);
        let y = self.op("arith.addf", &[y, self.real(1.0)]);
        // Two factors: 2^n itself leaves the range of normal numbers where the result is subnormal or just finite.
        let n = self.builder.value("arith.fptosi", &[n], self.word, &[]);
        let half = self.integer("arith.shrsi", n, self.word(1));
        let rest = self.integer("arith.subi", n, half);
        let y = self.mul(self.mul(y, self.power_of_two(half)), self.power_of_two(rest));
        self.select(UNO, x, x, x, y)
    }

    /// Near zero an odd polynomial; further out `sign(x) (1 - exp(q(|x|)))`, with `q` fitted to `ln(1 - erf)`.
    fn erf(&self, x: Value) -> Value {
        let t = self.op("math.absf", &[x]);
        let square = self.mul(x, x);

        let upper = self.polynomial(t, &[-1.728_534_7e-5, 3.831_971_26e-4]);
        let lower = self.polynomial(t, &[-3.883_964_38e-3, 2.425_462_19e-2]);
        let q = [-1.067_778_77e-1, -6.348_466_87e-1, -1.287_175_12e-1]
            .into_iter()
            .fold(self.fma(upper, square, lower), |sum, coefficient| self.fma(sum, t, self.real(coefficient)));
        let q = self.fma(q, t, self.op("arith.negf", &[t]));
        let far = self.op("arith.subf", &[self.real(1.0), self.exp(q)]);
        let far = self.op("math.copysign", &[far, x]);

        let p = self
            .polynomial(square, &[-5.967_617_03e-4, 4.991_194_23e-3, -2.676_813_49e-2, 1.128_199_25e-1, -3.761_253_36e-1, 1.283_791_66e-1]);
        let near = self.fma(p, x, x);
        // NaN is not greater, and the polynomial hands it on.
        self.select(OGT, t, self.real(0.927_734_375), far, near)
    }
}
