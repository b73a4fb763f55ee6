//! What an extern op says of the memory that it reads and writes.

use dynamlir_dialect::ir::{Attr, Block, Op, Type, Value};

/// The layouts in which extern ops want their operands.
pub fn extern_operands(block: Block) -> Vec<(Value, Vec<i64>)> {
    let mut wanted = Vec::new();
    for op in block.ops().into_iter().filter(|op| op.is("dynamo.aten")) {
        for (value, strides) in op.operands().into_iter().zip(strides_attr(op, "operand_strides")) {
            wanted.push((value, strides));
        }
    }
    wanted
}

/// `operand_strides` or `result_strides`; empty where the op does not say.
pub fn strides_attr(op: Op, name: &str) -> Vec<Vec<i64>> {
    op.attr(name).and_then(Attr::as_array).unwrap_or_default().into_iter().map(|a| a.as_i64s().unwrap_or_default()).collect()
}

/// Extern ops that write into memory we give them, because their C function has that form.
pub fn has_out_form(schema: &str, result: Type) -> bool {
    matches!(schema, "aten.mm.default" | "aten.addmm.default" | "aten.bmm.default" | "aten.baddbmm.default")
        && result.element().is_float()
        && result.numel() > 0
}
