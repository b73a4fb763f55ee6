//! Products of matrices. Their gradients are products, in the order that results in the operand's layout.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::{Dim, Dimension, product};

use super::{Keeps, Row, first};
use crate::{
    autodiff::{
        at::At,
        aten::{Aten, args},
    },
    emit::Scalar,
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.mm.default", |r| mm(r, [0, 1], Scalar::Int(1))),
    first("aten.addmm.default", addmm).keeping(Keeps::For(&[1, 2])),
    first("aten.bmm.default", |r| bmm(r, [0, 1], Scalar::Int(1))),
    first("aten.baddbmm.default", baddbmm).keeping(Keeps::For(&[1, 2])),
    first("aten.linear.default", linear).keeping(Keeps::For(&[0, 1])),
    first("aten.mv.default", mv),
    first("aten.dot.default", dot),
    first("aten._scaled_dot_product_flash_attention_for_cpu.default", attention),
];

fn mm(r: &mut At, [left, right]: [usize; 2], alpha: Scalar) -> Option<()> {
    let (g, a) = (r.g()?, r.a);
    let (x, y) = (r.tensor(left)?, r.tensor(right)?);
    if x.ty().element() != g.ty().element() {
        return None;
    }
    if r.needs(left) {
        let gradient = if is_column_major(&a, x) { t(&a, a.mm(y, t(&a, g))) } else { a.mm(g, t(&a, y)) };
        r.give(left, a.scale(gradient, alpha))?;
    }
    if r.needs(right) {
        let gradient = if is_column_major(&a, y) { t(&a, a.mm(t(&a, g), x)) } else { a.mm(t(&a, x), g) };
        r.give(right, a.scale(gradient, alpha))?;
    }
    Some(())
}

fn t(a: &Aten, x: Value) -> Value {
    a.transpose(x, 0, 1)
}

/// Returns true if columns are adjacent in memory: the gradient should have the same layout.
fn is_column_major(a: &Aten, x: Value) -> bool {
    a.layout(x) == [Dim::from(1), x.ty().dims().swap_remove(0)]
}

fn addmm(r: &mut At) -> Option<()> {
    let g = r.g()?;
    if r.needs(0) {
        r.give_broadcast(0, r.a.scale(g, r.c()?.scalar(3)?))?;
    }
    mm(r, [1, 2], r.c()?.scalar(4)?)
}

fn bmm(r: &mut At, [left, right]: [usize; 2], alpha: Scalar) -> Option<()> {
    let (g, a) = (r.g()?, r.a);
    let (x, y) = (r.tensor(left)?, r.tensor(right)?);
    if x.ty().element() != g.ty().element() {
        return None;
    }
    if r.needs(left) {
        r.give(left, a.scale(a.bmm(g, a.transpose(y, 1, 2)), alpha))?;
    }
    if r.needs(right) {
        r.give(right, a.scale(a.bmm(a.transpose(x, 1, 2), g), alpha))?;
    }
    Some(())
}

fn baddbmm(r: &mut At) -> Option<()> {
    let g = r.g()?;
    if r.needs(0) {
        r.give_broadcast(0, r.a.scale(g, r.c()?.scalar(3)?))?;
    }
    bmm(r, [1, 2], r.c()?.scalar(4)?)
}

/// `input · weightᵀ + bias`, with all dimensions of the input but the last flattened to one.
fn linear(r: &mut At) -> Option<()> {
    let (g, x, w, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    let [outputs, inputs] = &w.ty().dims()[..] else { return None };
    let whole = x.ty().dims();
    if inputs.is(0) {
        return None;
    }
    let rows = product(&whole[..whole.len() - 1]).ok()?;
    let flat = |value: Value, columns: &Dim| a.e.reshape(value, &[rows.clone(), columns.clone()]);
    let (flat_g, flat_x) = (flat(g, outputs), flat(x, inputs));
    if r.needs(0) {
        r.give(0, a.e.reshape(a.mm(flat_g, w), &whole))?;
    }
    if r.needs(1) {
        r.give(1, a.mm(t(&a, flat_g), flat_x))?;
    }
    if r.needs(2) {
        r.give(2, a.sum(flat_g, &[0], false))?;
    }
    Some(())
}

fn mv(r: &mut At) -> Option<()> {
    let (g, x, v, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if r.needs(0) {
        r.give(0, a.mul(a.e.unsqueeze(g, &[1]), a.e.unsqueeze(v, &[0])))?;
    }
    if r.needs(1) {
        r.give(1, a.one("aten.mv.default", args![t(&a, x), g], v.ty()))?;
    }
    Some(())
}

fn dot(r: &mut At) -> Option<()> {
    let (g, a) = (r.g()?, r.a);
    for (of, other) in [(0, 1), (1, 0)] {
        if r.needs(of) {
            let factor = a.e.broadcast_to(g, &r.tensor(of)?.ty().dims());
            r.give(of, a.mul(factor, r.tensor(other)?))?;
        }
    }
    Some(())
}

/// Declined if the mask needs a gradient; torch, too, uses another implementation then.
fn attention(r: &mut At) -> Option<()> {
    let (g, a) = (r.g()?, r.a);
    if r.needs(5) {
        return None;
    }
    let (q, k, v) = (r.tensor(0)?, r.tensor(1)?, r.tensor(2)?);
    let (dropout, causal, scale) = (r.c()?.arg(3)?, r.c()?.arg(4)?, r.c()?.arg(6)?);
    let arguments = args![g, q, k, v, r.out(0), r.out(1), dropout, causal, r.tensor(5), scale];
    let made = [q, k, v].map(|value| (value.ty(), Some(a.layout_like(value))));
    let found = a.call("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", arguments, &made);
    for (i, gradient) in found.into_iter().enumerate() {
        if r.needs(i) {
            r.give(i, gradient)?;
        }
    }
    Some(())
}
