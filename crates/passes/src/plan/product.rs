//! Kernels with a matrix product: evenly spaced lines become one dimension, and the product gets its schedule.
//!
//! ```mlir
//! func.func @product_add(%bias: memref<128x768xf32, strided<[0, 1]>>, %x: memref<128x256xf32>,
//!     %w: memref<256x768xf32, strided<[1, 256]>>, %out: memref<128x768xf32>, %scratch: memref<32768xf32> {dynamo.scratch})
//!     attributes {dynamo.matmul = {form = "panels", …}, …}
//! ```
//! Types other than `f32` get no schedule: they are plain loops. The order of dimensions is kept: batch, lines of the left operand, columns
//! of the right one.

use dynamlir_dialect::{
    ir::{Block, Loc, Op, Type},
    ops::{self, MatmulOp},
    pass::PassError,
};
use dynamlir_shapes::Scope;

use super::{
    Window,
    domain::{Loops, Operand},
    kernels::{Kernels, Plan, Specialised, Template, is_table},
    views::numbers_of,
};
use crate::anchors::{
    problem::Problem,
    strategy::{self, Strategy},
};

impl Kernels {
    /// The kernel of `template`, whose product is `op`, for operands with these windows (arguments, then results).
    pub(super) fn product(
        &mut self,
        template: &Template,
        op: Op,
        (windows, scope): (&[Window], &Scope),
        loc: Loc,
    ) -> Result<Specialised, PassError> {
        let fault = |what| PassError::at(op, what);
        let rank = template.domain.len();
        let batch =
            MatmulOp::cast(op).and_then(|product| usize::try_from(product.batch()).ok()).ok_or_else(|| fault("a product without batch"))?;
        let at = |i: usize| op.operand(i).arg_index().ok_or_else(|| fault("expected a product of the kernel's arguments"));
        let (left, right) = (at(0)?, at(1)?);
        let args = template.func.body().map(Block::args).unwrap_or_default();
        let is_table = |i: usize| args.get(i).is_some_and(|&arg| is_table(arg));

        // k gets a dimension number after those of the domain.
        let lines = op.operand(0).ty().rank() - 1;
        let columns = op.operand(1).ty().rank() - batch - 1;
        let left_dims: Vec<usize> = (0..lines).chain([rank]).collect();
        let right_dims: Vec<usize> = (0..batch).chain([rank]).chain(rank - columns..rank).collect();
        let mut operands: Vec<Operand<'_>> = Vec::new();
        for (i, window) in windows.iter().enumerate().filter(|&(i, _)| !is_table(i)) {
            operands.push(Operand { window, dims: (0..rank).collect(), written: i >= args.len() });
        }
        operands.push(Operand { window: &windows[left], dims: left_dims.clone(), written: false });
        operands.push(Operand { window: &windows[right], dims: right_dims.clone(), written: false });
        // If both operands are the same memory, it can have only one shape, so nothing is merged.
        let fixed: Vec<usize> = if left == right { (0..rank).collect() } else { Vec::new() };
        let loops = Loops::merged(&(0..rank).collect::<Vec<_>>(), &template.domain, &[], &operands, &fixed);

        let mut seen = Vec::with_capacity(windows.len());
        for (i, window) in windows.iter().enumerate() {
            let dims = match i {
                _ if i == left => left_dims.clone(),
                _ if i == right => right_dims.clone(),
                _ if is_table(i) => {
                    seen.push(window.clone());
                    continue;
                }
                _ => (0..rank).collect(),
            };
            seen.push(merged(&loops, &Operand { window, dims, written: false }, rank));
        }
        let merged_batch = loops.groups.iter().filter(|group| group[0] < batch).count();
        let numbers = numbers_of(op, &seen)?;
        let parts = |at: usize| (numbers[at].sizes.clone(), numbers[at].strides.clone());
        let ((left_sizes, left_strides), (right_sizes, right_strides)) = (parts(left), parts(right));
        let problem = Problem::of(merged_batch, (&left_sizes, &left_strides), (&right_sizes, &right_strides));
        let is_single = op.result(0).ty().element() == Type::f32(self.ctx);
        let strategy = Strategy::on(op)?;
        let schedule = problem.as_ref().filter(|_| is_single).and_then(|problem| strategy::schedule(problem, self.vector_bits, strategy));
        let scratch = schedule.as_ref().zip(problem.as_ref()).map_or(0, |(schedule, problem)| schedule.scratch(problem));
        let (func, sizes) = self.build(template, &Plan { loops: &loops, windows: &seen, old: &[], scratch }, scope, loc)?;
        if let Some(schedule) = schedule {
            ops::MATMUL.set(func, schedule.to_attr(self.ctx));
        }
        Ok(Specialised { name: self.intern(func, &template.name), windows: seen, scratch, sizes })
    }
}

/// The window of the product's operand in the merged dimensions, with k in its original position.
fn merged(loops: &Loops, operand: &Operand<'_>, k: usize) -> Window {
    let mut window = Window { sizes: Vec::new(), strides: Vec::new(), offset: operand.window.offset.clone() };
    for (at, &dim) in operand.dims.iter().enumerate() {
        // Merged dimensions have the stride of the innermost one.
        let group = loops.groups.iter().zip(&loops.sizes).find(|(group, _)| group.contains(&dim));
        match group {
            None if dim == k => window.sizes.push(operand.window.sizes[at].clone()),
            Some((group, size)) if group.last() == Some(&dim) => window.sizes.push(size.clone()),
            _ => continue,
        }
        window.strides.push(operand.window.strides[at].clone());
    }
    window
}
