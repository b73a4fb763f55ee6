//! Backward operators, differentiated for double backward. Those not listed do not have a rule, so their second derivative is left to
//! eager; for some torch does not have one either. The elementwise ones broadcast: `torch.func.jacrev` passes a batch of tangents as one
//! operand.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::Dimension;

use super::{Keeps, Row, first};
use crate::autodiff::{
    at::At,
    aten::{Arg, Aten, args},
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.tanh_backward.default", tanh),
    first("aten.sigmoid_backward.default", sigmoid),
    first("aten.threshold_backward.default", |r| step(r, &[2])).keeping(Keeps::For(&[0])),
    first("aten.hardtanh_backward.default", |r| step(r, &[2, 3])).keeping(Keeps::For(&[0])),
    first("aten.leaky_relu_backward.default", |r| step(r, &[2, 3])).keeping(Keeps::For(&[0])),
    first("aten.silu_backward.default", silu),
    first("aten.gelu_backward.default", gelu),
    first("aten._softmax_backward_data.default", softmax),
    first("aten._log_softmax_backward_data.default", log_softmax),
    first("aten.native_dropout_backward.default", dropout),
    first("aten.nll_loss_backward.default", nll).keeping(Keeps::For(&[0])),
    first("aten.mse_loss_backward.default", mse),
    first("aten.embedding_dense_backward.default", embedding),
    first("aten._adaptive_avg_pool2d_backward.default", adaptive_pool).keeping(Keeps::Nothing),
    first("aten.avg_pool2d_backward.default", avg_pool).keeping(Keeps::Nothing),
    first("aten.index_put.default", index_put),
];

