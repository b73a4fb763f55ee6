//! What a lowering has emitted: everything between a mark and the op that is lowered.

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    ops::FullOp,
};

/// Stands before the op that is being lowered.
pub struct Mark(Option<Op>);

impl Mark {
    /// A mark for the ops of a block, which must not be empty.
    pub fn new(block: Block) -> Self {
        let first = block.ops().first().copied();
        let make = |op: Op| {
            let (b, ty) = (Builder::before(op), Type::tensor(&[], Type::f32(op.ctx())));
            FullOp::build(&b, dynamlir_dialect::ir::Attr::scalar(ty.element(), 0.0), ty).op()
        };
        Self(first.map(make))
    }

    /// What is emitted from now on for `op` comes after the mark.
    pub fn put_before(&self, op: Op) {
        if let Some(mark) = self.0 {
            mark.move_before(op);
        }
    }

    /// What was emitted for `op`.
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

/// Whether an elementwise primitive computes with elements that it does not take: fakes accept more element types than
/// eager's kernels do (`glu` of integers), which raise.
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
