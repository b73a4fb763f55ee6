//! Where the elements of a tensor lie: element type, sizes, strides and offset, and the arithmetic on them.

use dynamlir_torch_abi::DType;

/// A strided layout. Strides and offset count elements; the offset is from the register's base (see `plan`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "torch's own words")]
pub struct Layout {
    pub dtype: DType,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub offset: i64,
}

/// No memory is larger: what lies farther away is nowhere.
const FAR: u64 = 1 << 56;

impl Layout {
    /// The row-major layout with offset 0.
    #[must_use]
    pub fn contiguous(dtype: DType, sizes: &[i64]) -> Self {
        let mut strides = vec![1; sizes.len()];
        for i in (1..sizes.len()).rev() {
            strides[i - 1] = strides[i] * sizes[i].max(1);
        }
        Self { dtype, sizes: sizes.to_vec(), strides, offset: 0 }
    }

    /// Bytes per element.
    #[must_use]
    pub fn element_bytes(&self) -> i64 {
        self.dtype.size() as i64
    }

    /// The half-open range of bytes touched, counted from element 0; None for a layout without elements.
    ///
    /// None also stands for an overflow, which `check` reports.
    #[must_use]
    pub fn span(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (0_i64, 0_i64);
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            if size == 0 {
                return None;
            }
            let reach = stride.checked_mul(size - 1)?;
            if reach < 0 {
                low = low.checked_add(reach)?;
            } else {
                high = high.checked_add(reach)?;
            }
        }
        let bytes = self.element_bytes();
        Some((low.checked_mul(bytes)?, high.checked_add(1)?.checked_mul(bytes)?))
    }

    /// Whether the numbers make sense at all. Sums of a few distances of checked layouts do not overflow.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.sizes.len() != self.strides.len() {
            return Err(format!("{} sizes but {} strides", self.sizes.len(), self.strides.len()));
        }
        if self.sizes.iter().any(|&s| s < 0) {
            return Err(format!("negative size in {:?}", self.sizes));
        }
        let is_far = |bytes: i64| bytes.unsigned_abs() > FAR;
        match self.span() {
            Some((low, high)) if is_far(low) || is_far(high) => return Err("the layout spans more bytes than there are".to_owned()),
            None if !self.sizes.contains(&0) => return Err("the layout spans more bytes than an address can count".to_owned()),
            _ => {}
        }
        if self.offset.checked_mul(self.element_bytes()).is_none_or(is_far) {
            return Err(format!("an offset of {} elements lies beyond any memory", self.offset));
        }
        Ok(())
    }

    /// Whether torch has tensors with these strides: it knows none that run backwards.
    pub(crate) fn is_torchlike(&self) -> bool {
        self.strides.iter().all(|&stride| stride >= 0)
    }

    /// Whether an element may be shown twice. Says so of some layouts, with interleaved dimensions, that show each once.
    pub(crate) fn may_repeat(&self) -> bool {
        let mut dims: Vec<(u64, i64)> = self
            .strides
            .iter()
            .zip(&self.sizes)
            .filter(|(_, size)| **size > 1)
            .map(|(stride, size)| (stride.unsigned_abs(), *size))
            .collect();
        dims.sort_unstable();
        let mut reached = 0_u64;
        !self.sizes.contains(&0)
            && dims.into_iter().any(|(stride, size)| {
                let inside = stride <= reached;
                reached = stride.saturating_mul(size as u64 - 1).saturating_add(reached);
                inside
            })
    }

    /// Whether both reach the same memory from the same element 0: strides of dimensions of size one do not matter.
    #[must_use]
    pub fn same_memory(&self, sizes: &[i64], strides: &[i64]) -> bool {
        self.sizes == sizes
            && self.strides.len() == strides.len()
            && (self.sizes.contains(&0)
                || self.sizes.iter().zip(self.strides.iter().zip(strides)).all(|(&size, (a, b))| size == 1 || a == b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_strides_and_span() {
        let l = Layout::contiguous(DType::F32, &[2, 3, 4]);
        assert_eq!(l.strides, [12, 4, 1]);
        assert_eq!(l.span(), Some((0, 96)));
        assert_eq!(Layout::contiguous(DType::I8, &[]).span(), Some((0, 1)));
        assert_eq!(Layout::contiguous(DType::F64, &[3, 0]).span(), None);
    }

    #[test]
    fn negative_strides_reach_below() {
        let l = Layout { dtype: DType::I16, sizes: vec![4, 2], strides: vec![-2, 1], offset: 6 };
        assert_eq!(l.span(), Some((-12, 4)));
    }

    #[test]
    fn overflow_is_reported() {
        let l = Layout { dtype: DType::F64, sizes: vec![i64::MAX, 2], strides: vec![i64::MAX, 1], offset: 0 };
        assert!(l.check().is_err());
        assert!(Layout { dtype: DType::F64, sizes: vec![1], strides: vec![], offset: 0 }.check().is_err());
    }

    #[test]
    fn distances_that_no_memory_has_are_refused() {
        let l = |sizes: &[i64], offset| Layout { offset, ..Layout::contiguous(DType::F64, sizes) };
        assert_eq!(l(&[4], 1 << 40).check(), Ok(()));
        assert!(l(&[4], i64::MIN).check().is_err());
        assert!(l(&[4], i64::MAX / 8).check().is_err());
        assert!(l(&[1 << 55], 0).check().is_err());
        // Nothing is reached, however far the strides go.
        assert_eq!(l(&[0, 1 << 62], 0).check(), Ok(()));
    }

    #[test]
    fn repeated_elements_are_noticed() {
        let l = |sizes: &[i64], strides: &[i64]| Layout { dtype: DType::F32, sizes: sizes.to_vec(), strides: strides.to_vec(), offset: 0 };
        assert!(!l(&[2, 3, 4], &[12, 4, 1]).may_repeat());
        assert!(!l(&[3, 2], &[1, 8]).may_repeat());
        assert!(!l(&[4, 1], &[-1, 0]).may_repeat());
        assert!(l(&[4], &[0]).may_repeat());
        assert!(l(&[4, 4], &[1, 1]).may_repeat());
        assert!(l(&[4, 2], &[2, 6]).may_repeat());
        assert!(!l(&[4, 0], &[0, 1]).may_repeat());
    }

    #[test]
    fn strides_of_size_one_do_not_matter() {
        let l = Layout { dtype: DType::F32, sizes: vec![1, 3], strides: vec![7, 1], offset: 0 };
        assert!(l.same_memory(&[1, 3], &[3, 1]));
        assert!(!l.same_memory(&[1, 3], &[3, 2]));
    }
}
