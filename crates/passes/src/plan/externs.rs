//! The properties of an extern op's memory operands and results.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Type, Value},
    ops::{AtenOp, ExternOp, Route},
    pass::PassError,
};
use dynamlir_reasons::COMPLEX;
use dynamlir_shapes::Dim;

use super::careful::is_empty;

/// The layouts in which extern ops expect their operands.
pub fn extern_operands(block: Block) -> Vec<(Value, Vec<Dim>)> {
    let mut wanted = Vec::new();
    for call in block.ops().into_iter().filter_map(AtenOp::cast) {
        wanted.extend(call.inputs().into_iter().zip(strides(call.operand_strides())));
    }
    wanted
}

/// The contents of `operand_strides` or `result_strides`; empty if the attribute is absent.
pub fn strides(lists: Option<Vec<Attr>>) -> Vec<Vec<Dim>> {
    lists.unwrap_or_default().into_iter().map(|list| <Vec<Dim>>::read(list).unwrap_or_default()).collect()
}

/// Returns true for extern ops that can write into memory that we provide, because their C function has that form.
pub fn has_out_form(schema: &str, result: Type) -> bool {
    matches!(schema, "aten.mm.default" | "aten.addmm.default" | "aten.bmm.default" | "aten.baddbmm.default")
        && result.element().is_float()
        && !is_empty(&result.dims())
}

/// Refuses results that only an operator could copy into the caller's memory: it might raise half-way.
pub fn may_write(ret: Op, value: Value) -> Result<(), PassError> {
    if value.ty().element().is_complex() {
        return Err(PassError::refusal(ret, COMPLEX, "complex numbers of an argument are written"));
    }
    Ok(())
}

/// Copies between memrefs of an element type that kernels do not support.
pub fn copy_by_torch(b: &Builder, from: Value, to: Value) {
    ExternOp::build(b, Route::Dispatcher, "aten.alias_copy.default", &[from], &[to], &[Attr::operand(b.ctx(), 0)], None, None, &[]);
}
