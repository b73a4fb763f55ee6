//! Products of matrices. Whether code or the library computes them is for `dynamo-select`.

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::AtenOp,
};

use super::{Call, Lowering, activation, arith, pointwise};

/// Schema and lowering. What is declined stays an extern call.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.addmm.default", addmm),
    ("aten.baddbmm.default", baddbmm),
    ("aten.bmm.default", bmm),
    ("aten.mm.default", mm),
    ("aten.mv.default", mm),
];

/// The product, for which there is code in single precision only.
fn product(c: &Call, lhs: Value, rhs: Value, batch: usize) -> Option<Value> {
    let real = [lhs.ty(), rhs.ty(), c.result_type(0)].iter().all(|ty| ty.element().is_f32());
    real.then(|| c.e.matmul(lhs, rhs, batch))
}

/// Whether something point by point follows, that can be its epilogue.
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

/// `self + lhs @ rhs`; with other factors it is left to the library.
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
