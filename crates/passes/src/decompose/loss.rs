//! Losses of two tensors of one shape, and what their reduction makes of them.

use dynamlir_dialect::ir::Value;

use super::{Call, Lowering, promote::wide};

/// Schema and lowering. `binary_cross_entropy` is not here: it raises on an operand outside of [0, 1].
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.binary_cross_entropy_with_logits.default", bce_with_logits),
    ("aten.huber_loss.default", huber),
    ("aten.l1_loss.default", l1),
    ("aten.mse_loss.default", mse),
    ("aten.smooth_l1_loss.default", smooth_l1),
    ("aten.soft_margin_loss.default", soft_margin),
];

/// Operand `i` in the computing type, and in the shape that all operands broadcast to.
fn operand(c: &Call, i: usize) -> Option<Value> {
    let mut shape: Vec<i64> = Vec::new();
    for x in (0..c.len()).filter_map(|i| c.tensor(i)) {
        let mut sizes = x.ty().shape();
        let longer = sizes.len().max(shape.len());
        for list in [&mut sizes, &mut shape] {
            list.splice(0..0, std::iter::repeat_n(1, longer - list.len()));
        }
        shape = sizes.into_iter().zip(shape).map(|(a, b)| if a == 1 { b } else { a }).collect();
    }
    Some(c.e.broadcast_to(c.e.convert(c.tensor(i)?, wide(c.result_type(0).element())), &shape))
}

/// Argument `i` says what becomes of the elements: 0 they stay, 1 their mean, 2 their sum.
fn reduced(c: &Call, loss: Value, i: usize) -> Option<Vec<Value>> {
    let dims: Vec<i64> = (0..loss.ty().rank() as i64).collect();
    let loss = match c.int(i)? {
        0 => loss,
        1 => c.e.mean(loss, &dims, false),
        2 => c.e.sum(loss, &dims, false),
        _ => return None,
    };
    let ty = c.result_type(0);
    (ty.shape() == loss.ty().shape() && ty.element().is_float()).then(|| vec![c.e.convert(loss, ty.element())])
}

/// `|input - target|`.
fn distance(c: &Call) -> Option<Value> {
    Some(c.e.abs(c.e.sub(operand(c, 0)?, operand(c, 1)?)))
}

fn l1(c: &Call) -> Option<Vec<Value>> {
    c.result_type(0).element().is_float().then_some(())?;
    reduced(c, distance(c)?, 2)
}

fn mse(c: &Call) -> Option<Vec<Value>> {
    let difference = c.e.sub(operand(c, 0)?, operand(c, 1)?);
    reduced(c, c.e.mul(difference, difference), 2)
}

/// A parabola below `beta`, a line above.
fn smooth_l1(c: &Call) -> Option<Vec<Value>> {
    c.result_type(0).element().is_float().then_some(())?;
    let (z, beta) = (distance(c)?, c.float(3)?);
    if beta == 0.0 {
        return reduced(c, z, 2);
    }
    let number = |v: f64| c.e.full_like(z, v);
    let parabola = c.e.div(c.e.mul(c.e.mul(number(0.5), z), z), number(beta));
    let line = c.e.sub(z, number(0.5 * beta));
    reduced(c, c.e.select(c.e.lt(z, number(beta)), parabola, line), 2)
}

/// The same with another slope: `delta · (z - delta / 2)`.
fn huber(c: &Call) -> Option<Vec<Value>> {
    c.result_type(0).element().is_float().then_some(())?;
    let (z, delta) = (distance(c)?, c.float(3)?);
    let number = |v: f64| c.e.full_like(z, v);
    let parabola = c.e.mul(c.e.mul(number(0.5), z), z);
    let line = c.e.mul(number(delta), c.e.sub(z, number(0.5 * delta)));
    reduced(c, c.e.select(c.e.le(z, number(delta)), parabola, line), 2)
}

/// `log(1 + exp(-target · input))`.
fn soft_margin(c: &Call) -> Option<Vec<Value>> {
    let product = c.e.mul(c.e.neg(operand(c, 1)?), operand(c, 0)?);
    c.result_type(0).element().is_float().then_some(())?;
    reduced(c, c.e.log1p(c.e.exp(product)), 2)
}

/// `(1 - target) · input - log_sigmoid(input) · (1 + (pos_weight - 1) · target)`, times the weight.
fn bce_with_logits(c: &Call) -> Option<Vec<Value>> {
    let (input, target) = (operand(c, 0)?, operand(c, 1)?);
    c.result_type(0).element().is_float().then_some(())?;
    let one = c.e.full_like(input, 1.0);
    // log_sigmoid(x) = min(x, 0) - log(1 + exp(-|x|)), which does not overflow.
    let tail = c.e.log1p(c.e.exp(c.e.neg(c.e.abs(input))));
    let mut log_sigmoid = c.e.sub(c.e.min(input, c.e.full_like(input, 0.0)), tail);
    if let Some(pos_weight) = operand(c, 3) {
        log_sigmoid = c.e.mul(log_sigmoid, c.e.add(c.e.mul(c.e.sub(pos_weight, one), target), one));
    }
    let mut loss = c.e.sub(c.e.mul(c.e.sub(one, target), input), log_sigmoid);
    if let Some(weight) = operand(c, 2) {
        loss = c.e.mul(loss, weight);
    }
    reduced(c, loss, 4)
}
