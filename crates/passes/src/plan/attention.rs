//! Kernels with attention: its operands keep their windows, and the kernel gets its schedule.
//!
//! ```mlir
//! func.func @product_attention(%q: memref<1x4x128x64xf32, strided<[…]>>, %k: …, %v: …, %out: memref<4x128x64xf32, strided<[…]>>)
//!     attributes {dynamo.matmul = {block = 128, …}, …}
//! ```

use dynamlir_dialect::{
    ir::{Block, Loc, Op},
    ops,
    pass::PassError,
};
use dynamlir_shapes::Scope;

use super::{
    Window,
    domain::{Loops, Operand},
    kernels::{Kernels, Plan, Specialised, Template, is_table},
    views::numbers_of,
};
use crate::anchors::attention::{Heads, choose};

impl Kernels {
    /// The kernel of `template`, whose attention is `op`, for operands with these windows (arguments, then results).
    pub(super) fn attention(
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
        let operand = |i: usize| Operand { window: &windows[i], dims: (0..rank).collect(), written: i >= args.len() };
        let operands: Vec<Operand<'_>> = (0..windows.len()).filter(|&i| !is_table(i)).map(operand).collect();
        let all: Vec<usize> = (0..rank).collect();
        let loops = Loops::merged(&all, &template.domain, &[], &operands, &all);
        let numbers = numbers_of(op, windows)?;
        let strides = |operand: usize| op.operand(operand).arg_index().map(|i| numbers[i].strides.clone());
        let strides: Option<Vec<_>> = (0..op.num_operands()).map(strides).collect();
        let heads =
            strides.and_then(|strides| Heads::of(op, &strides)).ok_or_else(|| fault("expected attention of the kernel's arguments"))?;
        let schedule = choose(&heads, self.vector_bits).ok_or_else(|| fault("attention to too many lines"))?;
        let seen = windows.to_vec();
        let (func, sizes) = self.build(template, &Plan { loops: &loops, windows: &seen, old: &[], scratch: 0 }, scope, loc)?;
        ops::MATMUL.set(func, schedule.to_attr(self.ctx));
        Ok(Specialised { name: self.intern(func, &template.name), windows: seen, scratch: 0, sizes })
    }
}
