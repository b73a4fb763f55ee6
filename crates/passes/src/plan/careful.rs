//! Conservative queries about sizes, with the safe answer if it depends on the symbols, and functions that return strides for any sizes.
//!
//! For static sizes everything is known. If an answer depends on symbols, the plan does what is right for all their values: it copies, or
//! refuses.

use dynamlir_shapes::{Dim, Dimension, Relation, Scope, is_dense_in, may_repeat_in, product, row_major_in, same_strides_in};

use super::Window;
use crate::extent::expected;

/// Row-major strides. If they overflow, all are the largest number: memory of that size is refused later.
pub fn row_major(sizes: &[Dim], scope: &Scope) -> Vec<Dim> {
    row_major_in(sizes, scope).unwrap_or_else(|_| vec![Dim::from(i64::MAX); sizes.len()])
}

/// A window with these strides, from the start of the memory.
pub fn strided(sizes: &[Dim], strides: &[Dim]) -> Window {
    Window { sizes: sizes.to_vec(), strides: strides.to_vec(), offset: Dim::from(0) }
}

/// Returns true if the strides place every element exactly once, without gaps, for all values of the symbols.
pub fn is_dense(sizes: &[Dim], strides: &[Dim], scope: &Scope) -> bool {
    is_row_major(sizes, strides, scope) || is_dense_in(sizes, strides, scope).unwrap_or(false)
}

/// Returns true if two lists of strides are equivalent for a shape, for all values of the symbols.
pub fn same_strides(sizes: &[Dim], a: &[Dim], b: &[Dim], scope: &Scope) -> bool {
    same_strides_in(sizes, a, b, scope).unwrap_or(false)
}

/// Returns true if the elements are in row-major order without gaps, for all values of the symbols.
pub fn is_row_major(sizes: &[Dim], strides: &[Dim], scope: &Scope) -> bool {
    same_strides(sizes, strides, &row_major(sizes, scope), scope)
}

/// Returns true if the window may contain an element twice for some value of the symbols.
pub fn may_repeat(window: &Window, scope: &Scope) -> bool {
    !is_row_major(&window.sizes, &window.strides, scope) && may_repeat_in(&window.sizes, &window.strides, scope).unwrap_or(true)
}

/// Returns true if the shape is empty, for all values of the symbols.
pub fn is_empty(sizes: &[Dim]) -> bool {
    sizes.iter().any(|size| size.is(0))
}

/// Drops the dimensions of size 1. A dimension whose size is 1 only for some values of the symbols is kept.
pub fn squeeze(window: &Window) -> Window {
    let (sizes, strides) = window.sizes.iter().cloned().zip(window.strides.iter().cloned()).filter(|(size, _)| !size.is(1)).unzip();
    Window { sizes, strides, offset: window.offset.clone() }
}

/// The dimensions along which the same elements are repeated, except those that may be empty.
pub fn repeated_dims(window: &Window, scope: &Scope) -> Vec<usize> {
    let repeats = |size: &Dim| !size.is(1) && size.compare(Relation::Ge, &Dim::from(1), scope) == Ok(true);
    (0..window.rank()).filter(|&dim| repeats(&window.sizes[dim]) && window.strides[dim].is(0)).collect()
}

/// The number of elements; the largest number if the count overflows.
pub fn count(sizes: &[Dim]) -> Dim {
    product(sizes).unwrap_or_else(|_| Dim::from(i64::MAX))
}

/// The expected sizes (hints), for choices that are valid for any value.
pub fn all_expected(sizes: &[Dim], scope: &Scope) -> Vec<i64> {
    sizes.iter().map(|size| expected(size, scope)).collect()
}
