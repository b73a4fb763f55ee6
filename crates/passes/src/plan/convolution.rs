//! Kernels with a convolution or a pooling: positions of the result become one dimension, and the kernel gets its schedule.
//!
//! ```mlir
//! func.func @product_convolution_max(%x: memref<1x64x56x56xf32>, %w: memref<64x64x3x3xf32>, %out: memref<64x3136xf32>,
//!     %scratch: memref<215296xf32> {dynamo.scratch}) attributes {dynamo.matmul = {chunk = 2, …}, …}
//! ```
//! The scratch memory holds the images padded with zeros.

use dynamlir_dialect::{
    ir::{Block, Loc, Op},
    ops::{self, AttentionOp},
    pass::PassError,
};
use dynamlir_shapes::Scope;

use super::{
    NumberWindow, Window,
    domain::{Loops, Operand},
    kernels::{Kernels, Plan, Specialised, Template, is_table},
    views::numbers_of,
};
use crate::anchors::{
    self,
    strategy::{self, Strategy},
    windows::Windows,
};

impl Kernels {
    /// The kernel of `template`, whose convolution is `op`, for operands with these windows (arguments, then results).
    pub(super) fn convolution(
        &mut self,
        template: &Template,
        op: Op,
        (windows, scope): (&[Window], &Scope),
        loc: Loc,
    ) -> Result<Specialised, PassError> {
        let fault = |what| PassError::at(op, what);
        let rank = template.domain.len();
        let args = template.func.body().map(Block::args).unwrap_or_default();
        let is_table = |i: usize| args.get(i).is_some_and(|&arg| is_table(arg));
        let input = op.operand(0).arg_index().ok_or_else(|| fault("expected a convolution of the kernel's arguments"))?;
        let known =
            Windows::of(op, &numbers_of(op, windows)?[input].strides).ok_or_else(|| fault("not a convolution over two dimensions"))?;

        let operand = |i: usize| Operand { window: &windows[i], dims: (0..rank).collect(), written: i >= args.len() };
        let operands: Vec<Operand<'_>> = (0..windows.len()).filter(|&i| !is_table(i)).map(operand).collect();
        let positions = known.result.iter().filter(|&&size| size != 1).count();
        let fixed: Vec<usize> = (0..rank - positions.min(rank)).collect();
        let loops = Loops::merged(&(0..rank).collect::<Vec<_>>(), &template.domain, &[], &operands, &fixed);
        let seen: Vec<Window> =
            windows.iter().enumerate().map(|(i, window)| if is_table(i) { window.clone() } else { loops.window(&operand(i)) }).collect();
        let scratch = known.copy();
        let (func, sizes) = self.build(template, &Plan { loops: &loops, windows: &seen, old: &[], scratch }, scope, loc)?;
        match strategy::window_schedule(&known, self.vector_bits, Strategy::on(op)?) {
            Ok(schedule) => ops::MATMUL.set(func, schedule.to_attr(self.ctx)),
            Err(reason) => return Err(fault(reason)),
        }
        Ok(Specialised { name: self.intern(func, &template.name), windows: seen, scratch, sizes })
    }
}

/// Returns true if a product's kernel can read an operand with this window. All operands must run forward through memory; a convolution's
/// weights must be row-major, and the operands of its epilogue must have a uniform stride along positions.
pub fn takes_operand(product: Op, number: usize, window: &Window) -> bool {
    let Some(window) = &window.known() else { return false };
    let is = |operand: usize| operand < product.num_operands() && product.operand(operand).arg_index() == Some(number);
    let forward = window.strides.iter().all(|&stride| stride >= 0);
    match anchors::has_windows(product) {
        // Elements of a mask are gathered by their offsets.
        false if product.is(AttentionOp::NAME) && is(3) => forward && anchors::reaches_by_i32(&window.sizes, &window.strides),
        false => forward,
        true if is(1) => window.is_row_major(),
        true if is(0) => forward && anchors::reaches_by_i32(&window.sizes, &window.strides),
        true => forward && writes(product, window),
    }
}

/// Returns true if a product's kernel can write a result with this window.
pub fn takes_result(product: Op, window: &Window) -> bool {
    window.known().is_some_and(|window| writes(product, &window))
}

fn writes(product: Op, window: &NumberWindow) -> bool {
    let shape = product.result(0).ty().shape();
    let rank = window.sizes.len();
    // If height or width is 1, the other dimension contains all positions.
    let both = anchors::has_windows(product) && Windows::of(product, &[0; 4]).is_some_and(|windows| !windows.result.contains(&1));
    !both || window.sizes != shape || rank < 2 || window.strides[rank - 2] == window.strides[rank - 1] * window.sizes[rank - 1]
}
