//! Losses, dropout, and the activation with a random slope.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::product;

use super::{Row, first};
use crate::autodiff::{
    at::At,
    aten::{Arg, args, broadcast},
};

/// The rules of this file.
pub const TABLE: &[Row] = &[
    first("aten.nll_loss_forward.default", |r| nll(r, "aten.nll_loss_backward.default")),
    first("aten.nll_loss2d_forward.default", |r| nll(r, "aten.nll_loss2d_backward.default")).better_recorded(),
    first("aten.mse_loss.default", |r| both(r, "aten.mse_loss_backward.default", 2..3)),
    first("aten.smooth_l1_loss.default", |r| both(r, "aten.smooth_l1_loss_backward.default", 2..4)).better_recorded(),
    first("aten.huber_loss.default", |r| both(r, "aten.huber_loss_backward.default", 2..4)).better_recorded(),
    first("aten.binary_cross_entropy.default", cross_entropy).better_recorded(),
    first("aten.binary_cross_entropy_with_logits.default", cross_entropy_with_logits).better_recorded(),
    first("aten.native_dropout.default", dropout),
    first("aten.rrelu_with_noise_functional.default", rrelu),
];

fn nll(r: &mut At, backward: &str) -> Option<()> {
    let (g, x, target, weight, total) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.tensor(2), r.out(1));
    if r.needs(2) {
        return None;
    }
    let (reduction, ignored) = (r.c()?.arg(3)?, r.c()?.arg(4)?);
    let all = args![g, x, target, weight, reduction, ignored, total];
    r.give(0, r.a.one(backward, all, x.ty()))
}

/// `backward(g, self, target, …)`, and for the target the same with the two swapped. Both must have the same shape and element type.
fn both(r: &mut At, backward: &str, how: std::ops::Range<usize>) -> Option<()> {
    let (g, x, y) = (r.g()?, r.tensor(0)?, r.tensor(1)?);
    if x.ty() != y.ty() {
        return None;
    }
    let how = how.map(|i| r.c()?.arg(i).map(Arg::Attr)).collect::<Option<Vec<_>>>()?;
    for (i, value, other) in [(0, x, y), (1, y, x)] {
        if r.needs(i) {
            r.give(i, r.a.like(backward, &[args![g, value, other], &how[..]].concat(), value))?;
        }
    }
    Some(())
}

fn cross_entropy(r: &mut At) -> Option<()> {
    let (g, x, target, weight, reduction) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.tensor(2), r.c()?.arg(3)?);
    if r.needs(1) || r.needs(2) {
        return None;
    }
    r.give(0, r.a.like("aten.binary_cross_entropy_backward.default", args![g, x, target, weight, reduction], x))
}

/// `(sigmoid(self) - target) · g`; with a weight of positives `((t + 1 - target) · sigmoid(self) - t) · g`, where `t` is that weight times
/// the target. The result is multiplied by the weight and, if the mean is taken, divided by the number of elements.
fn cross_entropy_with_logits(r: &mut At) -> Option<()> {
    let (g, x, target, reduction, a) = (r.g()?, r.tensor(0)?, r.tensor(1)?, r.c()?.int(4)?, r.a);
    let (weight, positives) = (r.tensor(2), r.tensor(3));
    let fits = |y: Value| y.ty().element() == x.ty().element() && broadcast(&x.ty().dims(), &y.ty().dims()) == x.ty().dims();
    if x.ty() != target.ty() || (1..4).any(|i| r.needs(i)) || ![weight, positives].into_iter().flatten().all(fits) {
        return None;
    }
    let y = a.unary("aten.sigmoid.default", x);
    let slope = match positives {
        Some(positives) => {
            let t = a.mul(positives, target);
            a.sub(a.mul(a.sub(a.scalar_add(t, 1.0), target), y), t)
        }
        None => a.sub(y, target),
    };
    let slope = a.mul(slope, g);
    let slope = weight.map_or(slope, |weight| a.mul(slope, weight));
    let gradient = match reduction {
        1 => a.like("aten.div.Scalar", args![slope, product(&x.ty().dims()).ok()?], slope),
        _ => slope,
    };
    r.give(0, gradient)
}

fn dropout(r: &mut At) -> Option<()> {
    let (g, x, mask) = (r.g()?, r.tensor(0)?, r.out(1));
    let (p, train) = (r.c()?.float(1)?, r.c()?.bool(2).unwrap_or(false));
    let scale = match (train, p) {
        (false, _) => 1.0,
        (true, 1.0) => 0.0,
        (true, p) => 1.0 / (1.0 - p),
    };
    r.give(0, r.a.like("aten.native_dropout_backward.default", args![g, mask, scale], x))
}

/// In training the saved noise is the slope, which is 1 above 0. In inference the slope is the middle of the interval.
fn rrelu(r: &mut At) -> Option<()> {
    let (g, x, noise) = (r.g()?, r.tensor(0)?, r.out(1));
    let (lower, upper, training) = (r.c()?.float(2)?, r.c()?.float(3)?, r.c()?.bool(4)?);
    let gradient = if training {
        r.a.like("aten.mul.Tensor", args![g, noise], x)
    } else {
        r.a.like("aten.leaky_relu_backward.default", args![g, x, f64::midpoint(lower, upper), false], x)
    };
    r.give(0, gradient)
}
