//! Strided windows on memory (sizes, strides and an offset in elements), and queries on them.
//!
//! A window is written once for numbers and for expressions. Functions that compare sizes take the scope with the facts about symbols and
//! have `_in` in their name; the answer may be that it depends ([`crate::ShapeError::Undecided`]). Windows of numbers have the same queries
//! without a scope, in [`crate::numbers`].

use crate::{
    Bindings, Dim, Dimension, Scope,
    error::{Result, ShapeError},
    strides::{self, is_empty_in, product, row_major_in, same_strides_in},
};

/// A strided window: element `i` lies at `offset + Σ i_k · strides_k` elements from the start of the memory.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Window<D = Dim> {
    /// Number of elements per dimension.
    pub sizes: Vec<D>,
    /// Distance between neighbours per dimension; 0 repeats, negative runs backwards.
    pub strides: Vec<D>,
    /// The position of element 0.
    pub offset: D,
}

impl<D: Clone> Clone for Window<D> {
    fn clone(&self) -> Self {
        Self { sizes: self.sizes.clone(), strides: self.strides.clone(), offset: self.offset.clone() }
    }

    /// Reuses the allocations.
    fn clone_from(&mut self, source: &Self) {
        self.sizes.clone_from(&source.sizes);
        self.strides.clone_from(&source.strides);
        self.offset.clone_from(&source.offset);
    }
}

impl<D: Dimension> Window<D> {
    /// Creates a window; there must be one stride per size.
    pub fn new(sizes: Vec<D>, strides: Vec<D>, offset: D) -> Result<Self> {
        if sizes.len() != strides.len() {
            return Err(ShapeError::NoSuchView(format!("{} sizes but {} strides", sizes.len(), strides.len())));
        }
        Ok(Self { sizes, strides, offset })
    }
    /// A whole row-major tensor, from the start of the memory.
    pub fn row_major_in(sizes: &[D], scope: &D::Scope) -> Result<Self> {
        Ok(Self { sizes: sizes.to_vec(), strides: row_major_in(sizes, scope)?, offset: D::from(0) })
    }
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }
    /// Number of elements shown, including repetitions.
    pub fn element_count(&self) -> Result<D> {
        product(&self.sizes)
    }
    /// Returns true if it shows no elements.
    pub fn is_empty_in(&self, scope: &D::Scope) -> Result<bool> {
        is_empty_in(&self.sizes, scope)
    }
    /// Returns true if the elements lie in row-major order without gaps (torch's `is_contiguous`).
    pub fn is_contiguous_in(&self, scope: &D::Scope) -> Result<bool> {
        same_strides_in(&self.sizes, &self.strides, &row_major_in(&self.sizes, scope)?, scope)
    }
    /// Returns true if the elements fill a contiguous range of memory, each once, in any order (torch's non-overlapping and dense).
    pub fn is_dense_in(&self, scope: &D::Scope) -> Result<bool> {
        strides::is_dense_in(&self.sizes, &self.strides, scope)
    }
    /// Returns true if an element may be shown twice. Also true for some windows with interleaved dimensions that show each element once.
    pub fn may_repeat_in(&self, scope: &D::Scope) -> Result<bool> {
        strides::may_repeat_in(&self.sizes, &self.strides, scope)
    }
    /// The first and the last element in memory that the window shows, as distances from the memory's start; `None` if it shows none.
    pub fn extent_in(&self, scope: &D::Scope) -> Result<Option<(D, D)>> {
        let around = strides::extent_in(&self.sizes, &self.strides, scope)?;
        around.map(|(first, last)| Ok((self.offset.add(&first)?, self.offset.add(&last)?))).transpose()
    }
    /// The position of the element with this index; the index is not checked.
    pub fn position(&self, index: &[D]) -> Result<D> {
        index.iter().zip(&self.strides).try_fold(self.offset.clone(), |at, (index, stride)| at.add(&index.mul(stride)?))
    }
}

impl Window<Dim> {
    /// The window of numbers for these values of the symbols.
    pub fn at(&self, bindings: &Bindings) -> Result<Window<i64>> {
        let all = |dims: &[Dim]| dims.iter().map(|dim| dim.at(bindings)).collect::<Result<_>>();
        Ok(Window { sizes: all(&self.sizes)?, strides: all(&self.strides)?, offset: self.offset.at(bindings)? })
    }
    /// An equal window, as simple as the scope's facts allow.
    pub fn simplify(&self, scope: &Scope) -> Result<Self> {
        let all = |dims: &[Dim]| dims.iter().map(|dim| dim.simplify(scope)).collect::<Result<_>>();
        Ok(Self { sizes: all(&self.sizes)?, strides: all(&self.strides)?, offset: self.offset.simplify(scope)? })
    }
    /// The window of numbers, if it does not depend on a symbol.
    pub fn known(&self) -> Option<Window<i64>> {
        let all = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<_>>();
        Some(Window { sizes: all(&self.sizes)?, strides: all(&self.strides)?, offset: self.offset.known()? })
    }
}

impl From<Window<i64>> for Window<Dim> {
    fn from(window: Window<i64>) -> Self {
        let all = |values: Vec<i64>| values.into_iter().map(Dim::from).collect();
        Self { sizes: all(window.sizes), strides: all(window.strides), offset: window.offset.into() }
    }
}
