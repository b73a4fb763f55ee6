//! Products of matrices on tensor cores.

use dynamlir_dialect::{
    ir::{Builder, Op},
    pass::PassResult,
};

/// Whether a kernel is a product of matrices.
pub(crate) fn is_product(_function: Op) -> bool {
    false
}

/// Writes it.
pub(crate) fn write(_function: Op, _device: &mut dyn FnMut(Op) -> Builder) -> PassResult {
    Ok(())
}
