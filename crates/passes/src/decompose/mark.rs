//! Finds the ops emitted by a lowering: everything between a mark and the op being lowered.

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    ops::FullOp,
};

/// An op placed before the op that is being lowered and before everything emitted for it.
pub struct Mark(Option<Op>);

impl Mark {
    /// Creates a mark for the ops of a block. In an empty block it marks nothing.
    pub fn new(block: Block) -> Self {
        let first = block.ops().first().copied();
        let make = |op: Op| {
            let (b, ty) = (Builder::before(op), Type::tensor(&[], Type::f32(op.ctx())));
            FullOp::build(&b, dynamlir_dialect::ir::Attr::scalar(ty.element(), 0.0), ty).op()
        };
        Self(first.map(make))
    }

    /// Moves the mark so that everything emitted for `op` from now on follows it.
    pub fn put_before(&self, op: Op) {
        if let Some(mark) = self.0 {
            mark.move_before(op);
        }
    }

    /// Returns the ops emitted for `op`.
    pub fn emitted(&self, op: Op) -> Vec<Op> {
        std::iter::successors(self.0.and_then(Op::next), |op| op.next()).take_while(|&next| next != op).collect()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(mark) = self.0 {
            mark.erase();
        }
    }
}

/// Returns true if an elementwise primitive has operands of an element type that it does not accept. Fake tensors accept more element types
/// than eager's kernels do (`glu` of integers), and the kernels raise.
pub fn is_mistyped(op: Op) -> bool {
    let takes = |value: Value| {
        let element = value.ty().element();
        match op.name().trim_start_matches("dynamo.") {
            "compare" | "select" | "convert" | "bitcast" | "max" | "min" => true,
            "neg" | "abs" | "add" | "sub" | "mul" | "div" | "rem" => !element.is_bool(),
            "not" | "and" | "or" | "xor" | "shl" | "shr" | "random" => element.is_int(),
            _ => element.is_float(),
        }
    };
    op.is_elementwise() && !op.operands().into_iter().all(takes)
}
