//! A module as a program: named functions that are called from outside, and kernels that they share.
//!
//! ```mlir
//! module {
//!   func.func @forward(…) attributes {dynamo.entry} { … dynamo.launch @kernels::@exp_0(…) … }
//!   func.func @backward(…) attributes {dynamo.entry} { … dynamo.launch @kernels::@exp_0(…) … }
//!   module @kernels { func.func @exp_0(…) attributes {dynamo.kernel} { … } }
//! }
//! ```
//! Each entry has its own plan, workspace and outputs. Functions without `dynamo.entry` are called by entries.

use crate::{
    ir::{Block, Op},
    ops,
    upstream::{MODULE, func},
};

/// The module of kernels.
pub const KERNELS: &str = "kernels";

/// The functions with `dynamo.entry`, in the order of the text.
#[must_use]
pub fn entries(module: Op) -> Vec<Op> {
    let ops = module.body().map(Block::ops).unwrap_or_default();
    ops.into_iter().filter(|op| op.is(func::FUNC) && ops::ENTRY.is_on(*op)).collect()
}

/// `module @kernels`.
#[must_use]
pub fn kernels_module(module: Op) -> Option<Op> {
    module.body()?.ops().into_iter().find(|op| op.is(MODULE) && op.symbol().as_deref() == Some(KERNELS))
}

/// The functions in `module @kernels`, declarations among them.
#[must_use]
pub fn kernels(module: Op) -> Vec<Op> {
    kernels_module(module).and_then(Op::body).map(Block::ops).unwrap_or_default()
}
