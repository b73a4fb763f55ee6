//! Reductions: the gradient is distributed to all reduced elements, according to their contributions.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Relation, product};

use super::{Keeps, Row, all, first};
use crate::{
    autodiff::{
        at::At,
        aten::{Arg, Aten, args, reduced},
    },
    decompose::Call,
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.sum.default", |r| sum(r, None)).keeping(Keeps::Nothing),
    first("aten.sum.dim_IntList", |r| sum(r, Some(1))).keeping(Keeps::Nothing),
    first("aten.mean.default", |r| mean(r, None)).keeping(Keeps::Nothing),
    first("aten.mean.dim", |r| mean(r, Some(1))).keeping(Keeps::Nothing),
    first("aten.var.correction", variance),
    first("aten.std.correction", deviation),
    all("aten.var_mean.correction", variance_and_mean),
    first("aten.amax.default", extremum),
    first("aten.amin.default", extremum),
    first("aten.max.default", one_of_all),
    first("aten.min.default", one_of_all),
    first("aten.median.default", one_of_all),
    first("aten.nanmedian.default", one_of_all),
    first("aten.max.dim", selected),
    first("aten.min.dim", selected),
    first("aten.cumsum.default", cumsum).keeping(Keeps::Nothing),
    first("aten.logsumexp.default", logsumexp),
    first("aten.linalg_vector_norm.default", norm),
];

/// Returns the dimensions of `x` along which a call reduces.
fn dims(c: &Call, at: Option<usize>, x: Value) -> Option<Vec<i64>> {
    let rank = x.ty().rank();
    at.map_or_else(|| Some((0..rank as i64).collect()), |i| c.dims(i, rank))
}

/// Broadcasts a reduced value back to the shape of `x`.
fn spread(a: &Aten, reduced: Value, x: Value, dims: &[i64]) -> Value {
    a.e.broadcast_to(kept(a, reduced, x, dims), &x.ty().dims())
}

/// Reshapes a reduced value so that each reduced dimension has size 1.
fn kept(a: &Aten, value: Value, x: Value, dims: &[i64]) -> Value {
    a.e.reshape(value, &reduced(&x.ty().dims(), dims, true))
}

fn sum(r: &mut At, at: Option<usize>) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let dims = dims(r.c()?, at, x)?;
    r.give(0, spread(&r.a, r.a.cast(g, x.ty().element()), x, &dims))
}

fn mean(r: &mut At, at: Option<usize>) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let dims = dims(r.c()?, at, x)?;
    let share = share(&r.a, g, count(x, &dims)?);
    r.give(0, spread(&r.a, r.a.cast(share, x.ty().element()), x, &dims))
}

/// Returns the number of elements that are reduced to one.
fn count(x: Value, dims: &[i64]) -> Option<Dim> {
    let sizes = x.ty().dims();
    product(&dims.iter().map(|&d| sizes[d as usize].clone()).collect::<Vec<_>>()).ok()
}

/// Divides the gradient of a mean among its `count` elements.
fn share(a: &Aten, g: Value, count: Dim) -> Value {
    a.like("aten.div.Scalar", args![g, count], g)
}

/// `2 / (n - correction) · g · (self - mean)`; None without degrees of freedom.
fn variance_gradient(r: &At, g: Value) -> Option<Value> {
    let (x, a) = (r.tensor(0)?, r.a);
    let dims = dims(r.c()?, Some(1), x)?;
    let correction = if r.c()?.is_none(2) { 1.0 } else { r.c()?.float(2)? };
    let shape = reduced(&x.ty().dims(), &dims, true);
    let mean = a.one("aten.mean.dim", args![x, dims.clone(), true, Arg::None], Type::tensor_of(&shape, x.ty().element()));
    let scaled = by_freedom(&a, kept(&a, g, x, &dims), &count(x, &dims)?, correction)?;
    Some(a.mul(a.sub(x, mean), scaled))
}

/// `2 / (n - correction) · g`; None without degrees of freedom, or if their existence is unknown.
fn by_freedom(a: &Aten, g: Value, count: &Dim, correction: f64) -> Option<Value> {
    if let Some(count) = count.known() {
        let freedom = count as f64 - correction;
        return (freedom > 0.0).then(|| a.scale(g, 2.0 / freedom));
    }
    if !a.surely(count, Relation::Gt, correction.floor() as i64) {
        return None;
    }
    // Computed in doubles, and rounded as eager rounds a number.
    let (e, double) = (a.e, Type::tensor(&[], Type::f64(a.e.ctx())));
    let freedom = e.sub(e.size(count, double), e.full::<i64>(&[], double.element(), correction));
    let factor = e.div(e.full::<i64>(&[], double.element(), 2.0), freedom);
    // A 0-d factor does not widen the product, so it need not be rounded to 16 bits.
    let element = if g.ty().element().width() == 16 { Type::f32(e.ctx()) } else { g.ty().element() };
    let factor = e.convert(factor, element);
    Some(a.mul(g, factor))
}

