//! `linalg`.

use super::segments;
use crate::{
    ffi,
    ir::{AffineMap, Attr, Block, Builder, Ctx, Op, Type, Value},
};

/// The dialect.
pub const DIALECT: &str = "linalg";

names! {
    FILL = "linalg.fill";
    GENERIC = "linalg.generic";
    INDEX = "linalg.index";
    MATMUL = "linalg.matmul";
    YIELD = "linalg.yield";
}

/// `#linalg.iterator_type<parallel>` or `<reduction>`.
pub fn iterator_type(ctx: Ctx, is_reduction: bool) -> Attr {
    // SAFETY: the context is live; the attribute is uniqued in it.
    Attr::from_raw(unsafe { ffi::dynamoIteratorTypeAttrGet(ctx.raw(), is_reduction) })
}

/// The number of the loop whose index a `linalg.index` yields; `None` for another operation.
pub fn index_dim(op: Op) -> Option<i64> {
    op.is(INDEX).then(|| op.required("dim"))
}

/// For each loop of a `linalg.generic`, true if it is a reduction.
///
/// # Panics
/// If it is another operation.
pub fn reductions(generic: Op) -> Vec<bool> {
    let types: Vec<Attr> = generic.required("iterator_types");
    // SAFETY: the attribute is live as long as its context.
    types.into_iter().map(|ty| unsafe { ffi::dynamoIteratorTypeAttrIsReduction(ty.raw()) }).collect()
}

/// The indexing maps of a structured operation; `None` for a named operation without explicit ones.
pub fn indexing_maps(op: Op) -> Option<Vec<AffineMap>> {
    op.optional::<Vec<Attr>>("indexing_maps")?.into_iter().map(<AffineMap as crate::ir::AttrValue>::read).collect()
}

/// The number of destination operands of a `linalg.generic`.
pub fn outputs(generic: Op) -> usize {
    let segments = generic.attr("operandSegmentSizes").and_then(Attr::as_i32s).unwrap_or_default();
    segments.get(1).map_or(0, |&count| usize::try_from(count).unwrap_or(0))
}

/// The types of the results: those of the destinations that are tensors. Destinations in memory are written and have no result.
fn results(outs: &[Value]) -> Vec<Type> {
    outs.iter().map(|out| out.ty()).filter(|ty| ty.is_tensor()).collect()
}

impl Builder {
    /// `linalg.generic` with an empty body; the maps of the inputs are followed by those of the destinations.
    pub fn linalg_generic(
        &self,
        inputs: &[Value],
        outs: &[Value],
        maps: &[AffineMap],
        reductions: &[bool],
        attrs: &[(&str, Attr)],
    ) -> (Op, Block) {
        let ctx = self.ctx();
        let maps: Vec<_> = maps.iter().map(|map| map.as_attr()).collect();
        let iterators: Vec<_> = reductions.iter().map(|&is_reduction| iterator_type(ctx, is_reduction)).collect();
        let own = [
            ("indexing_maps", Attr::array(ctx, &maps)),
            ("iterator_types", Attr::array(ctx, &iterators)),
            segments(ctx, &[inputs.len() as i32, outs.len() as i32]),
        ];
        let operands = [inputs, outs].concat();
        let elements: Vec<_> = operands.iter().map(|operand| operand.ty().element()).collect();
        self.op_with_body(GENERIC, &operands, &results(outs), &[&own, attrs].concat(), &elements)
    }
    /// `linalg.fill`.
    pub fn linalg_fill(&self, value: Value, out: Value, attrs: &[(&str, Attr)]) -> Op {
        let own = [segments(self.ctx(), &[1, 1])];
        let elements = [value.ty(), out.ty().element()];
        let (op, body) = self.op_with_body(FILL, &[value, out], &results(&[out]), &[&own, attrs].concat(), &elements);
        Self::at_end(body, self.loc).linalg_yield(&body.args()[..1]);
        op
    }
    /// `linalg.index`.
    pub fn linalg_index(&self, dim: usize) -> Value {
        self.value(INDEX, &[], Type::index(self.ctx()), &[super::number(self.ctx(), "dim", dim as i64)])
    }
    /// `linalg.yield`.
    pub fn linalg_yield(&self, values: &[Value]) -> Op {
        self.op(YIELD, values, &[], &[])
    }
}
