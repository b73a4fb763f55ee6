//! Range checks of indices, before any code uses them to read memory.

use dynamlir_shapes::is_row_major;

/// The operand of [`crate::Step::CheckRange`], and its message on failure.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// Its entry of the address table.
    pub row: usize,
    pub sizes: Vec<i64>,
    /// In elements.
    pub strides: Vec<i64>,
    pub low: i64,
    pub high: i64,
    pub message: String,
}

impl Check {
    /// Returns the first element outside of the range.
    ///
    /// # Safety
    ///
    /// `first` is the address of element 0 of a window of `i64` with these sizes and strides, all of it readable.
    pub(crate) unsafe fn offender(&self, first: *const i64) -> Option<i64> {
        // SAFETY: as the caller promises.
        unsafe { self.walk(&self.sizes, &self.strides, first) }
    }

    /// Returns the first bad element within the remaining dimensions.
    unsafe fn walk(&self, sizes: &[i64], strides: &[i64], at: *const i64) -> Option<i64> {
        let bad = |value: i64| (value < self.low || value >= self.high).then_some(value);
        let ([size, inner_sizes @ ..], [stride, inner_strides @ ..]) = (sizes, strides) else {
            // SAFETY: no dimension is left, so this is an element.
            return bad(unsafe { at.read_unaligned() });
        };
        if sizes.contains(&0) {
            return None;
        }
        if is_row_major(sizes, strides) && at.is_aligned() {
            let count = sizes.iter().product::<i64>() as usize;
            // SAFETY: the elements of a dense window follow each other.
            let values = unsafe { std::slice::from_raw_parts(at, count) };
            // One pass without an early exit, which vectorizes; the bad element is only searched for if there is one.
            let (low, high) = values.iter().fold((i64::MAX, i64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
            return if low < self.low || high >= self.high { values.iter().find_map(|&v| bad(v)) } else { None };
        }
        // SAFETY: each step stays inside the window.
        (0..*size).find_map(|i| unsafe { self.walk(inner_sizes, inner_strides, at.wrapping_offset((i * stride) as isize)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[i64], strides: &[i64]) -> Check {
        Check { sizes: sizes.to_vec(), strides: strides.to_vec(), low: 0, high: 10, ..Check::default() }
    }

    #[test]
    fn the_first_bad_element_is_found_in_any_layout() {
        let values = [0, 1, 9, 3, 10, 5, -1, 7];
        // SAFETY: all windows lie inside the array.
        let found = |check: &Check, from: usize| unsafe { check.offender(values[from..].as_ptr()) };
        assert_eq!(found(&check(&[4], &[1]), 0), None);
        assert_eq!(found(&check(&[8], &[1]), 0), Some(10));
        assert_eq!(found(&check(&[2, 4], &[4, 1]), 0), Some(10));
        // Columns of the same memory: -1 is not visited first.
        assert_eq!(found(&check(&[4, 2], &[1, 4]), 0), Some(10));
        assert_eq!(found(&check(&[3], &[-1]), 6), Some(-1));
        assert_eq!(found(&check(&[3], &[2]), 1), None);
        // A repeated element, a single one, none.
        assert_eq!(found(&check(&[5], &[0]), 4), Some(10));
        assert_eq!(found(&check(&[], &[]), 6), Some(-1));
        assert_eq!(found(&check(&[0, 8], &[8, 1]), 0), None);
        assert_eq!(found(&check(&[8, 0], &[1, 1]), 0), None);
    }

    #[test]
    fn a_range_of_nothing_holds_nothing_but_an_empty_window() {
        let empty = Check { low: 0, high: 0, ..check(&[1], &[1]) };
        // SAFETY: the window is the one element.
        assert_eq!(unsafe { empty.offender(&raw const empty.low) }, Some(0));
        // SAFETY: an empty window is not read.
        assert_eq!(unsafe { Check { sizes: vec![0], ..empty.clone() }.offender(std::ptr::dangling()) }, None);
    }
}
