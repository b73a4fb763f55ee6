//! Pointwise primitives: the gradient times the usual derivative; where that is not unique, torch's choice.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use dynamlir_dialect::{ir::Value, ops::DynamoOp};

use crate::{
    autodiff::at::At,
    decompose::formula::{Cond, Num},
};

/// Emits the gradients; returns None for other primitives. Primitives do not compute with 16-bit floats.
pub fn differentiate(op: DynamoOp, at: &mut At, g: Value) -> Option<()> {
    let element = g.ty().element();
    if !element.is_float() || element.width() == 16 {
        return None;
    }
    let num = |v: Value| Num { e: at.a.e, v };
    let operands: Vec<Num> = at.op.operands().into_iter().map(num).collect();
    let (g, y) = (num(g), num(at.out(0)));
    let found = match operands[..] {
        [x] => vec![one(op, g, x, y, at)?],
        [a, b] => two(op, g, [a, b], y)?.to_vec(),
        // a · b + c
        [a, b, _] if matches!(op, DynamoOp::Fma(_)) => vec![g * b, g * a, g],
        _ => return None,
    };
    for (operand, gradient) in operands.iter().zip(found) {
        at.give_to(operand.v, gradient.v);
    }
    Some(())
}

/// `∂x` of `y = f(x)`.
fn one(op: DynamoOp, g: Num, x: Num, y: Num, at: &At) -> Option<Num> {
    let rsqrt = |x: Num| x.of(x.e.rsqrt(x.v));
    Some(match op {
        DynamoOp::Neg(_) => -g,
        // 0 at 0.
        DynamoOp::Abs(_) => x.gt(0.0).pick(g, x.lt(0.0).pick(-g, g.constant(0.0))),
        DynamoOp::Exp(_) => g * y,
        DynamoOp::Exp2(_) => g * y * LN_2,
        DynamoOp::Expm1(_) => g * (y + 1.0),
        DynamoOp::Log(_) => g / x,
        DynamoOp::Log2(_) => g / (x * LN_2),
        DynamoOp::Log10(_) => g / (x * LN_10),
        DynamoOp::Log1p(_) => g / (x + 1.0),
        DynamoOp::Sqrt(_) => g / (y * 2.0),
        DynamoOp::Rsqrt(_) => g * -0.5 * (y * y * y),
        DynamoOp::Sin(_) => g * x.cos(),
        DynamoOp::Cos(_) => -(g * x.sin()),
        DynamoOp::Tan(_) => g * (y * y + 1.0),
        DynamoOp::Asin(_) => g * rsqrt(1.0 - x * x),
        DynamoOp::Acos(_) => -(g * rsqrt(1.0 - x * x)),
        DynamoOp::Atan(_) => g / (x * x + 1.0),
        DynamoOp::Sinh(_) => g * x.cosh(),
        DynamoOp::Cosh(_) => g * x.sinh(),
        DynamoOp::Tanh(_) => g * (1.0 - y * y),
        DynamoOp::Asinh(_) => g * rsqrt(x * x + 1.0),
        DynamoOp::Acosh(_) => g * rsqrt(x * x - 1.0),
        DynamoOp::Atanh(_) => g / (1.0 - x * x),
        DynamoOp::Erf(_) => g * (-(x * x)).exp() * FRAC_2_SQRT_PI,
        DynamoOp::Erfc(_) => -(g * (-(x * x)).exp() * FRAC_2_SQRT_PI),
        // digamma is not a primitive.
        DynamoOp::Lgamma(_) => g * x.of(at.a.unary("aten.digamma.default", x.v)),
        _ => return None,
    })
}

/// `∂a` and `∂b` of `y = f(a, b)`.
fn two(op: DynamoOp, g: Num, [a, b]: [Num; 2], y: Num) -> Option<[Num; 2]> {
    let zero = g.constant(0.0);
    // Equal operands share the gradient.
    let larger = |wins: Cond, loses: Cond| {
        let half = a.eq(b).pick(g * 0.5, g);
        [loses.pick(0.0, half), wins.pick(0.0, half)]
    };
    Some(match op {
        DynamoOp::Add(_) => [g, g],
        DynamoOp::Sub(_) => [g, -g],
        DynamoOp::Mul(_) => [g * b, g * a],
        DynamoOp::Div(_) => [g / b, -(g * (y / b))],
        // y = a - trunc(a / b) · b
        DynamoOp::Rem(_) => [g, -(g * (a / b).trunc())],
        // b · a^(b - 1), which is 0 for b = 0; y · log a, which is 0 for a = 0 as long as y is finite.
        DynamoOp::Pow(_) => {
            let base = b.eq(0.0).pick(zero, g * (b * a.pow(b - 1.0)));
            let exponent = (a.eq(0.0) & b.ge(0.0)).pick(zero, g * (y * a.log()));
            [base, exponent]
        }
        DynamoOp::Atan2(_) => {
            let squares = a * a + b * b;
            [g * (b / squares), -(g * (a / squares))]
        }
        DynamoOp::Hypot(_) => [g * (a / y), g * (b / y)],
        DynamoOp::Copysign(_) => [a.eq(0.0).pick(zero, g * (y / a)), zero],
        DynamoOp::Max(_) => larger(a.gt(b), a.lt(b)),
        DynamoOp::Min(_) => larger(a.lt(b), a.gt(b)),
        _ => return None,
    })
}
