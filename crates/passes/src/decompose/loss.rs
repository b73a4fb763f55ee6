//! Losses of two tensors of one shape, and their reductions.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Dimension};

use super::{Call, Lowering, promote::wide};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.binary_cross_entropy.default", bce),
    ("aten.binary_cross_entropy_with_logits.default", bce_with_logits),
    ("aten.huber_loss.default", huber),
    ("aten.l1_loss.default", l1),
    ("aten.mse_loss.default", mse),
    ("aten.smooth_l1_loss.default", smooth_l1),
    ("aten.soft_margin_loss.default", soft_margin),
];

/// Operand `i` in the compute type, broadcast to the shape of all operands.
fn operand(c: &Call, i: usize) -> Option<Value> {
    let mut shape: Vec<Dim> = Vec::new();
    for x in (0..c.len()).filter_map(|i| c.tensor(i)) {
        let mut sizes = x.ty().dims();
        let longer = sizes.len().max(shape.len());
        for list in [&mut sizes, &mut shape] {
            list.splice(0..0, std::iter::repeat_n(Dim::from(1), longer - list.len()));
        }
        shape = sizes.into_iter().zip(shape).map(|(a, b)| if a.is(1) { b } else { a }).collect();
    }
    Some(c.e.broadcast_to(c.e.convert(c.tensor(i)?, wide(c.result_type(0).element())), &shape))
}

/// Reduces the elements as argument `i` says: 0 keeps them, 1 takes their mean, 2 their sum.
fn reduced(c: &Call, loss: Value, i: usize) -> Option<Vec<Value>> {
    let dims: Vec<i64> = (0..loss.ty().rank() as i64).collect();
    let loss = match c.int(i)? {
        0 => loss,
        1 => c.e.mean(loss, &dims, false),
        2 => c.e.sum(loss, &dims, false),
        _ => return None,
    };
    let ty = c.result_type(0);
    (ty.dims() == loss.ty().dims() && ty.element().is_float()).then(|| vec![c.e.convert(loss, ty.element())])
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

/// A parabola below `beta`, a line above. A `beta` that is negative or NaN is left to the library, which raises.
fn smooth_l1(c: &Call) -> Option<Vec<Value>> {
    c.result_type(0).element().is_float().then_some(())?;
    let (z, beta) = (distance(c)?, c.float(3).filter(|&beta| beta >= 0.0)?);
    if beta == 0.0 {
        return reduced(c, z, 2);
    }
    let number = |v: f64| c.e.full_like(z, v);
    let parabola = c.e.div(c.e.mul(c.e.mul(number(0.5), z), z), number(beta));
    let line = c.e.sub(z, number(0.5 * beta));
    reduced(c, c.e.select(c.e.lt(z, number(beta)), parabola, line), 2)
}

/// The same shape with a line of another slope: `delta · (z - delta / 2)`.
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

/// Checks that all elements of argument `i` are inside [0, 1], as eager does, which raises if one is outside or NaN. The check is of a
/// single number that says whether there is such an element.
fn checked_share(c: &Call, i: usize, name: &str) -> Option<()> {
    let x = c.tensor(i)?;
    let wide = c.e.convert(x, wide(x.ty().element()));
    let inside = c.e.and(c.e.ge(wide, c.e.full_like(wide, 0)), c.e.le(wide, c.e.full_like(wide, 1)));
    let outside = c.e.convert(c.e.not(inside), Type::int(c.e.ctx(), 64));
    let dims: Vec<i64> = (0..x.ty().rank() as i64).collect();
    let any = c.e.reduce("max", outside, &dims, false);
    c.e.check_range(any, 0, 1, &format!("aten.binary_cross_entropy.default: all elements of {name} should be between 0 and 1"));
    Some(())
}

/// `-(target · log(input) + (1 - target) · log(1 - input))`, times the weight, with logarithms clamped to at least -100.
fn bce(c: &Call) -> Option<Vec<Value>> {
    c.result_type(0).element().is_float().then_some(())?;
    let has_elements = |x: Value| x.ty().element().is_float() && !x.ty().shape().contains(&0);
    (has_elements(c.tensor(0)?) && has_elements(c.tensor(1)?)).then_some(())?;
    checked_share(c, 0, "input")?;
    checked_share(c, 1, "target")?;
    let (input, target) = (operand(c, 0)?, operand(c, 1)?);
    let least = c.e.full_like(input, -100.0);
    let below = c.e.max(c.e.log1p(c.e.neg(input)), least);
    let above = c.e.max(c.e.log(input), least);
    let loss = c.e.sub(c.e.mul(c.e.sub(target, c.e.full_like(target, 1.0)), below), c.e.mul(target, above));
    let loss = operand(c, 2).map_or(loss, |weight| c.e.mul(loss, weight));
    reduced(c, loss, 3)
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
