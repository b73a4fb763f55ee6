//! Products of matrices and convolutions that generated code computes faster than the library, or that it can fuse something
//! into: as the cost model expects, or as somebody has measured ([`crate::anchors::choices`]).

use dynamlir_dialect::ir::{Attr, Op, Type, Value};

use super::{Call, Lowering, activation, arith, pointwise};
use crate::anchors::{
    choices::{Decision, Question},
    choose::{Outline, is_possible, is_worth_generating},
    problem::Problem,
    strategy,
    windows::{Windows, is_possible_windows, is_worth_generating_windows},
};

/// Schema and lowering. What is declined stays an extern call.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.addmm.default", addmm),
    ("aten.baddbmm.default", baddbmm),
    ("aten.bmm.default", bmm),
    ("aten.convolution.default", convolution),
    ("aten.mm.default", mm),
    ("aten.mv.default", mm),
];

/// The product, or None where the library is left to it.
fn product(c: &Call, lhs: Value, rhs: Value, batch: usize) -> Option<Value> {
    let result = c.result_type(0);
    let real = [lhs.ty(), rhs.ty(), result].iter().all(|ty| ty.element().is_float() && ty.element().width() == 32);
    let (left, right) = (lhs.ty().shape(), rhs.ty().shape());
    let repeats = left[..batch].iter().product();
    let columns = right.get(batch + 1).copied().unwrap_or(1);
    let sizes = (left[batch], columns, right[batch]);
    let dotted = !is_turned(lhs, batch) && is_turned(rhs, batch);
    let outline = Outline { repeats, sizes, dotted, followed: is_followed(c.op) };
    (real && is_possible(outline, c.vector_bits)).then_some(())?;
    let decision = c.choices.decide(c.op.ctx(), is_worth_generating(outline, c.vector_bits, c.library_bits), || {
        let operands = layouts(c);
        let [.., (left, left_strides), (right, right_strides)] = &operands[..] else { return None };
        let problem = Problem::of(batch, (left, left_strides), (right, right_strides))?;
        let strategies = strategy::strategies(&problem, c.vector_bits);
        let schema = c.schema().to_owned();
        Some(Question { schema, operands, numbers: Vec::new(), followed: outline.followed, work: problem.work(), strategies })
    });
    decided(decision, || c.e.matmul(lhs, rhs, batch))
}

/// The primitive, with the strategy that it is to be computed by; None where the library is.
fn decided(decision: Decision, make: impl FnOnce() -> Value) -> Option<Value> {
    let strategy = match decision {
        Decision::Library => return None,
        Decision::Code(strategy) => strategy,
    };
    let value = make();
    if let (Some(strategy), Some(op)) = (strategy, value.def()) {
        strategy.mark(op);
    }
    Some(value)
}

/// Sizes and strides of all arguments that are tensors, as eager has them.
fn layouts(c: &Call) -> Vec<(Vec<i64>, Vec<i64>)> {
    let given = c.op.attr("operand_strides").and_then(Attr::as_array).unwrap_or_default();
    let strides = |i: usize| given.get(i)?.as_i64s();
    let operands = (0..c.len()).filter_map(|i| c.arg(i)?.as_operand());
    operands.map(|i| (c.op.operand(i).ty(), strides(i))).map(|(ty, given)| (ty.shape(), given.unwrap_or_else(|| ty.strides()))).collect()
}

/// Whether something point by point follows, that can be its epilogue.
fn is_followed(op: Op) -> bool {
    let listed = |table: &[(&str, Lowering)], schema: &str| table.iter().any(|&(name, _)| name == schema);
    let is_pointwise = |schema: &str| [pointwise::TABLE, arith::TABLE, activation::TABLE].into_iter().any(|table| listed(table, schema));
    op.result(0).uses().into_iter().any(|used| match used.op.attr_str("schema").as_deref() {
        Some("aten.view.default" | "aten._unsafe_view.default" | "aten.reshape.default") => is_followed(used.op),
        Some(schema) => is_pointwise(schema),
        None => false,
    })
}

