//! The layout of a tensor's elements: element type and window, and the arithmetic on them that counts bytes.

use dynamlir_shapes::{Window, extent_in, same_strides};
use dynamlir_torch_abi::DType;

/// A window of elements of one type; its offset is from the register's base (see `plan`).
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Type of the elements.
    pub dtype: DType,
    /// Sizes, strides and offset, in elements.
    pub window: Window<i64>,
}

impl Clone for Layout {
    fn clone(&self) -> Self {
        Self { dtype: self.dtype, window: self.window.clone() }
    }

    /// Reuses the existing memory.
    fn clone_from(&mut self, source: &Self) {
        self.dtype = source.dtype;
        self.window.clone_from(&source.window);
    }
}

/// A distance beyond any existing memory.
const FAR: u64 = 1 << 56;

impl Layout {
    /// Returns the row-major layout with offset 0.
    #[must_use]
    pub fn contiguous(dtype: DType, sizes: &[i64]) -> Self {
        Self { dtype, window: Window::row_major(sizes) }
    }

    /// Returns the layout with another offset.
    #[must_use]
    pub fn with_offset(mut self, offset: i64) -> Self {
        self.window.offset = offset;
        self
    }

    /// Returns the layout with other strides.
    #[must_use]
    pub fn with_strides(mut self, strides: &[i64]) -> Self {
        self.window.strides = strides.to_vec();
        self
    }

    /// Returns the number of bytes per element.
    #[must_use]
    pub fn element_bytes(&self) -> i64 {
        self.dtype.size() as i64
    }

    /// Returns the number of bytes from the base to element 0.
    #[must_use]
    pub fn first_byte(&self) -> i64 {
        self.window.offset * self.element_bytes()
    }

    /// Returns the half-open range of bytes touched, counted from element 0; None for a layout without elements.
    ///
    /// None is also returned on overflow, which `check` reports.
    #[must_use]
    pub fn span(&self) -> Option<(i64, i64)> {
        let (low, high) = extent_in(&self.window.sizes, &self.window.strides, &()).ok()??;
        let bytes = self.element_bytes();
        Some((low.checked_mul(bytes)?, high.checked_add(1)?.checked_mul(bytes)?))
    }

    /// Checks that the numbers are plausible. Sums of a few distances of checked layouts do not overflow.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.checked_span().map(|_| ())
    }

    /// Like [`Layout::span`], but an error for an implausible layout: None means that it has no elements.
    pub(crate) fn checked_span(&self) -> Result<Option<(i64, i64)>, String> {
        let Window { sizes, strides, offset } = &self.window;
        if sizes.len() != strides.len() {
            return Err(format!("{} sizes but {} strides", sizes.len(), strides.len()));
        }
        if sizes.iter().any(|&s| s < 0) {
            return Err(format!("negative size in {sizes:?}"));
        }
        let is_far = |bytes: i64| bytes.unsigned_abs() > FAR;
        let span = self.span();
        match span {
            Some((low, high)) if is_far(low) || is_far(high) => return Err("the layout spans more bytes than there are".to_owned()),
            None if !sizes.contains(&0) => return Err("the layout spans more bytes than an address can count".to_owned()),
            _ => {}
        }
        if offset.checked_mul(self.element_bytes()).is_none_or(is_far) {
            return Err(format!("an offset of {offset} elements lies beyond any memory"));
        }
        Ok(span)
    }

    /// Returns true if torch supports tensors with these strides: it does not support negative ones.
    pub(crate) fn is_torchlike(&self) -> bool {
        self.window.strides.iter().all(|&stride| stride >= 0)
    }

    /// Returns true if both reach the same memory from the same element 0: strides of dimensions of size one do not matter.
    #[must_use]
    pub fn same_memory(&self, sizes: &[i64], strides: &[i64]) -> bool {
        self.window.sizes == sizes && same_strides(sizes, &self.window.strides, strides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_strides_and_span() {
        let l = Layout::contiguous(DType::F32, &[2, 3, 4]);
        assert_eq!(l.window.strides, [12, 4, 1]);
        assert_eq!(l.span(), Some((0, 96)));
        assert_eq!(Layout::contiguous(DType::I8, &[]).span(), Some((0, 1)));
        assert_eq!(Layout::contiguous(DType::F64, &[3, 0]).span(), None);
    }

    #[test]
    fn negative_strides_reach_below() {
        let l = Layout::contiguous(DType::I16, &[4, 2]).with_strides(&[-2, 1]).with_offset(6);
        assert_eq!(l.span(), Some((-12, 4)));
    }

    #[test]
    fn overflow_is_reported() {
        let l = Layout::contiguous(DType::F64, &[i64::MAX, 2]).with_strides(&[i64::MAX, 1]);
        assert!(l.check().is_err());
        assert!(Layout::contiguous(DType::F64, &[1]).with_strides(&[]).check().is_err());
    }

    #[test]
    fn distances_that_no_memory_has_are_refused() {
        let l = |sizes: &[i64], offset| Layout::contiguous(DType::F64, sizes).with_offset(offset);
        assert_eq!(l(&[4], 1 << 40).check(), Ok(()));
        assert!(l(&[4], i64::MIN).check().is_err());
        assert!(l(&[4], i64::MAX / 8).check().is_err());
        assert!(l(&[1 << 55], 0).check().is_err());
        // Nothing is reached, regardless of the strides.
        assert_eq!(l(&[0, 1 << 62], 0).check(), Ok(()));
    }

    #[test]
    fn strides_of_size_one_do_not_matter() {
        let l = Layout::contiguous(DType::F32, &[1, 3]).with_strides(&[7, 1]);
        assert!(l.same_memory(&[1, 3], &[3, 1]));
        assert!(!l.same_memory(&[1, 3], &[3, 2]));
    }
}
