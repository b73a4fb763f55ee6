//! Operators that select one of two values: the gradient goes to the selected one.
//!
//! `clamp` is not here: its gradient at the bounds depends on the version of torch, so torch's own formula is recorded (`vjp`).

use super::{Keeps, Row, first};
use crate::autodiff::at::At;

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.where.self", choose),
    first("aten.where.ScalarOther", choose),
    first("aten.where.ScalarSelf", choose),
    first("aten.masked_fill.Scalar", fill),
    first("aten.masked_fill.Tensor", fill),
    first("aten.maximum.default", |r| larger(r, "aten.lt.Tensor", "aten.gt.Tensor")),
    first("aten.minimum.default", |r| larger(r, "aten.gt.Tensor", "aten.lt.Tensor")),
    first("aten.tril.default", |r| triangle(r, "aten.tril.default")).keeping(Keeps::Nothing),
    first("aten.triu.default", |r| triangle(r, "aten.triu.default")).keeping(Keeps::Nothing),
];

fn choose(r: &mut At) -> Option<()> {
    let (g, condition, a) = (r.g()?, r.tensor(0)?, r.a);
    // The condition may be ui8, meaning nonzero; this is declined.
    if !condition.ty().element().is_bool() {
        return None;
    }
    if r.needs(1) {
        r.give_broadcast(1, a.zero_unless(g, condition))?;
    }
    if r.needs(2) {
        r.give_broadcast(2, a.zero_where(g, condition))?;
    }
    Some(())
}

fn fill(r: &mut At) -> Option<()> {
    let (g, mask, a) = (r.g()?, r.tensor(1)?, r.a);
    if r.needs(0) {
        r.give_broadcast(0, a.zero_where(g, mask))?;
    }
    if r.needs(2) {
        r.give_broadcast(2, a.zero_unless(g, mask))?;
    }
    Some(())
}

/// Equal operands get half of the gradient each.
fn larger(r: &mut At, loses: &str, wins: &str) -> Option<()> {
    let (g, x, y, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if x.ty().element() != y.ty().element() {
        return None;
    }
    let half = a.choose(a.compare_with("aten.eq.Tensor", x, y), a.scalar("aten.div.Scalar", g, 2_i64), g);
    for (i, zero) in [(0, loses), (1, wins)] {
        if r.needs(i) {
            r.give_broadcast(i, a.zero_where(half, a.compare_with(zero, x, y)))?;
        }
    }
    Some(())
}

fn triangle(r: &mut At, schema: &str) -> Option<()> {
    let (g, diagonal) = (r.g()?, r.c()?.arg(1)?);
    let gradient = r.a.like(schema, crate::autodiff::aten::args![g, diagonal], g);
    r.give(0, gradient)
}
