//! Removes unused operations.

use dynamlir_dialect::ir::{Block, Op};

/// Erases operations without uses or effects, users before their operands.
///
/// A `dynamo.aten` op is kept even if unused, unless it is one of the `views`: in eager it would have run, and raised for an index out of
/// range or a division by 0. `dynamo-decompose` knows the operators that never raise.
pub fn remove(block: Block, views: &[Op]) {
    for op in block.ops().into_iter().rev() {
        if op.is_unused() && (views.contains(&op) || op.is_pure() && op.num_results() > 0) {
            op.erase();
        }
    }
}
