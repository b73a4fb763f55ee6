//! Sums, products, quotients and powers, with broadcasting and promotion.

use dynamlir_dialect::ir::Value;

use super::{Keeps, Row, first};
use crate::{
    autodiff::{
        at::At,
        aten::{Arg, args},
    },
    emit::Scalar,
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.add.Tensor", |r| sum(r, [0, 1], 1.0)).keeping(Keeps::Nothing),
    first("aten.add.Scalar", same).keeping(Keeps::Nothing),
    first("aten.sub.Tensor", |r| sum(r, [0, 1], -1.0)).keeping(Keeps::Nothing),
    first("aten.sub.Scalar", same).keeping(Keeps::Nothing),
    first("aten.rsub.Tensor", |r| sum(r, [1, 0], -1.0)).keeping(Keeps::Nothing),
    first("aten.rsub.Scalar", rsub_number).keeping(Keeps::Nothing),
    first("aten.mul.Tensor", mul),
    first("aten.mul.Scalar", mul_number).keeping(Keeps::Nothing),
    first("aten.div.Tensor", div),
    first("aten.div.Scalar", div_number).keeping(Keeps::Nothing),
    first("aten.div.Tensor_mode", div_mode),
    first("aten.div.Scalar_mode", div_mode).keeping(Keeps::Nothing),
    first("aten.pow.Tensor_Scalar", pow_number),
    first("aten.pow.Tensor_Tensor", pow),
    first("aten.pow.Scalar", number_pow),
    first("aten.addcmul.default", addcmul).keeping(Keeps::For(&[1, 2])),
    first("aten.addcdiv.default", addcdiv),
    first("aten.lerp.Scalar", lerp).keeping(Keeps::Nothing),
];

/// `plus + sign · alpha · scaled`. `scaled` is `other`, but `self` for `rsub`.
fn sum(r: &mut At, [plus, scaled]: [usize; 2], sign: f64) -> Option<()> {
    let g = r.g()?;
    if r.needs(plus) {
        r.give_broadcast(plus, g)?;
    }
    if r.needs(scaled) {
        let alpha = r.c()?.scalar(2).unwrap_or(Scalar::Int(1));
        let signed = if sign < 0.0 { r.a.neg(g) } else { g };
        r.give_broadcast(scaled, r.a.scale(signed, alpha))?;
    }
    Some(())
}

fn same(r: &mut At) -> Option<()> {
    let g = r.g()?;
    r.give_broadcast(0, g)
}

fn rsub_number(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let alpha = r.c()?.scalar(2).unwrap_or(Scalar::Int(1));
    r.give_broadcast(0, r.a.scale(r.a.neg(g), alpha))
}

fn mul(r: &mut At) -> Option<()> {
    let g = r.g()?;
    for (of, other) in [(0, 1), (1, 0)] {
        if r.needs(of) {
            let product = match r.tensor(other) {
                Some(other) => r.a.mul(g, other),
                None => times(r, g, other)?,
            };
            r.give_broadcast(of, product)?;
        }
    }
    Some(())
}

fn mul_number(r: &mut At) -> Option<()> {
    let g = r.g()?;
    r.give_broadcast(0, times(r, g, 1)?)
}

/// `g` times argument `i`, a number or a size.
fn times(r: &At, g: Value, i: usize) -> Option<Value> {
    Some(match r.c()?.scalar(i) {
        Some(number) => r.a.scale(g, number),
        None => r.a.like("aten.mul.Scalar", args![g, r.c()?.size(i)?], g),
    })
}

/// `g / other` and `-g · ((self / other) / other)`.
fn div(r: &mut At) -> Option<()> {
    let (g, a) = (r.g()?, r.a);
    let Some(other) = r.tensor(1) else { return div_number(r) };
    if r.needs(0) {
        r.give_broadcast(0, a.div(g, other))?;
    }
    if r.needs(1) {
        // Recomputes the quotient instead of reading the result. Eager's node does not save the result, so in higher orders the gradient
        // does not depend on it.
        let quotient = a.div(a.like("aten.div.Tensor", args![r.tensor(0)?, other], r.out(0)), other);
        r.give_broadcast(1, a.mul(a.neg(g), quotient))?;
    }
    Some(())
}

fn div_number(r: &mut At) -> Option<()> {
    let g = r.g()?;
    let number = r.c()?.scalar(1).map(Arg::from).or_else(|| Some(Arg::from(r.c()?.size(1)?)))?;
    r.give_broadcast(0, r.a.like("aten.div.Scalar", args![g, number], g))
}

