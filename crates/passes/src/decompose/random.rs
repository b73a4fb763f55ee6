//! Random numbers: each operator draws a key ([`seeds`](super::seeds)) and computes its numbers from it. So the numbers fuse with their
//! uses, and backward recomputes them.
//!
//! Before: `%m = dynamo.aten "aten.bernoulli.p"(%x) args [#dynamo.operand<0>, 0.5, unit] : (tensor<4xf32>) -> tensor<4xf32>`
//!
//! After:
//! ```mlir
//! %key = dynamo.aten "aten.randint.low"() …             // one for all operators of the function
//! %bits = dynamo.random %keys, %counter half 0 : tensor<4xi64>   // %counter: the index of the element, in row-major order
//! %word = dynamo.and %bits, %mask                        // 32 bits
//! %hit = dynamo.compare lt %word, %threshold             // p · 2^32
//! %m = dynamo.convert %hit : tensor<4xi1> -> tensor<4xf32>
//! ```
//!
//! The numbers differ from eager's, but have the same distribution and resolution: 24 bits for `f32`, 11 for `f16`, 8 for `bf16`; `f64` has
//! 52 instead of 53. A call is declined, so that eager's operator draws, if it has its own generator, if the module has
//! `dynamo.eager_random`, if tensors are on a device, if eager rejects the arguments, or if a range of integers exceeds 31 bits.

use std::f64::consts::PI;

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    ops::AtenOp,
};
use dynamlir_shapes::{Dimension, Relation};

use super::{
    Call, Lowering,
    nn::leaky,
    promote::{broadcasts, fits, wide},
    random_bits::{Bits, digits, logarithm},
};
use crate::emit::Scalar;

/// Parts of the names of operators that draw random numbers, with or without a lowering.
const DRAWING: &[&str] = &[
    "bernoulli",
    "binomial",
    "cauchy",
    "dropout",
    "exponential",
    "geometric",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rrelu",
    "sample_dirichlet",
    "standard_gamma",
    "uniform",
];

/// Returns true if repeating a call of an operator may give different results: the operator draws random numbers, or is not an `ATen`
/// operator.
pub fn may_draw(call: AtenOp) -> bool {
    let schema = call.schema();
    let Some(name) = schema.strip_prefix("aten.") else { return true };
    // Attention draws random numbers if it has a nonzero dropout probability.
    let is_probable = || call.args().iter().any(|arg| arg.as_f64().is_some_and(|number| number != 0.0));
    DRAWING.iter().any(|part| name.contains(part)) || name.contains("scaled_dot_product") && is_probable()
}

/// Returns true if an operation may draw random numbers from the state of torch's generator: a torch operator, or a user's function, which
/// may call one.
pub fn draws_by_state(op: Op) -> bool {
    AtenOp::cast(op).is_some_and(|call| ["aten.", "dynamlir."].iter().any(|kind| call.schema().starts_with(kind)) && may_draw(call))
}

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.bernoulli.Tensor", |c| bernoulli_of(c, c.tensor(1)?, 2)),
    ("aten.bernoulli.default", |c| bernoulli_of(c, c.tensor(0)?, 1)),
    ("aten.bernoulli.p", bernoulli),
    ("aten.cauchy.default", cauchy),
    ("aten.dropout.default", dropout),
    ("aten.exponential.default", exponential),
    ("aten.geometric.default", geometric),
    ("aten.log_normal.default", log_normal),
    ("aten.native_dropout.default", dropout),
    ("aten.normal.Tensor_Tensor", |c| normal(c, &Parameter::Tensor(c.tensor(0)?), &Parameter::Tensor(c.tensor(1)?), 2)),
    ("aten.normal.Tensor_float", |c| normal(c, &Parameter::Tensor(c.tensor(0)?), &Parameter::Number(c.float(1)?), 2)),
    ("aten.normal.float_Tensor", |c| normal(c, &Parameter::Number(c.float(0)?), &Parameter::Tensor(c.tensor(1)?), 2)),
    ("aten.normal.float_float", |c| normal(c, &Parameter::Number(c.float(0)?), &Parameter::Number(c.float(1)?), 3)),
    ("aten.normal_functional.default", |c| normal(c, &Parameter::Number(c.float(1)?), &Parameter::Number(c.float(2)?), 3)),
    ("aten.rand.default", |c| uniform(c, 0.0, 1.0)),
    ("aten.rand_like.default", |c| uniform(c, 0.0, 1.0)),
    ("aten.randint.default", |c| integers(c, 0, c.int(0)?)),
    ("aten.randint.low", |c| integers(c, c.int(0)?, c.int(1)?)),
    ("aten.randint_like.default", |c| integers(c, 0, c.int(1)?)),
    ("aten.randint_like.low_dtype", |c| integers(c, c.int(1)?, c.int(2)?)),
    ("aten.randn.default", |c| normal(c, &Parameter::Number(0.0), &Parameter::Number(1.0), usize::MAX)),
    ("aten.randn_like.default", |c| normal(c, &Parameter::Number(0.0), &Parameter::Number(1.0), usize::MAX)),
    ("aten.random.default", |c| own(c, 1).and_then(|()| all_integers(c))),
    ("aten.random.from", |c| own(c, 3).and_then(|()| integers(c, c.int(1)?, c.int(2)?))),
    ("aten.random.to", |c| own(c, 2).and_then(|()| integers(c, 0, c.int(1)?))),
    ("aten.rrelu_with_noise.default", rrelu),
    ("aten.rrelu_with_noise_functional.default", rrelu),
    ("aten.uniform.default", |c| own(c, 3).and_then(|()| uniform(c, c.float(1)?, c.float(2)?))),
];

