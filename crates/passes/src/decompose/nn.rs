//! Gated activations, and the gradient of dropout.

use dynamlir_dialect::ir::Value;

use super::{Call, Lowering, promote::wide, view::cut};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] =
    &[("aten._prelu_kernel.default", prelu), ("aten.glu.default", glu), ("aten.native_dropout_backward.default", dropout_backward)];

/// The first half times the sigmoid of the second.
fn glu(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let element = x.ty().element();
    let dim = c.dim(1, x.ty().rank())?;
    let half = x.ty().dims().get(dim as usize)?.known()? / 2;
    let part = |start: i64| c.e.convert(cut(c, x, dim, start, 1, half), wide(element));
    let (value, gate) = (part(0), part(half));
    let one = c.e.full_like(gate, 1.0);
    let sigmoid = c.e.div(one, c.e.add(one, c.e.exp(c.e.neg(gate))));
    Some(vec![c.e.convert(c.e.mul(value, sigmoid), element)])
}

/// `x` where it is greater than 0, else `slope * x`.
pub(super) fn leaky(c: &Call, x: Value, slope: Value) -> Value {
    c.e.select(c.e.gt(x, c.e.full_like(x, 0.0)), x, c.e.mul(slope, x))
}

fn prelu(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let operand = |i: usize| Some(c.e.broadcast_to(c.e.convert(c.tensor(i)?, wide(ty.element())), &ty.dims()));
    Some(vec![c.e.convert(leaky(c, operand(0)?, operand(1)?), ty.element())])
}

/// Integers become floats, the result's type, when they are multiplied with the factor.
fn dropout_backward(c: &Call) -> Option<Vec<Value>> {
    let element = c.result_type(0).element();
    let grad = c.e.convert(c.tensor(0)?, wide(element));
    let kept = c.e.mul(grad, c.e.convert(c.tensor(1)?, grad.ty().element()));
    Some(vec![c.e.convert(c.e.mul(kept, c.e.full_like(kept, c.float(2)?)), element)])
}
