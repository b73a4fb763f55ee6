//! Products of matrices. `dynamo-select` decides whether generated code or the library computes them.

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{AtenOp, PermuteOp},
};
use dynamlir_shapes::Dim;

use super::{Call, Lowering, activation, arith, pointwise};

/// Lowerings by schema. A declined call stays an extern call.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.addmm.default", addmm),
    ("aten.baddbmm.default", baddbmm),
    ("aten.bmm.default", bmm),
    ("aten.mm.default", mm),
    ("aten.mv.default", mm),
];

/// Emits a product; only single precision has generated code.
fn product(c: &Call, lhs: Value, rhs: Value, batch: usize) -> Option<Value> {
    let real = [lhs.ty(), rhs.ty(), c.result_type(0)].iter().all(|ty| ty.element().is_f32());
    real.then(|| of_one_line(c, lhs, rhs, batch).unwrap_or_else(|| c.e.matmul(lhs, rhs, batch)))
}

/// A product with one row or one column and symbolic sizes: sums along lines of memory or down them, which read the other operand once, as
/// any code would. `dynamo.matmul` has code for static sizes only.
fn of_one_line(c: &Call, lhs: Value, rhs: Value, batch: usize) -> Option<Value> {
    let (left, right) = (lhs.ty().dims(), rhs.ty().dims());
    let is_open = lhs.ty().is_open() || rhs.ty().is_open();
    let is_one = |size: Option<&Dim>| size.is_none_or(|size| size.known() == Some(1));
    let (repeats, depth) = (&left[..batch], &right[batch]);
    let result = [repeats, &left[batch..=batch], &right[batch + 1..]].concat();
    // The operand with many lines, its dimension to be summed, and the single line.
    let (many, along, one) = match (is_one(Some(&left[batch])), is_one(right.get(batch + 1))) {
        _ if !is_open => return None,
        (_, true) => (lhs, batch + 1, rhs),
        (true, false) => (rhs, batch, lhs),
        (false, false) => return None,
    };
    let mut line = [repeats, &[Dim::from(1), Dim::from(1)]].concat();
    // If the operand is only transposed, sum the untransposed one along the other dimension, in the order of memory.
    let (many, along) = match PermuteOp::defining(many).filter(|turned| turned.dims() == exchanged(batch)) {
        Some(turned) => (turned.op().operand(0), 2 * batch + 1 - along),
        None => (many, along),
    };
    line[along] = depth.clone();
    let line = c.e.broadcast_to(c.e.reshape(one, &line), &many.ty().dims());
    let sums = c.e.sum(c.e.mul(many, line), &[along as i64], false);
    Some(c.e.reshape(sums, &result))
}

/// Returns the order of dimensions that swaps the last two, after `batch` batch dimensions.
fn exchanged(batch: usize) -> Vec<i64> {
    let (row, column) = (batch as i64, batch as i64 + 1);
    (0..row).chain([column, row]).collect()
}

/// Returns true if the product is used by a pointwise operation, which can be its epilogue.
pub(super) fn is_followed(op: Op) -> bool {
    let listed = |table: &[(&str, Lowering)], schema: &str| table.iter().any(|&(name, _)| name == schema);
    let is_pointwise = |schema: &str| [pointwise::TABLE, arith::TABLE, activation::TABLE].into_iter().any(|table| listed(table, schema));
    op.result(0).uses().into_iter().any(|used| match AtenOp::cast(used.op).map(AtenOp::schema).as_deref() {
        Some("aten.view.default" | "aten._unsafe_view.default" | "aten.reshape.default") => is_followed(used.op),
        Some(schema) => is_pointwise(schema),
        None => false,
    })
}

fn mm(c: &Call) -> Option<Vec<Value>> {
    Some(vec![product(c, c.tensor(0)?, c.tensor(1)?, 0)?])
}

fn bmm(c: &Call) -> Option<Vec<Value>> {
    Some(vec![product(c, c.tensor(0)?, c.tensor(1)?, 1)?])
}

/// `self + lhs @ rhs`; with factors other than 1 it is left to the library.
fn added(c: &Call, batch: usize) -> Option<Vec<Value>> {
    let is_one = |i: usize| c.scalar(i).is_some_and(|factor| factor.as_f64() == 1.0);
    let own = c.tensor(0)?;
    (is_one(3) && is_one(4) && own.ty().element() == c.result_type(0).element()).then_some(())?;
    let product = product(c, c.tensor(1)?, c.tensor(2)?, batch)?;
    Some(vec![c.e.add(product, c.e.broadcast_to(own, &product.ty().dims()))])
}

fn addmm(c: &Call) -> Option<Vec<Value>> {
    added(c, 0)
}

fn baddbmm(c: &Call) -> Option<Vec<Value>> {
    added(c, 1)
}
