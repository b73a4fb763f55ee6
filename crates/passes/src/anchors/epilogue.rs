//! The epilogue, from a block of sums to a block of the results: the root's own body, on parts of its operands.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Builder, Value},
    upstream::linalg,
};

use super::{
    code::Code,
    kernel::{Kernel, Role, RootOperand},
};

/// A block of the result.
#[derive(Clone)]
pub(super) struct Block {
    /// The index along each outer dimension.
    pub(super) outer: Vec<Value>,
    /// First line of lhs, and the number of lines.
    pub(super) left: (Value, i64),
    /// First column of rhs, and the number of columns.
    pub(super) right: (Value, i64),
}

/// The place of a block's sums: the memory, the index of the first sum, and the strides of lines and columns.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) memory: Value,
    pub(super) from: Option<Value>,
    pub(super) strides: (i64, i64),
}

/// Computes the results of one block.
pub(super) fn apply(code: Code, kernel: &Kernel, block: &Block, sums: Sums) {
    let place = |dim: usize| match kernel.roles[dim] {
        Role::Outer(outer) => (block.outer[outer], 1),
        Role::Left => block.left,
        Role::Right => block.right,
    };
    let part = |access: &[Option<usize>], memory: Value| {
        let zero = code.index(0);
        let (offsets, sizes): (Vec<_>, Vec<_>) = access.iter().map(|dim| dim.map_or((zero, 1), place)).unzip();
        code.part(memory, &offsets, &sizes)
    };
    let all_sums = || {
        let each = kernel.roles.iter().enumerate().map(|(dim, role)| match role {
            Role::Outer(_) => (1, 1),
            Role::Left => (place(dim).1, sums.strides.0),
            Role::Right => (place(dim).1, sums.strides.1),
        });
        let (sizes, strides): (Vec<_>, Vec<_>) = each.unzip();
        code.recast(sums.memory, sums.from, &sizes, &strides)
    };
    let operands: Vec<Value> = kernel
        .operands
        .iter()
        .map(|operand| match operand.given {
            RootOperand::Sums => all_sums(),
            RootOperand::Memory(memory) => part(&operand.access, memory),
            RootOperand::Scalar(value) => value,
        })
        .collect();

    let kept = ["indexing_maps", "iterator_types", "operandSegmentSizes"];
    let attrs: Vec<_> = kept.iter().filter_map(|&name| Some((name, kernel.root.attr(name)?))).collect();
    let Some(source) = kernel.root.body() else { return };
    let types: Vec<_> = source.args().iter().map(|arg| arg.ty()).collect();
    let (_, body) = code.b.with_loc(kernel.root.loc()).op_with_body(linalg::GENERIC, &operands, &[], &attrs, &types);
    let mut inside: HashMap<Value, Value> = source.args().into_iter().zip(body.args()).collect();
    let end = Builder::at_end(body, kernel.root.loc());
    for op in source.ops() {
        let copy = op.clone_detached();
        for (index, operand) in op.operands().into_iter().enumerate() {
            if let Some(&value) = inside.get(&operand) {
                copy.set_operand(index, value);
            }
        }
        end.insert(copy);
        inside.extend(op.results().into_iter().zip(copy.results()));
    }
}
