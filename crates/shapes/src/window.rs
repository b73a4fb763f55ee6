//! Strided windows on memory: sizes, strides and an offset in elements, and what can be asked of them.
//!
//! A window is written once for numbers and for expressions. What compares sizes takes the scope in which symbols are
//! known and has `_in` in its name; the answer may be that it depends ([`crate::ShapeError::Undecided`]). Windows of
//! numbers have the same questions without a scope, in [`crate::numbers`].

use crate::{
    Bindings, Dim, Dimension, Scope,
    error::{Result, ShapeError},
    strides::{self, is_empty_in, product, row_major_in, same_strides_in},
};

/// Element `i` lies at `offset + Σ i_k · strides_k` elements from the start of the memory.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Window<D = Dim> {
    /// Number of elements per dimension.
    pub sizes: Vec<D>,
    /// Distance of neighbours per dimension; 0 repeats, negative runs backwards.
    pub strides: Vec<D>,
    /// Where element 0 is.
    pub offset: D,
}

impl<D: Clone> Clone for Window<D> {
    fn clone(&self) -> Self {
        Self { sizes: self.sizes.clone(), strides: self.strides.clone(), offset: self.offset.clone() }
    }

    /// In the memory that there is.
    fn clone_from(&mut self, source: &Self) {
        self.sizes.clone_from(&source.sizes);
        self.strides.clone_from(&source.strides);
        self.offset.clone_from(&source.offset);
    }
}

impl<D: Dimension> Window<D> {
    /// With one stride per size.
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
    /// Number of elements shown, repetitions counted.
    pub fn element_count(&self) -> Result<D> {
        product(&self.sizes)
    }
    /// Whether nothing is shown.
    pub fn is_empty_in(&self, scope: &D::Scope) -> Result<bool> {
        is_empty_in(&self.sizes, scope)
    }
    /// Whether the elements lie in row-major order without gaps (torch's `is_contiguous`).
    pub fn is_contiguous_in(&self, scope: &D::Scope) -> Result<bool> {
        same_strides_in(&self.sizes, &self.strides, &row_major_in(&self.sizes, scope)?, scope)
    }
    /// Whether the elements fill a stretch of memory, each once, in any order (torch's non-overlapping and dense).
    pub fn is_dense_in(&self, scope: &D::Scope) -> Result<bool> {
        strides::is_dense_in(&self.sizes, &self.strides, scope)
    }
    /// Whether an element may be shown twice. Says so of some windows, with interleaved dimensions, that show each once.
    pub fn may_repeat_in(&self, scope: &D::Scope) -> Result<bool> {
        strides::may_repeat_in(&self.sizes, &self.strides, scope)
    }
    /// The first and the last element of the memory that are shown, as distances from its start; None if nothing is.
    pub fn extent_in(&self, scope: &D::Scope) -> Result<Option<(D, D)>> {
        let around = strides::extent_in(&self.sizes, &self.strides, scope)?;
        around.map(|(first, last)| Ok((self.offset.add(&first)?, self.offset.add(&last)?))).transpose()
    }
    /// Where the element with this index lies; the index is not checked.
    pub fn position(&self, index: &[D]) -> Result<D> {
        index.iter().zip(&self.strides).try_fold(self.offset.clone(), |at, (index, stride)| at.add(&index.mul(stride)?))
    }
}

impl Window<Dim> {
    /// The window of numbers where symbols have these values.
    pub fn at(&self, bindings: &Bindings) -> Result<Window<i64>> {
        let all = |dims: &[Dim]| dims.iter().map(|dim| dim.at(bindings)).collect::<Result<_>>();
        Ok(Window { sizes: all(&self.sizes)?, strides: all(&self.strides)?, offset: self.offset.at(bindings)? })
    }
    /// The equal window that the scope knows to be simplest.
    pub fn simplify(&self, scope: &Scope) -> Result<Self> {
        let all = |dims: &[Dim]| dims.iter().map(|dim| dim.simplify(scope)).collect::<Result<_>>();
        Ok(Self { sizes: all(&self.sizes)?, strides: all(&self.strides)?, offset: self.offset.simplify(scope)? })
    }
    /// The window of numbers, if it depends on no symbol.
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