/// Continues only if numbers are drawn here, with the default generator: the argument `generator` is None.
fn own(c: &Call, generator: usize) -> Option<()> {
    (!c.eager_random && c.is_none(generator)).then_some(())
}

/// Returns true if a tensor has no elements, regardless of the values of its symbols.
fn is_empty(ty: Type) -> bool {
    ty.count().is_some_and(|count| count.is(0))
}

/// Continues only if a tensor has elements, regardless of the values of its symbols. A check over no elements would hold, but a reduction
/// over none does not compute that.
fn has_elements(c: &Call, value: Value) -> Option<()> {
    c.surely(&value.ty().count()?, Relation::Gt, 0).then_some(())
}

/// Makes the numbers of a float result from random bits; an empty result needs none.
fn floats(c: &Call, make: impl FnOnce(&Bits, Type) -> Option<Value>) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let element = ty.element();
    if c.eager_random || !element.is_float() {
        return None;
    }
    if is_empty(ty) {
        return Some(vec![c.e.full(&ty.dims(), element, 0.0)]);
    }
    let value = make(&Bits::draw(c.e, &ty.dims())?, element)?;
    Some(vec![c.e.convert(value, element)])
}

fn uniform(c: &Call, from: f64, to: f64) -> Option<Vec<Value>> {
    (from.is_finite() && to.is_finite() && from <= to).then_some(())?;
    floats(c, |bits, element| {
        let (e, x) = (c.e, bits.uniform(element));
        let x = if to - from == 1.0 { x } else { e.mul(x, e.full_like(x, to - from)) };
        Some(if from == 0.0 { x } else { e.add(x, e.full_like(x, from)) })
    })
}

/// A mean or a standard deviation.
enum Parameter {
    Number(f64),
    Tensor(Value),
}

impl Parameter {
    fn like(&self, c: &Call, x: Value) -> Value {
        match *self {
            Self::Number(number) => c.e.full_like(x, number),
            Self::Tensor(tensor) => c.e.broadcast_to(c.e.convert(tensor, x.ty().element()), &x.ty().dims()),
        }
    }
}

