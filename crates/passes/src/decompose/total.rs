//! Which operators never raise, so that a call that nothing uses may be dropped.
//!
//! Eager runs an operation whether its result is used or not, and may raise on what its operands hold: an index out of range,
//! a divisor of 0, a matrix without an inverse, or an element type for which the kernel does not exist although the
//! metadata was accepted. So what stands here is a promise, and what does not stand here is run. Two kinds of operators need no
//! entry: those that are lowered leave a `dynamo.check_range` behind where they may raise, and are as pure as their
//! primitives otherwise; and views are lowered, too. Operators that draw random numbers must never stand here: those
//! after them would draw others.

use dynamlir_dialect::{ir::Op, ops::AtenOp};

/// Extern operators that give a result for any `f32` or `f64` operands of the right shapes.
const TOTAL: &[&str] = &[
    "aten.addmm.default",
    "aten.baddbmm.default",
    "aten.bmm.default",
    "aten.convolution.default",
    "aten.mm.default",
    "aten.sort.default",
    "aten.sort.stable",
    "aten.topk.default",
];

/// Whether this `dynamo.aten` op is certain not to raise.
pub(crate) fn is_total(op: Op) -> bool {
    let single = |value: dynamlir_dialect::ir::Value| {
        let element = value.ty().element();
        element.is_float() && element.width() >= 32
    };
    let Some(schema) = AtenOp::cast(op).map(AtenOp::schema) else { return false };
    if schema == "aten.as_strided_copy.default" {
        // Fakes have been shown the window.
        return true;
    }
    TOTAL.contains(&schema.as_str()) && op.operands().into_iter().all(single)
}
