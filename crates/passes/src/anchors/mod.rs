//! Anchors: what a kernel is built around, because it reads memory in an order of its own. Products of matrices, convolutions,
//! attention and maxima of windows: when they are generated, how their loops are cut, and the code.
//!
//! ```text
//! result[o…, m, n] = epilogue(Σ_k lhs[o…, m, k] · rhs[o…, k, n])
//! ```
//! One operand lies in the *lanes* of vectors, elements of the other, the *rows*, are broadcast to them. A tile of
//! `rows × vectors` accumulators stays in registers while k runs:
//!
//! | form | when | lanes |
//! |---|---|---|
//! | panels | both sides are large | copied to panels of a few vectors by k, once, into scratch memory |
//! | stream | few rows, and lanes lie side by side in memory | read where they are, some lines side by side |
//! | dots | few rows, and k lies side by side | along k; vectors are summed up at the end |
//!
//! What lies in the lanes of panels is the smaller operand as a rule: of `x @ W.T` it is x. So weights are read where they
//! are, each once in its own layout, and there is no copy of them that could be out of date.
//!
//! Sums of a block of the result lie in a buffer in the innermost cache; the epilogue, a `linalg.generic` over the
//! block, makes the result of them.
//!
//! A convolution is such a product with windows in its panels ([`windows`], `convolve`, `images`). Where each channel has a window
//! of its own there is nothing to be shared in tiles, and positions are added up along memory (`plane`, `planes`); so are
//! the maxima of windows found.
//!
//! Attention ([`attention`], `attend`) is two such products with a `softmax` between them.
//!
//! [`problem`] is what is known of a product, [`choose`] decides (a [`choose::Schedule`] is data on the kernel) unless a
//! measurement has ([`choices`], [`strategy`]), `lower` builds loops, `pack`, `tile` and `dots` what is in them.

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

/// Whether an operation sums up products of what its operands have in memory, or takes the maximum of windows of it.
pub fn is_anchor(op: Op) -> bool {
    op.is(MatmulOp::NAME) || op.is(AttentionOp::NAME) || has_windows(op)
}

/// Whether it goes over windows of images.
pub fn has_windows(op: Op) -> bool {
    op.is(ConvolutionOp::NAME) || op.is(MaxPoolOp::NAME)
}

/// Whether 32 bits hold the distance from the first element of a window to each other one: vectors of distances have no more.
pub(crate) fn reaches_by_i32(sizes: &[i64], strides: &[i64]) -> bool {
    let along = |(&size, &stride): (&i64, &i64)| (size - 1).max(0).saturating_mul(stride);
    sizes.iter().zip(strides).map(along).fold(0_i64, i64::saturating_add) <= i64::from(i32::MAX)
}

/// The product of a kernel on primitives.
pub fn find(body: Block) -> Option<Op> {
    body.ops().into_iter().find(|&op| is_anchor(op))
}