fn normal(c: &Call, mean: &Parameter, deviation: &Parameter, generator: usize) -> Option<Vec<Value>> {
    own(c, generator)?;
    let to = c.result_dims(0);
    for parameter in [mean, deviation] {
        if let Parameter::Tensor(tensor) = parameter {
            (tensor.ty().element().is_float() && broadcasts(&tensor.ty().dims(), &to)).then_some(())?;
        }
    }
    match *deviation {
        Parameter::Number(number) if number.is_nan() || number < 0.0 => return None,
        Parameter::Tensor(tensor) if !is_empty(tensor.ty()) => {
            has_elements(c, tensor)?;
            let tensor = c.e.convert(tensor, wide(tensor.ty().element()));
            demand(c, c.e.ge(tensor, c.e.full_like(tensor, 0.0)), "a standard deviation is negative");
        }
        _ => {}
    }
    floats(c, |bits, element| {
        let x = bits.normal(element);
        let is = |parameter: &Parameter, what: f64| matches!(parameter, Parameter::Number(number) if *number == what);
        let x = if is(deviation, 1.0) { x } else { c.e.mul(x, deviation.like(c, x)) };
        Some(if is(mean, 0.0) { x } else { c.e.add(x, mean.like(c, x)) })
    })
}

/// Checks that the condition is true everywhere. If not, the check fails before anything is written, and eager raises.
fn demand(c: &Call, condition: Value, what: &str) {
    let broken = c.e.convert(c.e.not(condition), Type::int(c.e.ctx(), 64));
    let dims: Vec<i64> = (0..broken.ty().rank() as i64).collect();
    c.e.check_range(c.e.reduce("max", broken, &dims, false), 0, 1, &format!("{}: {what}", c.schema()));
}

/// 1 with the probability that a tensor gives, which is checked, else 0.
fn bernoulli_of(c: &Call, p: Value, generator: usize) -> Option<Vec<Value>> {
    own(c, generator)?;
    let ty = c.result_type(0);
    (p.ty().element().is_float() && !is_empty(ty)).then_some(())?;
    has_elements(c, p)?;
    broadcasts(&p.ty().dims(), &ty.dims()).then_some(())?;
    let p = c.e.convert(p, wide(p.ty().element()));
    demand(c, c.e.and(c.e.ge(p, c.e.full_like(p, 0.0)), c.e.le(p, c.e.full_like(p, 1.0))), "a probability is not between 0 and 1");
    let p = c.e.broadcast_to(p, &ty.dims());
    let hit = c.e.lt(Bits::draw(c.e, &ty.dims())?.uniform(p.ty().element()), p);
    Some(vec![c.e.convert(hit, ty.element())])
}

/// 1 with a probability that is the same for all elements, else 0.
fn bernoulli(c: &Call) -> Option<Vec<Value>> {
    own(c, 2)?;
    let (ty, p) = (c.result_type(0), c.float(1).filter(|p| (0.0..=1.0).contains(p))?);
    if is_empty(ty) {
        return Some(vec![c.e.full(&ty.dims(), ty.element(), 0)]);
    }
    Some(vec![c.e.convert(Bits::draw(c.e, &ty.dims())?.hits(p), ty.element())])
}

/// In inference, returns the operand itself and a mask of ones. A missing flag means training.
fn dropout(c: &Call) -> Option<Vec<Value>> {
    let (x, e) = (c.tensor(0)?, c.e);
    let (shape, element) = (x.ty().dims(), x.ty().element());
    let given = if !c.is_none(2) && !c.bool(2)? || is_empty(x.ty()) {
        [x, e.full(&shape, e.bool_type(), true)]
    } else {
        let p = c.float(1).filter(|p| (0.0..=1.0).contains(p) && element.is_float() && !c.eager_random)?;
        let mask = Bits::draw(c.e, &shape)?.hits(1.0 - p);
        let wide = e.convert(x, wide(element));
        let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        let kept = e.mul(e.mul(wide, e.convert(mask, wide.ty().element())), e.full_like(wide, scale));
        [e.convert(kept, element), mask]
    };
    Some(given.into_iter().take(c.op.num_results()).collect())
}

/// In inference the slope is the middle of the interval and the noise is unchanged; in training the slope is uniform in the interval.
fn rrelu(c: &Call) -> Option<Vec<Value>> {
    let (x, noise, e) = (c.tensor(0)?, c.tensor(1)?, c.e);
    let (lower, upper) = (c.float(2)?, c.float(3)?);
    let element = x.ty().element();
    let value = e.convert(x, wide(element));
    let (out, noise) = if c.bool(4)? && !is_empty(x.ty()) {
        own(c, 5)?;
        (element.is_float() && lower.is_finite() && upper.is_finite() && lower <= upper).then_some(())?;
        let uniform = Bits::draw(c.e, &x.ty().dims())?.uniform(element);
        let slope = e.add(e.mul(uniform, e.full_like(uniform, upper - lower)), e.full_like(uniform, lower));
        let slope = e.convert(e.convert(slope, element), slope.ty().element());
        let below = e.le(value, e.full_like(value, 0.0));
        (e.select(below, e.mul(value, slope), value), e.select(below, slope, e.full_like(slope, 1.0)))
    } else {
        (leaky(c, value, e.full_like(value, f64::midpoint(lower, upper))), noise)
    };
    Some([e.convert(out, element), e.convert(noise, element)].into_iter().take(c.op.num_results()).collect())
}

