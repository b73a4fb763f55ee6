//! Removal of what nothing uses.

use dynamlir_dialect::ir::{Block, Op};

/// Erases operations without uses or effects, users before what they use.
///
/// A `dynamo.aten` op stays, used or not, unless it is one of the `views`: in eager it would have run, and raised where an
/// index is out of range or a divisor is 0. `dynamo-decompose` knows which ones never raise.
pub fn remove(block: Block, views: &[Op]) {
    for op in block.ops().into_iter().rev() {
        if op.is_unused() && (views.contains(&op) || op.is_pure() && op.num_results() > 0) {
            op.erase();
        }
    }
}
