//! Affine maps, as used for indexing maps and layouts.

use mlir_sys::*;

use super::{Attr, AttrValue, Ctx, print};

/// An expression of dimensions, symbols and constants.
#[derive(Clone, Copy)]
pub struct AffineExpr(MlirAffineExpr);

/// A map from dimensions to expressions of them, such as `(d0, d1) -> (d1, 0)`.
#[derive(Clone, Copy)]
pub struct AffineMap(MlirAffineMap);

// SAFETY of every block below: expressions and maps are uniqued in a context that outlives them; kinds are checked before
// kind-specific getters are called; indices are below the counts that MLIR reports; lists are passed with their own length and copied.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl AffineExpr {
    /// `d<index>`.
    pub fn dim(ctx: Ctx, index: usize) -> Self {
        Self(unsafe { mlirAffineDimExprGet(ctx.0, index as isize) })
    }
    /// A number.
    pub fn constant(ctx: Ctx, value: i64) -> Self {
        Self(unsafe { mlirAffineConstantExprGet(ctx.0, value) })
    }
    /// The number of the dimension, if the expression is just one dimension.
    pub fn as_dim(self) -> Option<usize> {
        unsafe { mlirAffineExprIsADim(self.0).then(|| mlirAffineDimExprGetPosition(self.0) as usize) }
    }
    /// The number of the symbol, if the expression is just one symbol.
    pub fn as_symbol(self) -> Option<usize> {
        unsafe { mlirAffineExprIsASymbol(self.0).then(|| mlirAffineSymbolExprGetPosition(self.0) as usize) }
    }
    /// Its value, if it is a constant.
    pub fn as_constant(self) -> Option<i64> {
        unsafe { mlirAffineExprIsAConstant(self.0).then(|| mlirAffineConstantExprGetValue(self.0)) }
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "as for `AffineExpr`")]
impl AffineMap {
    /// The map of `dims` dimensions to these results.
    pub fn new(ctx: Ctx, dims: usize, results: &[AffineExpr]) -> Self {
        let mut raw: Vec<_> = results.iter().map(|expr| expr.0).collect();
        Self(unsafe { mlirAffineMapGet(ctx.0, dims as isize, 0, raw.len() as isize, raw.as_mut_ptr()) })
    }
    /// The map of `dims` dimensions whose results are these dimensions.
    pub fn of_dims(ctx: Ctx, dims: usize, results: impl IntoIterator<Item = usize>) -> Self {
        let results: Vec<_> = results.into_iter().map(|dim| AffineExpr::dim(ctx, dim)).collect();
        Self::new(ctx, dims, &results)
    }
    /// `(d0, d1, …) -> (d0, d1, …)`.
    pub fn identity(ctx: Ctx, dims: usize) -> Self {
        Self(unsafe { mlirAffineMapMultiDimIdentityGet(ctx.0, dims as isize) })
    }
    /// The number of dimensions it takes.
    pub fn num_dims(self) -> usize {
        unsafe { mlirAffineMapGetNumDims(self.0) as usize }
    }
    /// The expressions that it maps to.
    pub fn results(self) -> Vec<AffineExpr> {
        (0..unsafe { mlirAffineMapGetNumResults(self.0) }).map(|i| AffineExpr(unsafe { mlirAffineMapGetResult(self.0, i) })).collect()
    }
    /// The dimensions that it maps to, if every result is a dimension.
    pub fn result_dims(self) -> Option<Vec<usize>> {
        self.results().into_iter().map(AffineExpr::as_dim).collect()
    }
    /// The map as an attribute.
    pub fn as_attr(self) -> Attr {
        Attr(unsafe { mlirAffineMapAttrGet(self.0) })
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "as for `AffineExpr`")]
impl AttrValue for AffineMap {
    type Given<'a> = Self;
    fn read(attr: Attr) -> Option<Self> {
        unsafe { mlirAttributeIsAAffineMap(attr.0).then(|| Self(mlirAffineMapAttrGetValue(attr.0))) }
    }
    fn write(_: Ctx, given: Self) -> Attr {
        given.as_attr()
    }
}

impl PartialEq for AffineMap {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both maps are live as long as their context.
        unsafe { mlirAffineMapEqual(self.0, other.0) }
    }
}
impl Eq for AffineMap {}

impl std::fmt::Debug for AffineMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the callback appends to a string that outlives the call.
        f.write_str(&print(|cb, data| unsafe { mlirAffineMapPrint(self.0, cb, data) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;

    #[test]
    fn maps_are_read_as_they_were_written() {
        let session = Session::new();
        let ctx = session.ctx();
        let map = AffineMap::new(ctx, 3, &[AffineExpr::dim(ctx, 2), AffineExpr::constant(ctx, 0)]);
        assert_eq!(map.as_attr().to_string(), "affine_map<(d0, d1, d2) -> (d2, 0)>");
        assert_eq!((map.num_dims(), map.result_dims()), (3, None));
        let results: Vec<_> = map.results().into_iter().map(|expr| (expr.as_dim(), expr.as_constant())).collect();
        assert_eq!(results, [(Some(2), None), (None, Some(0))]);
        assert_eq!(AffineMap::of_dims(ctx, 2, [1, 0]).result_dims(), Some(vec![1, 0]));
        let sum = Attr::parse(ctx, "affine_map<(d0, d1) -> (d0 + d1)>").and_then(AffineMap::read).expect("a map");
        assert_eq!(sum.results().into_iter().map(|expr| (expr.as_dim(), expr.as_constant())).collect::<Vec<_>>(), [(None, None)]);
        assert_eq!(AffineMap::read(AffineMap::identity(ctx, 0).as_attr()), Some(AffineMap::new(ctx, 0, &[])));
        assert_eq!(AffineMap::read(Attr::unit(ctx)), None);
    }
}