/// Rounded quotients have a gradient of zero.
fn div_mode(r: &mut At) -> Option<()> {
    if r.c()?.is_none(2) {
        return div(r);
    }
    for i in [0, 1] {
        if let Some(value) = r.tensor(i).filter(|value| r.wants(*value)) {
            r.give(i, r.a.zeros(value))?;
        }
    }
    Some(())
}

/// `g · (n · selfⁿ⁻¹)`; 0 for `n = 0`, even if `self` is 0.
fn pow_number(r: &mut At) -> Option<()> {
    let (g, x, a, n) = (r.g()?, r.tensor(0)?, r.a, r.c()?.scalar(1)?);
    if n.as_f64() == 0.0 {
        return r.give(0, a.zeros(x));
    }
    let less = match n {
        Scalar::Float(n) => Scalar::Float(n - 1.0),
        other => Scalar::Int(other.as_i64() - 1),
    };
    // Computed in the element type of the result, as eager promotes.
    let power = a.scalar("aten.pow.Tensor_Scalar", a.cast(x, g.ty().element()), less);
    r.give_broadcast(0, a.mul(g, a.scale(power, n)))
}

/// `g · (other · selfᵒᵗʰᵉʳ⁻¹)`, 0 where `other` is 0, and `g · (result · log self)`, 0 where `self` is 0 and `other` is not negative.
fn pow(r: &mut At) -> Option<()> {
    let (g, a) = (r.g()?, r.a);
    let (x, n) = (a.cast(r.tensor(0)?, g.ty().element()), a.cast(r.tensor(1)?, g.ty().element()));
    if r.needs(0) {
        let power = a.binary("aten.pow.Tensor_Tensor", x, a.scalar("aten.sub.Scalar", n, Scalar::Int(1)));
        let product = a.mul(g, a.mul(n, power));
        r.give_broadcast(0, a.zero_where(product, a.compare("aten.eq.Scalar", n, 0.0)))?;
    }
    if r.needs(1) {
        let product = a.mul(r.out(0), a.unary("aten.log.default", x));
        let (zero, positive) = (a.compare("aten.eq.Scalar", x, 0_i64), a.compare("aten.ge.Scalar", n, 0_i64));
        let flat = a.compare_with("aten.logical_and.default", zero, positive);
        r.give_broadcast(1, a.mul(g, a.zero_where(product, flat)))?;
    }
    Some(())
}

/// `g · (result · log base)`, 0 where the base is 0 and the exponent is not negative.
fn number_pow(r: &mut At) -> Option<()> {
    let (g, a, base, n) = (r.g()?, r.a, r.c()?.scalar(0)?.as_f64(), r.tensor(1)?);
    let product = a.scale(r.out(0), base.ln());
    let product = if base == 0.0 { a.zero_where(product, a.compare("aten.ge.Scalar", n, 0_i64)) } else { product };
    r.give_broadcast(1, a.mul(g, product))
}

/// `self + value · tensor1 · tensor2`.
fn addcmul(r: &mut At) -> Option<()> {
    let (g, a, value) = (r.g()?, r.a, r.c()?.scalar(3)?);
    if r.needs(0) {
        r.give_broadcast(0, g)?;
    }
    for (of, other) in [(1, 2), (2, 1)] {
        if r.needs(of) {
            let factor = a.scale(r.tensor(other)?, value);
            r.give_broadcast(of, a.mul(g, factor))?;
        }
    }
    Some(())
}

/// `self + value · tensor1 / tensor2`.
fn addcdiv(r: &mut At) -> Option<()> {
    let (g, a, value) = (r.g()?, r.a, r.c()?.scalar(3)?);
    if r.needs(0) {
        r.give_broadcast(0, g)?;
    }
    let divisor = r.tensor(2)?;
    if r.needs(1) {
        let reciprocal = a.unary("aten.reciprocal.default", divisor);
        r.give_broadcast(1, a.mul(g, a.scale(reciprocal, value)))?;
    }
    if r.needs(2) {
        let quotient = a.div(a.scale(r.tensor(1)?, value), a.mul(divisor, divisor));
        r.give_broadcast(2, a.mul(a.neg(g), quotient))?;
    }
    Some(())
}

/// `self + weight · (end - self)`.
fn lerp(r: &mut At) -> Option<()> {
    let (g, a, weight) = (r.g()?, r.a, r.c()?.scalar(2)?.as_f64());
    for (i, factor) in [(0, 1.0 - weight), (1, weight)] {
        if r.needs(i) {
            r.give_broadcast(i, a.like("aten.mul.Scalar", args![g, factor], g))?;
        }
    }
    Some(())
}
