//! Derivatives of primitives: those that functionalization emits, and those in hand-written programs.

mod index;
mod moves;
mod pointwise;
mod product;
mod reduce;

use dynamlir_dialect::ops::DynamoOp;

pub use moves::put_back;

use super::at::At;

/// Returns true if small changes of the operands can change the result: integers and step functions do not have gradients.
pub fn is_differentiable(op: DynamoOp) -> bool {
    !matches!(
        op,
        DynamoOp::Floor(_)
            | DynamoOp::Ceil(_)
            | DynamoOp::Round(_)
            | DynamoOp::Trunc(_)
            | DynamoOp::Nextafter(_)
            | DynamoOp::Compare(_)
            | DynamoOp::ArgReduce(_)
            | DynamoOp::CheckRange(_)
    )
}

/// Emits the gradients of a primitive's operands; returns None if the derivative is unknown.
pub fn differentiate(op: DynamoOp, at: &mut At) -> Option<()> {
    let g = at.g()?;
    match op {
        DynamoOp::Detach(_) => Some(()),
        DynamoOp::History(history) => {
            at.give_to(history.old(), g);
            Some(())
        }
        DynamoOp::Overwrite(overwrite) => {
            at.give_to(overwrite.value(), g);
            if at.wants(overwrite.old()) {
                at.give_to(overwrite.old(), at.a.zeros(overwrite.old()));
            }
            Some(())
        }
        _ => moves::differentiate(op, at, g)
            .or_else(|| reduce::differentiate(op, at, g))
            .or_else(|| index::differentiate(op, at, g))
            .or_else(|| product::differentiate(op, at, g))
            .or_else(|| pointwise::differentiate(op, at, g)),
    }
}
