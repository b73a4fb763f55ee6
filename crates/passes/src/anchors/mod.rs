//! Anchors: the operations that a kernel is built around, because they read memory in an order of their own. They are matrix products,
//! convolutions, attention and maxima of windows. This module decides when to generate code for them, cuts their loops, and builds the
//! code.
//!
//! ```text
//! result[o…, m, n] = epilogue(Σ_k lhs[o…, m, k] · rhs[o…, k, n])
//! ```
//! One operand is in the *lanes* of vectors; elements of the other, the *rows*, are broadcast to them. A tile of `rows × vectors`
//! accumulators stays in registers while k runs:
//!
//! | form | when | lanes |
//! |---|---|---|
//! | panels | both sides are large | copied to panels of a few vectors by k, once, into scratch memory |
//! | stream | few rows, and lanes are contiguous in memory | read in place, some lines side by side |
//! | dots | few rows, and k is contiguous | along k; vectors are summed up at the end |
//!
//! The lanes of panels usually hold the smaller operand: in `x @ W.T` that is x. So weights are read in place, once each, in their own
//! layout, so no copy of them can become stale.
//!
//! The sums of a block of the result are in a buffer in the innermost cache. The epilogue, a `linalg.generic` over the block, computes the
//! result from them.
//!
//! A convolution is such a product with windows in its panels ([`windows`], `convolve`, `images`). If each channel has its own window,
//! tiles have nothing to share, and positions are added up along memory (`plane`, `planes`). The maxima of windows are computed in the same
//! way.
//!
//! Attention ([`attention`], `attend`) is two such products with a `softmax` between them.
//!
//! [`problem`] describes a product. [`choose`] decides (a [`choose::Schedule`] is data on the kernel) unless a measurement has decided
//! ([`choices`], [`strategy`]). `lower` builds the loops; `pack`, `tile` and `dots` build their bodies.

mod attend;
pub mod attention;
pub mod choices;
pub mod choose;
mod code;
mod convolve;
pub mod cut;
mod dots;
mod epilogue;
mod images;
mod kernel;
mod lower;
mod pack;
mod plane;
mod planes;
pub mod problem;
mod softmax;
pub mod strategy;
mod tile;
pub mod windows;

pub(crate) use kernel::scratch;
pub(crate) use lower::lower;

use dynamlir_dialect::{
    ir::{Block, Op},
    ops::{AttentionOp, ConvolutionOp, MatmulOp, MaxPoolOp},
};

/// Returns true if an operation sums up products of its operands' elements in memory, or takes the maximum of windows of them.
pub fn is_anchor(op: Op) -> bool {
    op.is(MatmulOp::NAME) || op.is(AttentionOp::NAME) || has_windows(op)
}

/// Returns true if the operation iterates over windows of images.
pub fn has_windows(op: Op) -> bool {
    op.is(ConvolutionOp::NAME) || op.is(MaxPoolOp::NAME)
}

/// Returns true if the distance from the first element of a window to any other fits 32 bits, the element type of distance vectors.
pub(crate) fn reaches_by_i32(sizes: &[i64], strides: &[i64]) -> bool {
    let along = |(&size, &stride): (&i64, &i64)| (size - 1).max(0).saturating_mul(stride);
    sizes.iter().zip(strides).map(along).fold(0_i64, i64::saturating_add) <= i64::from(i32::MAX)
}

/// Returns the anchor of a kernel on primitives.
pub fn find(body: Block) -> Option<Op> {
    body.ops().into_iter().find(|&op| is_anchor(op))
}
