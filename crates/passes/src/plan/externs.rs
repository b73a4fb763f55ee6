//! What an extern op says of the memory that it reads and writes.

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op, Type, Value},
    pass::PassError,
};
use dynamlir_reasons::COMPLEX;

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

/// Refuses results that only an operator could copy into what the caller has given: it might raise half-way.
pub fn may_write(ret: Op, value: Value) -> Result<(), PassError> {
    if value.ty().element().is_complex() {
        return Err(PassError::refusal(ret, COMPLEX, "complex numbers of an argument are written"));
    }
    Ok(())
}

/// A copy between memrefs of what has no kernels.
pub fn copy_by_torch(b: &Builder, from: Value, to: Value) -> Result<(), PassError> {
    let ctx = b.ctx();
    let attribute = |text| Attr::parse(ctx, text).ok_or_else(|| PassError::module(format!("cannot write {text}")));
    let attrs = [
        ("route", attribute("#dynamo<route dispatcher>")?),
        ("schema", Attr::str(ctx, "aten.alias_copy.default")),
        ("args", Attr::array(ctx, &[Attr::operand(ctx, 0)])),
        ("operandSegmentSizes", attribute("array<i32: 1, 1>")?),
    ];
    b.op("dynamo.extern", &[from, to], &[], &attrs);
    Ok(())
}
