//! The gradients of losses, by the formulas of eager's kernels.
//!
//! Torch's decompositions of some of them give other numbers in edge cases: they give a NaN target no gradient, and they multiply the
//! gradients of elements that are not a row's target by zero.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Dimension, product};

use super::{Call, Lowering, promote::Domain};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.huber_loss_backward.default", |c| {
        bent(c, |d, g, x, delta| {
            let line = d.e.mul(g, delta);
            [d.e.mul(g, x), line]
        })
    }),
    ("aten.nll_loss2d_backward.default", nll),
    ("aten.nll_loss_backward.default", nll),
    ("aten.smooth_l1_loss_backward.default", |c| bent(c, |d, g, x, beta| [d.e.div(d.e.mul(g, x), beta), g])),
    ("aten.soft_margin_loss_backward.default", soft_margin),
];

/// Returns 1 divided by the number of elements if argument `i` selects the mean as the reduction, else 1.
fn share(d: &Domain, c: &Call, i: usize) -> Option<Value> {
    if c.int(i)? != 1 {
        return Some(d.full(1.0));
    }
    let count = product(&d.shape).ok()?;
    let double = Type::f64(d.e.ctx());
    let one = d.e.scalar(double, 1.0);
    let share = d.e.convert(d.e.div(one, d.e.size_like(one, &count)), d.compute);
    Some(d.e.broadcast_to(share, &d.shape))
}

/// The gradient of a loss that is a parabola up to a distance and two lines beyond it. From the tangent, the difference and the distance,
/// `slopes` computes the gradients on the parabola and on the upper line.
fn bent(c: &Call, slopes: fn(&Domain, Value, Value, Value) -> [Value; 2]) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(c, &[0, 1, 2])?;
    let (g, x, y, bend) = (d.get(0)?, d.get(1)?, d.get(2)?, d.full(c.float(4)?));
    let x = d.e.sub(x, y);
    let [inner, line] = slopes(&d, d.e.mul(share(&d, c, 3)?, g), x, bend);
    // NaN counts as lying on the parabola.
    let above = d.e.select(d.e.ge(x, bend), line, inner);
    d.done(d.e.select(d.e.le(x, d.e.neg(bend)), d.e.neg(line), above))
}

/// `-target · z / (1 + z) · g`, where `z = exp(-target · input)`.
fn soft_margin(c: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(c, &[0, 1, 2])?;
    let (g, x, y) = (d.get(0)?, d.get(1)?, d.get(2)?);
    let z = d.e.exp(d.e.mul(d.e.neg(y), x));
    let above = d.e.mul(d.e.mul(y, z), d.e.neg(share(&d, c, 3)?));
    d.done(d.e.mul(d.e.div(above, d.e.add(z, d.full(1.0))), g))
}

/// `(g, self, target, weight, reduction, ignore_index, total_weight)`: the element at each row's target gets the gradient times its weight;
/// the others get zero.
fn nll(c: &Call) -> Option<Vec<Value>> {
    let d = Domain::only_float_of(c, &[0, 1])?;
    let (target, ignored) = (c.tensor(2)?, c.int(5)?);
    let channels = usize::from(d.shape.len() > 1);
    let rows: Vec<Dim> = d.shape.iter().enumerate().filter(|&(dim, _)| dim != channels).map(|(_, size)| size.clone()).collect();
    let along: Vec<i64> = (0..d.shape.len() as i64).filter(|&dim| dim != channels as i64).collect();
    // The target of a single row may have a dimension of size 1.
    let of_rows = |x: Value| {
        let sizes = x.ty().dims();
        let same = sizes == rows || (rows.is_empty() && sizes.len() == 1 && sizes[0].is(1));
        same.then(|| d.e.broadcast(d.e.reshape(x, &rows), &d.shape, &along))
    };
    let g = c.tensor(0)?;
    let (mean, each) = (c.int(4)? == 1, c.int(4)? == 0);
    let tangent = d.e.neg(if each { of_rows(d.e.convert(g, d.compute))? } else { d.get(0)? });
    let tangent = if mean { d.stored(d.e.div(tangent, d.tensor(c.tensor(6)?))) } else { tangent };
    let weighed = match c.tensor(3) {
        Some(weight) => d.e.mul(tangent, d.e.broadcast(d.e.convert(weight, d.compute), &d.shape, &[channels as i64])),
        None => tangent,
    };
    let target = of_rows(d.e.convert(target, Type::int(d.e.ctx(), 64)))?;
    let is_target = d.e.and(d.e.eq(d.e.iota(&d.shape, channels), target), d.e.ne(target, d.e.full_like(target, ignored)));
    d.done(d.e.select(is_target, weighed, d.full(0.0)))
}
