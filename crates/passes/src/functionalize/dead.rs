//! Removal of what nothing uses.

use dynamlir_dialect::ir::{Block, Op};

/// Parts of names of operators that draw random numbers: dropping one would change what the next one draws.
const RANDOM: &[&str] = &[
    "rand",
    "bernoulli",
    "binomial",
    "cauchy",
    "dropout",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "normal",
    "poisson",
    "rrelu",
    "sample_dirichlet",
    "standard_gamma",
    "uniform",
];

/// Erases operations without uses or effects, users before what they use.
pub fn remove(block: Block) {
    for op in block.ops().into_iter().rev() {
        if op.is_unused() && is_removable(op) {
            op.erase();
        }
    }
}

/// A `dynamo.aten` without results is there for its effect; one that is random has to run in its turn.
fn is_removable(op: Op) -> bool {
    if !op.is("dynamo.aten") {
        return op.is_pure() && op.num_results() > 0;
    }
    let schema = op.attr_str("schema").unwrap_or_default();
    let name = schema.split('.').nth(1).unwrap_or_default();
    op.num_results() > 0 && !RANDOM.iter().any(|part| name.contains(part))
}
