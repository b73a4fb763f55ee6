//! Gated activations and dropout.

use dynamlir_dialect::ir::Value;

use super::{Call, Lowering, promote::wide, view::cut};

/// Schema and lowering.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._prelu_kernel.default", prelu),
    ("aten.dropout.default", dropout),
    ("aten.glu.default", glu),
    ("aten.native_dropout.default", dropout),
    ("aten.native_dropout_backward.default", dropout_backward),
    ("aten.rrelu_with_noise.default", rrelu),
    ("aten.rrelu_with_noise_functional.default", rrelu),
];

/// The first half times the sigmoid of the second.
fn glu(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let element = x.ty().element();
    let dim = c.dim(1, x.ty().rank())?;
    let half = x.ty().shape().get(dim as usize)? / 2;
    let part = |start: i64| c.e.convert(cut(c, x, dim, start, 1, half), wide(element));
    let (value, gate) = (part(0), part(half));
    let one = c.e.full_like(gate, 1.0);
    let sigmoid = c.e.div(one, c.e.add(one, c.e.exp(c.e.neg(gate))));
    Some(vec![c.e.convert(c.e.mul(value, sigmoid), element)])
}

/// `x` where it is above 0, else `slope * x`.
fn leaky(c: &Call, x: Value, slope: Value) -> Value {
    c.e.select(c.e.gt(x, c.e.full_like(x, 0.0)), x, c.e.mul(slope, x))
}

fn prelu(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let operand = |i: usize| Some(c.e.broadcast_to(c.e.convert(c.tensor(i)?, wide(ty.element())), &ty.shape()));
    Some(vec![c.e.convert(leaky(c, operand(0)?, operand(1)?), ty.element())])
}

/// In inference the slope is the middle of the interval and the noise stays; in training it is random.
fn rrelu(c: &Call) -> Option<Vec<Value>> {
    let (x, noise) = (c.tensor(0)?, c.tensor(1)?);
    if c.bool(4)? {
        return None;
    }
    let element = x.ty().element();
    let wide = c.e.convert(x, wide(element));
    let slope = c.e.full_like(wide, f64::midpoint(c.float(2)?, c.float(3)?));
    let out = c.e.convert(leaky(c, wide, slope), element);
    Some([out, noise].into_iter().take(c.op.num_results()).collect())
}

/// In inference the operand itself and a mask of ones. A missing flag means training, which draws random numbers.
fn dropout(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    if c.is_none(2) || c.bool(2)? {
        return None;
    }
    let mask = c.e.full(&x.ty().shape(), c.e.bool_type(), true);
    Some([x, mask].into_iter().take(c.op.num_results()).collect())
}

/// The factor makes floats of integers, as the result's type says.
fn dropout_backward(c: &Call) -> Option<Vec<Value>> {
    let element = c.result_type(0).element();
    let grad = c.e.convert(c.tensor(0)?, wide(element));
    let kept = c.e.mul(grad, c.e.convert(c.tensor(1)?, grad.ty().element()));
    Some(vec![c.e.convert(c.e.mul(kept, c.e.full_like(kept, c.float(2)?)), element)])
}
