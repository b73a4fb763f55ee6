//! Lowerings that are taken back: what was emitted for an op goes again, and the op stays an extern call.
//!
//! That is what happens to primitives without GPU code, and to those on elements that they do not take: fakes accept more
//! element types than eager's kernels do (`glu` of integers), which raise.

use dynamlir_dialect::ir::{Op, Value};

/// Stands before an op that is being lowered, so that what is emitted lies between the two.
pub struct Mark {
    mark: Op,
    op: Op,
}

impl Mark {
    /// Puts a mark before an op.
    pub fn before(op: Op) -> Option<Self> {
        let mark = op.clone_detached();
        op.block()?.insert_before(op, mark);
        Some(Self { mark, op })
    }

    /// Takes the mark away. Where something `bad` was emitted, all that was emitted goes, too, and the answer is false.
    pub fn keeps(self, bad: impl Fn(Op) -> bool) -> bool {
        let mut emitted = Vec::new();
        let mut at = self.mark.next();
        while let Some(op) = at.filter(|&op| op != self.op) {
            emitted.push(op);
            at = op.next();
        }
        self.mark.erase();
        let keeps = !emitted.iter().any(|&op| bad(op));
        if !keeps {
            emitted.into_iter().rev().for_each(Op::erase);
        }
        keeps
    }
}

/// Whether an elementwise primitive computes with elements that it does not take.
pub fn is_mistyped(op: Op) -> bool {
    let takes = |value: Value| {
        let element = value.ty().element();
        match op.name().trim_start_matches("dynamo.") {
            "compare" | "select" | "convert" | "bitcast" | "max" | "min" => true,
            "neg" | "abs" | "add" | "sub" | "mul" | "div" | "rem" => !element.is_bool(),
            "not" | "and" | "or" | "xor" | "shl" | "shr" => element.is_int(),
            _ => element.is_float(),
        }
    };
    op.is_elementwise() && !op.operands().into_iter().all(takes)
}
