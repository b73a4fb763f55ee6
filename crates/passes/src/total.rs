//! Operators that never raise, so that an unused call can be dropped.
//!
//! Eager runs an operation regardless of whether its result is used. It may raise depending on the operands' values: an index out of range,
//! a divisor of 0, a singular matrix, or an element type without a kernel although the metadata was accepted. So an operator listed here is
//! guaranteed not to raise; one that is not listed is run. Two kinds of operators need no entry. Those that are lowered leave a
//! `dynamo.check_range` where they may raise, and are otherwise as pure as their primitives. Views are lowered, too. Operators that draw
//! random numbers must never be listed: the calls after them would draw different numbers.

use dynamlir_dialect::{
    ir::{Block, Op},
    ops::AtenOp,
};

/// Extern operators that return a result for any `f32` or `f64` operands of valid shapes.
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

/// Returns true if this `dynamo.aten` op never raises.
pub(crate) fn is_total(op: Op) -> bool {
    let single = |value: dynamlir_dialect::ir::Value| {
        let element = value.ty().element();
        element.is_float() && element.width() >= 32
    };
    let Some(schema) = AtenOp::cast(op).map(AtenOp::schema) else { return false };
    if schema == "aten.as_strided_copy.default" {
        // The fake tensors have validated the window.
        return true;
    }
    TOTAL.contains(&schema.as_str()) && op.operands().into_iter().all(single)
}

/// Erases unused primitives, and unused `ATen` ops that are known neither to raise nor to draw random numbers.
pub(crate) fn sweep(block: Block) {
    for op in block.ops().into_iter().rev() {
        if op.is_unused() && op.num_results() > 0 && (op.is_pure() || (op.is(AtenOp::NAME) && is_total(op))) {
            op.erase();
        }
    }
}
