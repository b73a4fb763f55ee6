//! Activations for which torch has backward operators.

use super::{Row, first};
use crate::autodiff::{
    at::At,
    aten::{Arg, args},
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.tanh.default", |r| of_result(r, "aten.tanh_backward.default")),
    first("aten.sigmoid.default", |r| of_result(r, "aten.sigmoid_backward.default")),
    first("aten.relu.default", relu),
    first("aten.threshold.default", |r| of_operand(r, "aten.threshold_backward.default", &[1], &[])),
    first("aten.silu.default", |r| of_operand(r, "aten.silu_backward.default", &[], &[])),
    first("aten.gelu.default", |r| of_operand(r, "aten.gelu_backward.default", &[1], &[])),
    first("aten.hardswish.default", |r| of_operand(r, "aten.hardswish_backward.default", &[], &[])).better_recorded(),
    first("aten.hardsigmoid.default", |r| of_operand(r, "aten.hardsigmoid_backward.default", &[], &[])),
    first("aten.hardtanh.default", |r| of_operand(r, "aten.hardtanh_backward.default", &[1, 2], &[])),
    first("aten.leaky_relu.default", |r| of_operand(r, "aten.leaky_relu_backward.default", &[1], &[Arg::Bool(false)])),
    first("aten.softplus.default", |r| of_operand(r, "aten.softplus_backward.default", &[1, 2], &[])).better_recorded(),
    first("aten.elu.default", elu).better_recorded(),
    first("aten.log_sigmoid_forward.default", log_sigmoid).better_recorded(),
    first("aten._softmax.default", |r| softmax(r, "aten._softmax_backward_data.default")),
    first("aten._log_softmax.default", |r| softmax(r, "aten._log_softmax_backward_data.default")),
];

/// `backward(g, result)`.
fn of_result(r: &mut At, backward: &str) -> Option<()> {
    let (g, x, y) = (r.g()?, r.tensor(0)?, r.out(0));
    let gradient = r.a.like(backward, args![g, y], y);
    r.give(0, r.a.cast(gradient, x.ty().element()))
}

/// `backward(g, self, …)`, followed by the call's arguments `taken` and by `more`.
fn of_operand(r: &mut At, backward: &str, taken: &[usize], more: &[Arg]) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let taken = taken.iter().map(|&i| r.c()?.arg(i).map(Arg::Attr)).collect::<Option<Vec<_>>>()?;
    let all = [args![g, x], &taken[..], more].concat();
    r.give(0, r.a.like(backward, &all, x))
}

fn relu(r: &mut At) -> Option<()> {
    let (g, y) = (r.g()?, r.out(0));
    r.give(0, r.a.like("aten.threshold_backward.default", args![g, y, 0_i64], y))
}

fn elu(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let (alpha, scale, input_scale) = (r.c()?.arg(1)?, r.c()?.arg(2)?, r.c()?.arg(3)?);
    r.give(0, r.a.like("aten.elu_backward.default", args![g, alpha, scale, input_scale, false, x], x))
}

fn log_sigmoid(r: &mut At) -> Option<()> {
    let (g, x, buffer) = (r.g()?, r.tensor(0)?, r.out(1));
    r.give(0, r.a.like("aten.log_sigmoid_backward.default", args![g, x, buffer], x))
}

fn softmax(r: &mut At, backward: &str) -> Option<()> {
    let (g, x, y, dim) = (r.g()?, r.tensor(0)?, r.out(0), r.c()?.arg(1)?);
    let made = (x.ty(), Some(r.a.layout_like(y)));
    let gradient = r.a.call(backward, args![g, y, dim, x.ty().element()], &[made])[0];
    r.give(0, gradient)
}