fn variance(r: &mut At) -> Option<()> {
    let gradient = variance_gradient(r, r.g()?)?;
    r.give(0, gradient)
}

/// Applies the gradient of the variance to `g / (2 · result)`, or 0 where the result is 0.
fn deviation(r: &mut At) -> Option<()> {
    let (g, y, a) = (r.g()?, r.out(0), r.a);
    let quotient = a.div(g, a.scale(y, 2_i64));
    let gradient = variance_gradient(r, a.zero_where(quotient, a.compare("aten.eq.Scalar", y, 0_i64)))?;
    r.give(0, gradient)
}

fn variance_and_mean(r: &mut At) -> Option<()> {
    if let Some(g) = r.gradient(0) {
        let gradient = variance_gradient(r, g)?;
        r.give(0, gradient)?;
    }
    if let Some(g) = r.gradient(1) {
        let x = r.tensor(0)?;
        let dims = dims(r.c()?, Some(1), x)?;
        let share = share(&r.a, g, count(x, &dims)?);
        r.give(0, spread(&r.a, share, x, &dims))?;
    }
    Some(())
}

/// Elements equal to the result share the gradient evenly. The others are multiplied by zero, as in eager.
fn extremum(r: &mut At) -> Option<()> {
    let (g, x, a) = (r.g()?, r.tensor(0)?, r.a);
    let dims = dims(r.c()?, Some(1), x)?;
    let is_one = a.compare_with("aten.eq.Tensor", x, kept(&a, r.out(0), x, &dims));
    let is_one = a.cast(is_one, x.ty().element());
    let share = a.div(kept(&a, g, x, &dims), a.sum(is_one, &dims, true));
    r.give(0, a.mul(is_one, share))
}

/// The same over all elements, except that the others are set to zero, and that NaNs count as equal to a NaN result.
fn one_of_all(r: &mut At) -> Option<()> {
    let (g, x, a) = (r.g()?, r.tensor(0)?, r.a);
    let dims = dims(r.c()?, None, x)?;
    let result = spread(&a, r.out(0), x, &dims);
    let both_nan = a.compare_with(
        "aten.logical_and.default",
        a.compare_with("aten.ne.Tensor", x, x),
        a.compare_with("aten.ne.Tensor", result, result),
    );
    let is_one = a.compare_with("aten.logical_or.default", a.compare_with("aten.eq.Tensor", x, result), both_nan);
    let count = a.sum(a.cast(is_one, x.ty().element()), &dims, true);
    let share = a.div(kept(&a, g, x, &dims), count);
    r.give(0, a.zero_unless(a.e.broadcast_to(share, &x.ty().dims()), is_one))
}

/// The gradient goes to the element whose index is the second result.
fn selected(r: &mut At) -> Option<()> {
    let (g, x, e) = (r.g()?, r.tensor(0)?, r.a.e);
    let shape = x.ty().dims();
    if shape.is_empty() {
        return r.give(0, g);
    }
    let dim = r.c()?.dim(1, shape.len())?;
    let (g, index) = (spread(&r.a, g, x, &[dim]), spread(&r.a, r.out(1), x, &[dim]));
    let is_one = e.eq(e.iota(&shape, usize::try_from(dim).ok()?), index);
    r.give(0, e.select(is_one, g, r.a.zeros(x)))
}

/// Each element is part of all sums from its own position on.
fn cumsum(r: &mut At) -> Option<()> {
    let (g, x, a) = (r.g()?, r.tensor(0)?, r.a);
    let g = a.cast(g, x.ty().element());
    if g.ty().rank() == 0 {
        return r.give(0, g);
    }
    let dims = [r.c()?.dim(1, g.ty().rank())?];
    let sums = a.one("aten.cumsum.default", args![a.e.reverse(g, &dims), dims[0], Arg::None], g.ty());
    r.give(0, a.e.reverse(sums, &dims))
}

/// `g · exp(self - result)`.
fn logsumexp(r: &mut At) -> Option<()> {
    let (g, x, a) = (r.g()?, r.tensor(0)?, r.a);
    let dims = dims(r.c()?, Some(1), x)?;
    let difference = a.sub(x, kept(&a, r.out(0), x, &dims));
    r.give(0, a.mul(a.unary("aten.exp.default", difference), kept(&a, g, x, &dims)))
}

/// For order 2 only: `g · (self / result)`, 0 where the result is 0.
fn norm(r: &mut At) -> Option<()> {
    let (g, x, a) = (r.g()?, r.tensor(0)?, r.a);
    if r.c()?.float(1)? != 2.0 || x.ty().element() != g.ty().element() {
        return None;
    }
    let dims = dims(r.c()?, Some(2), x)?;
    let (g, y) = (kept(&a, g, x, &dims), kept(&a, r.out(0), x, &dims));
    let direction = a.zero_where(a.div(x, y), a.compare("aten.eq.Scalar", y, 0_i64));
    r.give(0, a.mul(direction, g))
}
