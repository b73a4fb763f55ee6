//! `dynamo-edge-math`: rewrites functions whose vector variants are wrong at the edges as formulas of others that are not.
//!
//! - `sinh` and `cosh`: the vector math library's variants are infinite before the result is.
//! - `asinh` and `acosh`: its variants square the argument, which overflows; and `asinh` loses subnormal numbers.
//! - `tan` on `f64`: its variant treats subnormal numbers as zeros.
//!
//! Before: `%1 = math.asinh %0 : f32`
//!
//! After: a formula with one `math.log1p` of `%0`, finite for every finite `%0`.
//!
//! The formulas are within a few units in the last place, as eager's own kernels are.

use dynamlir_dialect::{
    ir::{Builder, Op, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{arith::CmpF, math},
};
use std::{
    f64::consts::{E, LN_2},
    ops::Deref,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-edge-math",
    description: "Rewrite math functions whose vector variants are wrong for extreme arguments",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[REWRITTEN],
    run,
};

const REWRITTEN: Statistic = Statistic { name: "rewritten", description: "functions rewritten" };

#[expect(clippy::unnecessary_wraps, reason = "the signature of all passes")]
fn run(module: Op, pass: &Run) -> PassResult {
    pass.counts_all();
    let mut ops = Vec::new();
    module.walk(&mut |op| {
        if op.is_of(math::DIALECT) && op.num_operands() == 1 {
            ops.push(op);
        }
    });
    for op in ops {
        let Some(formula) = Formula::before(op) else { continue };
        let x = op.operand(0);
        let value = match op.name().as_str() {
            math::SINH => formula.sinh(x),
            math::COSH => formula.cosh(x),
            math::ASINH => formula.asinh(x),
            math::ACOSH => formula.acosh(x),
            math::TAN if formula.is_double => formula.tan(x),
            _ => continue,
        };
        op.result(0).replace_all_uses_with(value);
        op.erase();
        pass.count(&REWRITTEN, 1);
    }
    Ok(())
}

/// Builds arithmetic on one type: `f32`, `f64` or a vector of them.
struct Formula {
    builder: Builder,
    real: Type,
    is_double: bool,
}

impl Deref for Formula {
    type Target = Builder;
    fn deref(&self) -> &Builder {
        &self.builder
    }
}

impl Formula {
    fn before(op: Op) -> Option<Self> {
        let (ctx, real) = (op.ctx(), op.result(0).ty());
        let is_double = real.with_element(Type::f64(ctx)) == real;
        (!real.is_tensor() && (is_double || real.with_element(Type::f32(ctx)) == real)).then(|| Self {
            builder: Builder::before(op),
            real,
            is_double,
        })
    }
    fn number(&self, value: f64) -> Value {
        self.builder.float(self.real, value)
    }
    /// Selects `yes` if `x` is above a bound, else `no`; NaN is not above.
    fn above(&self, x: Value, bound: f64, yes: Value, no: Value) -> Value {
        let holds = self.cmpf(CmpF::Ogt, x, self.number(bound));
        self.select(holds, yes, no)
    }

    /// The limit above which the exponential is, or may be, infinite while half of it is not.
    fn limit(&self) -> f64 {
        if self.is_double { 709.0 } else { 88.0 }
    }
    /// `t` up to the limit and `t - 1` beyond: `exp(t) / 2 = exp(t - 1) · e/2`.
    fn lowered(&self, t: Value) -> Value {
        self.above(t, self.limit(), self.subf(t, self.number(1.0)), t)
    }
    fn raised(&self, t: Value, exponential: Value, near: Value) -> Value {
        self.above(t, self.limit(), self.mulf(exponential, self.number(E / 2.0)), near)
    }
    /// With `e = exp(t) - 1` and `q = e / (e + 1)`: `(e + q) / 2`. Near 0, where both terms of the sum carry the errors of `e`, it is `e -
    /// eq / 2`, whose second term is small.
    fn sinh(&self, x: Value) -> Value {
        let t = self.absf(x);
        let e = self.expm1(self.lowered(t));
        let quotient = self.divf(e, self.addf(e, self.number(1.0)));
        let sum = self.mulf(self.addf(e, quotient), self.number(0.5));
        let near = self.above(t, 0.5, sum, self.fma(self.mulf(e, self.number(-0.5)), quotient, e));
        self.copysign(self.raised(t, e, near), x)
    }
    /// With `e = exp(t)`: `e/2 + 1/2e`.
    fn cosh(&self, x: Value) -> Value {
        let t = self.absf(x);
        let e = self.exp(self.lowered(t));
        let half = self.number(0.5);
        self.raised(t, e, self.fma(e, half, self.divf(half, e)))
    }

    /// `ln(1 + near)`; `ln(2x)` if x is so large that the other terms are negligible and its square might overflow.
    fn area(&self, x: Value, near: Value) -> Value {
        let far = self.subf(x, self.number(1.0));
        let log = self.log1p(self.above(x, 1e9, far, near));
        self.addf(log, self.above(x, 1e9, self.number(LN_2), self.number(0.0)))
    }
    /// `ln(t + √(t² + 1))`, where the argument of the logarithm exceeds 1 by `t + t² / (1 + √(t² + 1))`.
    fn asinh(&self, x: Value) -> Value {
        let t = self.absf(x);
        let one = self.number(1.0);
        let root = self.sqrt(self.fma(t, t, one));
        let near = self.addf(t, self.divf(self.mulf(t, t), self.addf(root, one)));
        // Near 0 the result is the argument; `log1p` also loses subnormal numbers.
        let value = self.above(t, if self.is_double { 1e-8 } else { 1e-4 }, self.area(t, near), t);
        self.copysign(value, x)
    }
    /// `ln(x + √(x² - 1))`, where the argument of the logarithm exceeds 1 by `t + √(t² + 2t)` with `t = x - 1`: NaN below 1.
    fn acosh(&self, x: Value) -> Value {
        let t = self.subf(x, self.number(1.0));
        let root = self.sqrt(self.fma(t, t, self.addf(t, t)));
        // Below -1 the radicand is positive again, so the root alone would not give NaN.
        self.area(x, self.above(x, 0.5, self.addf(t, root), self.number(f64::NAN)))
    }

    /// Near 0 the tangent is its argument.
    fn tan(&self, x: Value) -> Value {
        let t = self.absf(x);
        self.above(t, 1e-8, self.builder.tan(x), x)
    }
}