/// Whether the last two dimensions were exchanged, so that memory runs along the first of them.
fn is_turned(value: Value, batch: usize) -> bool {
    let dims = value.def().filter(|op| op.is("dynamo.permute")).and_then(|op| op.attr_i64s("dims"));
    dims.is_some_and(|dims| dims.len() == batch + 2 && dims[batch + 1] == batch as i64)
}

fn mm(c: &Call) -> Option<Vec<Value>> {
    Some(vec![product(c, c.tensor(0)?, c.tensor(1)?, 0)?])
}

fn bmm(c: &Call) -> Option<Vec<Value>> {
    Some(vec![product(c, c.tensor(0)?, c.tensor(1)?, 1)?])
}

/// `self + lhs @ rhs`; with other factors it is left to the library.
fn added(c: &Call, batch: usize) -> Option<Vec<Value>> {
    let is_one = |i: usize| c.scalar(i).is_some_and(|factor| factor.as_f64() == 1.0);
    let own = c.tensor(0)?;
    (is_one(3) && is_one(4) && own.ty().element() == c.result_type(0).element()).then_some(())?;
    let product = product(c, c.tensor(1)?, c.tensor(2)?, batch)?;
    Some(vec![c.e.add(product, c.e.broadcast_to(own, &product.ty().shape()))])
}

/// Over two dimensions, of images in torch's own order.
fn convolution(c: &Call) -> Option<Vec<Value>> {
    let (input, weight, ty) = (c.tensor(0)?, c.tensor(1)?, c.result_type(0));
    let is_single = |ty: Type| ty.element().is_float() && ty.element().width() == 32 && ty.rank() == 4;
    let flag = |i: usize| c.arg(i).and_then(Attr::as_bool);
    ([input.ty(), weight.ty(), ty].into_iter().all(is_single) && flag(6) == Some(false) && in_order(c)).then_some(())?;
    let pair = |i: usize| match c.ints(i)?[..] {
        [both] => Some([both, both]),
        [first, second] => Some([first, second]),
        _ => None,
    };
    let (strides, padding, dilation) = (pair(3)?, pair(4)?, pair(5)?);
    let sums = c.e.convolution(input, weight, [strides, padding, dilation], c.int(8)?, ty);
    let windows = Windows::of(sums.def()?, &input.ty().strides())?;
    is_possible_windows(&windows, c.vector_bits).then_some(())?;
    let decision = c.choices.decide(c.op.ctx(), is_worth_generating_windows(&windows, c.vector_bits), || {
        let numbers = [strides, padding, dilation].map(Vec::from).into_iter().chain([vec![windows.groups]]).collect();
        let (schema, strategies) = (c.schema().to_owned(), strategy::window_strategies(&windows, c.vector_bits));
        Some(Question { schema, operands: layouts(c), numbers, followed: is_followed(c.op), work: windows.work(), strategies })
    });
    let sums = decided(decision, || sums)?;
    Some(vec![match c.tensor(2) {
        Some(bias) => c.e.add(sums, c.e.broadcast(bias, &ty.shape(), &[1])),
        None => sums,
    }])
}

/// Whether eager makes the result, and got the images, in row-major order.
pub(super) fn in_order(c: &Call) -> bool {
    let strides = |name: &str| c.op.attr(name).and_then(Attr::as_array)?.first()?.as_i64s();
    let row_major = |ty: Type, given: Option<Vec<i64>>| {
        given.is_none_or(|given| ty.shape().iter().zip(ty.strides().iter().zip(&given)).all(|(&size, (a, b))| size == 1 || a == b))
    };
    row_major(c.result_type(0), strides("result_strides"))
        && c.tensor(0).is_some_and(|input| row_major(input.ty(), strides("operand_strides")))
}

fn addmm(c: &Call) -> Option<Vec<Value>> {
    added(c, 0)
}

fn baddbmm(c: &Call) -> Option<Vec<Value>> {
    added(c, 1)
}
