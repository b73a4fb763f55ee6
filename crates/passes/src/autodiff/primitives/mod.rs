//! Derivatives of primitives: of what functionalization makes, and of programs that were written by hand.

mod index;
mod moves;
mod pointwise;
mod product;
mod reduce;

use dynamlir_dialect::ops::DynamoOp;

pub use moves::put_back;

use super::at::At;

/// Whether small changes of operands can change the result: integers and steps have no gradients.
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

/// Gives the gradients of a primitive's operands; None where nothing is known.
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