/// Integers from `low` up to `high`, exclusive: a random word times the range, shifted right.
fn integers(c: &Call, low: i64, high: i64) -> Option<Vec<Value>> {
    let (ty, e) = (c.result_type(0), c.e);
    let element = ty.element();
    let range = high.checked_sub(low).filter(|range| (1..=1 << 31).contains(range) && !c.eager_random)?;
    let last = high - 1;
    let is_exact = |value: i64| match () {
        () if element.is_float() => value.unsigned_abs() <= 1 << digits(element).min(24),
        () if element.is_bool() => (0..=1).contains(&value),
        () => fits(Scalar::Int(value), element),
    };
    (is_exact(low) && is_exact(last)).then_some(())?;
    if is_empty(ty) {
        return Some(vec![e.full(&ty.dims(), element, 0)]);
    }
    let word = Bits::draw(c.e, &ty.dims())?.take(0, 0, 32);
    let value = e.shr(e.mul(word, e.full_like(word, range)), e.full_like(word, 32));
    let value = if low == 0 { value } else { e.add(value, e.full_like(value, low)) };
    Some(vec![e.convert(value, element)])
}

/// All nonnegative values of an integer type, or all that a float counts exactly.
fn all_integers(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let element = ty.element();
    match (element.is_float(), element.width()) {
        (true, 16 | 32) => integers(c, 0, (1 << digits(element)) + 1),
        (false, 64) if !is_empty(ty) => Some(vec![Bits::draw(c.e, &ty.dims())?.take(0, 0, 63)]),
        (false, 1) => integers(c, 0, 2),
        (false, width @ (8 | 16 | 32)) => integers(c, 0, 1 << if element.is_unsigned() { width } else { width - 1 }),
        _ => None,
    }
}

fn exponential(c: &Call) -> Option<Vec<Value>> {
    own(c, 2)?;
    let rate = c.float(1).filter(|rate| *rate > 0.0 && rate.is_finite())?;
    floats(c, |bits, element| {
        let log = logarithm(c.e, bits.open(element));
        Some(c.e.mul(log, c.e.full_like(log, -1.0 / rate)))
    })
}

/// The number of trials until the first success: whole numbers from 1.
fn geometric(c: &Call) -> Option<Vec<Value>> {
    own(c, 2)?;
    let p = c.float(1).filter(|p| *p > 0.0 && *p < 1.0)?;
    floats(c, |bits, element| {
        let log = logarithm(c.e, bits.open(element));
        Some(c.e.ceil(c.e.div(log, c.e.full_like(log, (-p).ln_1p()))))
    })
}

fn cauchy(c: &Call) -> Option<Vec<Value>> {
    own(c, 3)?;
    let (median, scale) = (c.float(1)?, c.float(2).filter(|scale| *scale > 0.0)?);
    floats(c, |bits, element| {
        let (e, x) = (c.e, bits.open(element));
        let angle = e.mul(e.sub(x, e.full_like(x, 0.5)), e.full_like(x, PI));
        Some(e.add(e.mul(e.tan(angle), e.full_like(x, scale)), e.full_like(x, median)))
    })
}

fn log_normal(c: &Call) -> Option<Vec<Value>> {
    own(c, 3)?;
    let (mean, deviation) = (c.float(1)?, c.float(2).filter(|deviation| *deviation > 0.0)?);
    floats(c, |bits, element| {
        let (e, x) = (c.e, bits.normal(element));
        Some(e.exp(e.add(e.mul(x, e.full_like(x, deviation)), e.full_like(x, mean))))
    })
}
