//! Functions of one operand.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use dynamlir_dialect::ir::Value;

use super::{Keeps, Row, first};
use crate::{
    autodiff::aten::{Aten, args},
    emit::Scalar,
};

macro_rules! unary {
    // The formula computes the operand's gradient from the gradient `g`, the operand in the result's element type, and the result.
    ($schema:literal, |$a:ident, $g:ident, $x:ident, $y:ident| $formula:expr) => {
        first(concat!("aten.", $schema, ".default"), |r| {
            let g = r.g()?;
            let x = r.a.cast(r.tensor(0)?, g.ty().element());
            let formula = |$a: &Aten, $g: Value, $x: Value, $y: Value| $formula;
            r.give_broadcast(0, formula(&r.a, g, x, r.out(0)))
        })
    };
}

/// The rules of this file.
pub const TABLE: &[Row] = &[
    unary!("neg", |a, g, _x, _y| a.neg(g)).keeping(Keeps::Nothing),
    unary!("abs", |a, g, x, _y| a.mul(g, a.unary("aten.sgn.default", x))),
    unary!("exp", |a, g, _x, y| a.mul(g, y)),
    unary!("exp2", |a, g, _x, y| a.mul(g, a.scale(y, LN_2))),
    unary!("expm1", |a, g, _x, y| a.mul(g, plus(a, y, 1))),
    unary!("log", |a, g, x, _y| a.div(g, x)),
    unary!("log2", |a, g, x, _y| a.div(g, a.scale(x, LN_2))),
    unary!("log10", |a, g, x, _y| a.div(g, a.scale(x, LN_10))),
    unary!("log1p", |a, g, x, _y| a.div(g, plus(a, x, 1))),
    unary!("sqrt", |a, g, _x, y| a.div(g, a.scale(y, 2_i64))),
    unary!("rsqrt", |a, g, _x, y| a.mul(a.scale(g, -0.5), a.scalar("aten.pow.Tensor_Scalar", y, 3_i64))),
    unary!("reciprocal", |a, g, _x, y| a.mul(a.neg(g), a.mul(y, y))),
    unary!("sin", |a, g, x, _y| a.mul(g, a.unary("aten.cos.default", x))),
    unary!("cos", |a, g, x, _y| a.mul(g, a.neg(a.unary("aten.sin.default", x)))),
    unary!("tan", |a, g, _x, y| a.mul(g, plus(a, a.mul(y, y), 1))),
    unary!("asin", |a, g, x, _y| a.mul(g, rsqrt(a, one_minus_square(a, x)))),
    unary!("acos", |a, g, x, _y| a.mul(a.neg(g), rsqrt(a, one_minus_square(a, x)))),
    unary!("atan", |a, g, x, _y| a.div(g, plus(a, a.mul(x, x), 1))),
    unary!("sinh", |a, g, x, _y| a.mul(g, a.unary("aten.cosh.default", x))),
    unary!("cosh", |a, g, x, _y| a.mul(g, a.unary("aten.sinh.default", x))),
    unary!("asinh", |a, g, x, _y| a.mul(g, rsqrt(a, plus(a, a.mul(x, x), 1)))),
    unary!("acosh", |a, g, x, _y| a.mul(g, rsqrt(a, plus(a, a.mul(x, x), -1)))),
    unary!("atanh", |a, g, x, _y| a.div(g, one_minus_square(a, x))),
    unary!("erf", |a, g, x, _y| a.mul(a.scale(bell(a, x), FRAC_2_SQRT_PI), g)),
    unary!("erfc", |a, g, x, _y| a.mul(a.scale(bell(a, x), -FRAC_2_SQRT_PI), g)),
    unary!("lgamma", |a, g, x, _y| a.mul(g, a.unary("aten.digamma.default", x))),
    unary!("floor", |a, g, _x, _y| a.zeros(g)).keeping(Keeps::Nothing),
    unary!("ceil", |a, g, _x, _y| a.zeros(g)).keeping(Keeps::Nothing),
    unary!("round", |a, g, _x, _y| a.zeros(g)).keeping(Keeps::Nothing),
    unary!("trunc", |a, g, _x, _y| a.zeros(g)).keeping(Keeps::Nothing),
    unary!("sign", |a, g, _x, _y| a.zeros(g)).keeping(Keeps::Nothing),
    unary!("sgn", |a, g, _x, _y| a.zeros(g)),
];

/// `x + number`.
fn plus(a: &Aten, x: Value, number: i64) -> Value {
    a.like("aten.add.Scalar", args![x, number, 1_i64], x)
}

fn one_minus_square(a: &Aten, x: Value) -> Value {
    a.like("aten.rsub.Scalar", args![a.mul(x, x), Scalar::Int(1), 1_i64], x)
}

fn rsqrt(a: &Aten, x: Value) -> Value {
    a.unary("aten.rsqrt.default", x)
}

/// `exp(-x²)`.
fn bell(a: &Aten, x: Value) -> Value {
    a.unary("aten.exp.default", a.neg(a.scalar("aten.pow.Tensor_Scalar", x, 2_i64)))
}
