//! The types that emitters accept as sizes: numbers or expressions. Numbers do not incur the cost of expressions.

use dynamlir_dialect::ir::{DYNAMIC, Type};
use dynamlir_shapes::{Dim, Scope};

/// A size, start, stride or offset.
pub trait Extent: Clone {
    /// Converts the size to a [`Dim`].
    fn dim(self) -> Dim;
    /// The type of a tensor of these sizes.
    fn tensor(sizes: &[Self], element: Type) -> Type;
}

impl Extent for i64 {
    fn dim(self) -> Dim {
        Dim::from(self)
    }
    /// # Panics
    /// If a size is the `?` of a shape: the caller used numbers for a shape that does not have static sizes.
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

/// Converts all of them to [`Dim`]s.
pub fn dims(extents: &[impl Extent]) -> Vec<Dim> {
    extents.iter().cloned().map(Extent::dim).collect()
}

/// Converts all of them to numbers, if they are all static.
pub fn numbers(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(Dim::known).collect()
}

/// The assumed value of a symbol without a hint.
const USUAL: i64 = 64;

/// The size for the expected values (hints) of its symbols.
pub fn expected(size: &Dim, scope: &Scope) -> i64 {
    let usual = |symbol| Some(scope.info(symbol)?.hint.unwrap_or(USUAL).clamp(scope.info(symbol)?.range.lower()?, i64::MAX));
    size.known().or_else(|| size.to_expr().evaluate(&usual).ok()).unwrap_or(USUAL)
}