/// `y = g · (1 - out²)`.
fn tanh(r: &mut At) -> Option<()> {
    let (t, g, y, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if r.needs(0) {
        r.give_broadcast(0, a.like("aten.tanh_backward.default", args![t, y], t))?;
    }
    if r.needs(1) {
        r.give_broadcast(1, a.mul(t, a.mul(a.scale(y, -2_i64), g)))?;
    }
    Some(())
}

/// `y = g · out · (1 - out)`.
fn sigmoid(r: &mut At) -> Option<()> {
    let (t, g, y, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if r.needs(0) {
        r.give_broadcast(0, a.like("aten.sigmoid_backward.default", args![t, y], t))?;
    }
    if r.needs(1) {
        r.give_broadcast(1, a.mul(a.mul(t, g), one_minus(&a, a.scale(y, 2_i64))))?;
    }
    Some(())
}

fn one_minus(a: &Aten, x: Value) -> Value {
    a.like("aten.rsub.Scalar", args![x, 1_i64, 1_i64], x)
}

/// The gradient of a piecewise linear function: linear in `g`, and constant in the operand.
fn step(r: &mut At, taken: &[usize]) -> Option<()> {
    let (t, x, a) = (r.g()?, r.tensor(1)?, r.a);
    if r.needs(0) {
        let taken = taken.iter().map(|&i| r.c()?.arg(i).map(Arg::Attr)).collect::<Option<Vec<_>>>()?;
        let schema = r.c()?.schema().to_owned();
        r.give_broadcast(0, a.like(&schema, &[args![t, x], &taken[..]].concat(), t))?;
    }
    if r.needs(1) {
        r.give(1, a.zeros(x))?;
    }
    Some(())
}

/// `f'(x) = σ · (1 + x · (1 - σ))`, and `f''(x) = σ · (1 - σ) · (2 + x · (1 - 2σ))`.
fn silu(r: &mut At) -> Option<()> {
    let (t, g, x, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if r.needs(0) {
        r.give_broadcast(0, a.like("aten.silu_backward.default", args![t, x], t))?;
    }
    if r.needs(1) {
        let sigmoid = a.unary("aten.sigmoid.default", x);
        let slope = a.mul(sigmoid, one_minus(&a, sigmoid));
        let inner = a.scalar_add(a.mul(x, one_minus(&a, a.scale(sigmoid, 2_i64))), 2.0);
        r.give_broadcast(1, a.mul(a.mul(t, g), a.mul(slope, inner)))?;
    }
    Some(())
}

/// Without approximation `f''(x) = φ(x) · (2 - x²)`, with the density `φ` of the normal distribution.
fn gelu(r: &mut At) -> Option<()> {
    let (t, g, x, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    let approximate = r.c()?.arg(2)?;
    if r.needs(0) {
        r.give_broadcast(0, a.like("aten.gelu_backward.default", args![t, x, approximate], t))?;
    }
    if r.needs(1) {
        if r.c()?.str(2)? != "none" {
            return None;
        }
        let square = a.mul(x, x);
        let density = a.scale(a.unary("aten.exp.default", a.scale(square, -0.5)), 1.0 / std::f64::consts::TAU.sqrt());
        let second = a.mul(density, a.scalar_add(a.neg(square), 2.0));
        r.give_broadcast(1, a.mul(a.mul(t, g), second))?;
    }
    Some(())
}

/// `y = out · (g - Σ g · out)`.
fn softmax(r: &mut At) -> Option<()> {
    let (t, g, out, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if t.ty() != out.ty() || g.ty() != out.ty() {
        return None;
    }
    let dim = r.c()?.dim(2, g.ty().rank())?;
    if r.needs(0) {
        r.give(0, a.like("aten._softmax_backward_data.default", args![t, out, dim, out.ty().element()], out))?;
    }
    if r.needs(1) {
        let dims: &[i64] = if g.ty().rank() == 0 { &[] } else { &[dim] };
        let total = |x: Value, y: Value| a.sum(a.mul(x, y), dims, true);
        let first = a.mul(t, a.sub(g, total(g, out)));
        r.give(1, a.sub(first, a.mul(g, total(t, out))))?;
    }
    Some(())
}

/// `y = g - exp(out) · Σ g`.
fn log_softmax(r: &mut At) -> Option<()> {
    let (t, g, out, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    if t.ty() != out.ty() || g.ty() != out.ty() {
        return None;
    }
    let dim = r.c()?.dim(2, g.ty().rank())?;
    let dims: &[i64] = if g.ty().rank() == 0 { &[] } else { &[dim] };
    let softmax = a.unary("aten.exp.default", out);
    if r.needs(0) {
        r.give(0, a.sub(t, a.sum(a.mul(t, softmax), dims, true)))?;
    }
    if r.needs(1) {
        let total = a.neg(a.sum(g, dims, true));
        r.give(1, a.mul(a.mul(softmax, total), t))?;
    }
    Some(())
}

fn dropout(r: &mut At) -> Option<()> {
    let (t, mask, scale) = (r.g()?, r.tensor(1)?, r.c()?.arg(2)?);
    r.give(0, r.a.like("aten.native_dropout_backward.default", args![t, mask, scale], t))
}

/// The loss is linear in its operand.
fn nll(r: &mut At) -> Option<()> {
    let (t, g, x, target, weight) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.tensor(2)?, r.tensor(3));
    let (reduction, ignored, total) = (r.c()?.arg(4)?, r.c()?.arg(5)?, r.tensor(6)?);
    if r.needs(0) {
        let made = [(g.ty(), None), (total.ty(), None)];
        let found = r.a.call("aten.nll_loss_forward.default", args![t, target, weight, reduction, ignored], &made);
        r.give(0, found[0])?;
    }
    if r.needs(1) {
        r.give(1, r.a.zeros(x))?;
    }
    Some(())
}

/// `y = 2 · g · (self - target)`, divided by the number of elements if the mean is taken.
fn mse(r: &mut At) -> Option<()> {
    let (t, g, x, y, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.tensor(2)?, r.a);
    let factor = if r.c()?.int(3)? == 1 { 2.0 / x.ty().count()?.known()? as f64 } else { 2.0 };
    if r.needs(0) {
        r.give_broadcast(0, a.scale(a.mul(t, a.sub(x, y)), factor))?;
    }
    let slope = a.scale(a.mul(t, g), factor);
    if r.needs(1) {
        r.give(1, slope)?;
    }
    if r.needs(2) {
        r.give(2, a.neg(slope))?;
    }
    Some(())
}

/// Elements at the padding index, which did not contribute, get zero.
fn embedding(r: &mut At) -> Option<()> {
    let (t, g, indices, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.a);
    let padding = r.c()?.int(3)?;
    if r.c()?.bool(4)? {
        return None;
    }
    let read = a.one("aten.embedding.default", args![t, indices, padding, false, false], g.ty());
    if padding < 0 {
        return r.give(0, read);
    }
    let is_padding = a.e.unsqueeze(a.compare("aten.eq.Scalar", indices, padding), &[indices.ty().rank() as i64]);
    r.give(0, a.zero_where(read, is_padding))
}

fn adaptive_pool(r: &mut At) -> Option<()> {
    let (t, g, x) = (r.g()?, r.tensor(0)?, r.tensor(1)?);
    if r.needs(0) {
        let sizes = g.ty().dims();
        let last = sizes[sizes.len() - 2..].to_vec();
        r.give(0, r.a.one("aten._adaptive_avg_pool2d.default", args![t, last], g.ty()))?;
    }
    if r.needs(1) {
        r.give(1, r.a.zeros(x))?;
    }
    Some(())
}

fn avg_pool(r: &mut At) -> Option<()> {
    let (t, g, x) = (r.g()?, r.tensor(0)?, r.tensor(1)?);
    if r.needs(0) {
        let how = (2..8).map(|i| r.c()?.arg(i).map(Arg::Attr)).collect::<Option<Vec<_>>>()?;
        r.give(0, r.a.one("aten.avg_pool2d.default", &[args![t], &how[..]].concat(), g.ty()))?;
    }
    if r.needs(1) {
        r.give(1, r.a.zeros(x))?;
    }
    Some(())
}

/// With `accumulate` only: the values are added.
fn index_put(r: &mut At) -> Option<()> {
    let (t, values, indices) = (r.g()?, r.tensor(2)?, r.c()?.opt_tensors(1)?);
    if !r.c()?.bool(3)? {
        return None;
    }
    if r.needs(0) {
        r.give(0, t)?;
    }
    if r.needs(2) {
        // Reading returns the values' sizes only if the values were not broadcast; in gradients of reads they are not.
        let given: Vec<Type> = indices.iter().flatten().map(|index| index.ty()).collect();
        let rank = given.iter().map(|ty| ty.rank()).max()? + r.tensor(0)?.ty().rank() - given.len();
        let shape = values.ty().dims();
        if shape.len() != rank || shape.iter().any(|size| size.is(1)) || given.iter().any(|ty| ty.element().is_bool()) {
            return None;
        }
        r.give(2, r.a.one("aten.index.Tensor", args![t, Arg::Optionals(indices)], values.ty()))?;
    }
    Some(())
}
