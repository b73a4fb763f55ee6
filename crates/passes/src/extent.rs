//! What emitters take for sizes: numbers or expressions. Nothing is paid for expressions where numbers are given.

use dynamlir_dialect::ir::{DYNAMIC, Type};
use dynamlir_shapes::{Dim, Scope};

/// A size, start, stride or offset.
pub trait Extent: Clone {
    /// As either of the two.
    fn dim(self) -> Dim;
    /// The tensor of these sizes.
    fn tensor(sizes: &[Self], element: Type) -> Type;
}

impl Extent for i64 {
    fn dim(self) -> Dim {
        Dim::from(self)
    }
    /// # Panics
    /// One is the `?` of a shape: whoever asked for numbers did not see that there are none.
    fn tensor(sizes: &[Self], element: Type) -> Type {
        assert!(!sizes.contains(&DYNAMIC), "a size that is not a number");
        Type::tensor(sizes, element)
    }
}

impl Extent for Dim {
    fn dim(self) -> Dim {
        self
    }
    fn tensor(sizes: &[Self], element: Type) -> Type {
        Type::tensor_of(sizes, element)
    }
}

/// All of them as [`Dim`]s.
pub fn dims(extents: &[impl Extent]) -> Vec<Dim> {
    extents.iter().cloned().map(Extent::dim).collect()
}

/// All of them as numbers, where they are.
pub fn numbers(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(Dim::known).collect()
}

/// A symbol's value, where nothing better is known.
const USUAL: i64 = 64;

/// The size where symbols have the values that are expected.
pub fn expected(size: &Dim, scope: &Scope) -> i64 {
    let usual = |symbol| Some(scope.info(symbol)?.hint.unwrap_or(USUAL).clamp(scope.info(symbol)?.range.lower()?, i64::MAX));
    size.known().or_else(|| size.to_expr().evaluate(&usual).ok()).unwrap_or(USUAL)
}
