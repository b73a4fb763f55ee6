//! Windows and strides with known numbers: the queries without a scope, and those that only make sense for numbers.
//!
//! Nothing beyond an `i64` lies in memory. Queries that cannot return an error give the conservative answer: not dense, may repeat.

use std::cmp::Reverse;

use crate::{Window, strides};

/// Row-major strides. A size of 0 counts as 1, as in torch. Strides that do not fit an `i64` saturate.
pub fn row_major(sizes: &[i64]) -> Vec<i64> {
    let mut all = vec![1_i64; sizes.len()];
    for i in (1..sizes.len()).rev() {
        all[i - 1] = all[i].saturating_mul(sizes[i].max(1));
    }
    all
}

/// Returns true if the strides place every element of the shape exactly once, without gaps.
pub fn is_dense(sizes: &[i64], strides: &[i64]) -> bool {
    strides::is_dense_in(sizes, strides, &()).unwrap_or(false)
}

/// Returns true if two stride lists are equivalent for a shape: strides of unit dimensions, and of empty tensors, do not matter.
pub fn same_strides(sizes: &[i64], a: &[i64], b: &[i64]) -> bool {
    strides::same_strides_in(sizes, a, b, &()).unwrap_or(false)
}

/// Returns true if the elements of the shape lie in row-major order without gaps.
pub fn is_row_major(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1_i64;
    let in_order = |(&size, &stride): (&i64, &i64)| {
        let fits = size == 1 || stride == expected;
        expected = expected.saturating_mul(size);
        fits
    };
    sizes.len() == strides.len() && (sizes.contains(&0) || sizes.iter().zip(strides).rev().all(in_order))
}

/// Returns true if an element may be shown twice. Also true for some shapes with interleaved dimensions that show each element once.
pub fn may_repeat(sizes: &[i64], strides: &[i64]) -> bool {
    strides::may_repeat_in(sizes, strides, &()).unwrap_or(true)
}

impl Window<i64> {
    /// A whole row-major tensor, from the start of the memory.
    pub fn row_major(sizes: &[i64]) -> Self {
        Self::strided(sizes, &row_major(sizes))
    }
    /// A window with these strides, from the start of the memory.
    pub fn strided(sizes: &[i64], strides: &[i64]) -> Self {
        Self { sizes: sizes.to_vec(), strides: strides.to_vec(), offset: 0 }
    }
    /// Number of elements shown, including repetitions; saturates at the largest number.
    pub fn numel(&self) -> i64 {
        strides::product(&self.sizes).unwrap_or(i64::MAX)
    }
    /// Returns true if it shows no elements.
    pub fn is_empty(&self) -> bool {
        self.sizes.contains(&0)
    }
    /// Returns true if the elements lie in row-major order without gaps.
    pub fn is_row_major(&self) -> bool {
        is_row_major(&self.sizes, &self.strides)
    }
    /// Returns true if the elements fill a contiguous range of memory, each once, in any order.
    pub fn is_dense(&self) -> bool {
        is_dense(&self.sizes, &self.strides)
    }
    /// Returns true if an element may be shown twice. Also true for some windows with interleaved dimensions that show each element once.
    pub fn may_repeat(&self) -> bool {
        may_repeat(&self.sizes, &self.strides)
    }
    /// The dimensions along which the same elements repeat.
    pub fn repeated_dims(&self) -> Vec<usize> {
        (0..self.rank()).filter(|&d| self.sizes[d] > 1 && self.strides[d] == 0).collect()
    }
    /// The position after the last element; the offset, if the window shows no elements.
    pub fn end(&self) -> i64 {
        match self.extent_in(&()) {
            Ok(Some((_, last))) => last.saturating_add(1),
            Ok(None) => self.offset,
            Err(_) => i64::MAX,
        }
    }
    /// The same elements in row-major order in another shape, if strides can express it.
    pub fn reshape(&self, sizes: &[i64]) -> Option<Self> {
        self.reshape_in(sizes, &()).ok().flatten()
    }
    /// The window without its unit dimensions.
    pub fn squeeze(&self) -> Self {
        let (sizes, strides) = self.dims().filter(|&(size, _)| size != 1).unzip();
        Self { sizes, strides, offset: self.offset }
    }
    /// A form that is equal for windows that show the same elements at the same indices: strides that never matter are 0.
    pub fn canonical(&self) -> Self {
        let empty = self.is_empty();
        let strides = self.dims().map(|(n, s)| if empty || n == 1 { 0 } else { s }).collect();
        Self { sizes: self.sizes.clone(), strides, offset: if empty { 0 } else { self.offset } }
    }
    /// For a window that fills a contiguous range of memory: its dimensions from the outermost to the innermost in memory.
    pub fn memory_order(&self) -> Option<Vec<usize>> {
        let mut order: Vec<_> = (0..self.rank()).collect();
        order.sort_by_key(|&i| Reverse(self.strides[i]));
        self.permute(&order).is_ok_and(|ordered| ordered.is_row_major()).then_some(order)
    }
    /// The same elements without dimensions that repeat them; `None` if elements repeat in another way.
    pub fn without_repetition(&self) -> Option<Self> {
        let sizes = self.dims().map(|(n, s)| if s == 0 { n.min(1) } else { n }).collect();
        let once = Self { sizes, ..self.clone() };
        (!once.may_repeat()).then_some(once)
    }
    /// Sizes with their strides.
    pub fn dims(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.sizes.iter().copied().zip(self.strides.iter().copied())
    }
    /// `distance` as a number of steps along each dimension, largest stride first. The answer is unique as long as
    /// the window does not repeat elements; it may leave the window.
    fn steps(&self, distance: i64) -> Option<Vec<i64>> {
        let mut order: Vec<_> = (0..self.rank()).filter(|&i| self.sizes[i] > 1).collect();
        order.sort_by_key(|&i| Reverse(self.strides[i]));
        let mut steps = vec![0; self.rank()];
        let mut rest = distance;
        for i in order {
            steps[i] = rest.checked_div(self.strides[i])?;
            rest %= self.strides[i];
        }
        (rest == 0).then_some(steps)
    }
    /// This window in the coordinates of `root`'s elements in row-major order, if every element it shows is one of `root`'s. `root` must
    /// not show an element twice.
    pub fn within(&self, root: &Self) -> Option<Self> {
        let mut last = root.steps(self.offset.checked_sub(root.offset).filter(|&d| d >= 0)?)?;
        let mut first = last.clone();
        let unit = row_major(&root.sizes);
        let flat = |steps: &[i64]| steps.iter().zip(&unit).try_fold(0_i64, |sum, (a, b)| sum.checked_add(a.checked_mul(*b)?));
        let offset = flat(&last)?;
        let mut strides = Vec::new();
        for (n, s) in self.dims() {
            let steps = root.steps(if n > 1 { s } else { 0 })?;
            strides.push(flat(&steps)?);
            for ((first, last), step) in first.iter_mut().zip(&mut last).zip(steps) {
                let reach = step.checked_mul(n.checked_sub(1)?)?;
                let end = if reach < 0 { first } else { last };
                *end = end.checked_add(reach)?;
            }
        }
        let inside = first.iter().all(|&first| first >= 0) && last.iter().zip(&root.sizes).all(|(last, size)| last < size);
        inside.then(|| Self { sizes: self.sizes.clone(), strides, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(sizes: &[i64], strides: &[i64], offset: i64) -> Window<i64> {
        Window { sizes: sizes.to_vec(), strides: strides.to_vec(), offset }
    }

    #[test]
    fn repetition_and_memory_order() {
        assert!(window(&[3, 2], &[0, 1], 0).may_repeat());
        assert!(window(&[3, 2], &[1, 1], 0).may_repeat());
        assert!(!window(&[3, 2], &[2, 1], 0).may_repeat());
        assert!(!window(&[1, 2], &[0, 1], 0).may_repeat());
        assert!(!window(&[4, 0], &[0, 1], 0).may_repeat());
        assert!(!window(&[4], &[-1], 3).may_repeat());
        assert!(window(&[4, 2], &[2, 6], 0).may_repeat());
        assert_eq!(window(&[3, 2], &[1, 3], 0).memory_order(), Some(vec![1, 0]));
        assert_eq!(window(&[3, 2], &[3, 1], 0).memory_order(), None);
    }

    #[test]
    fn density_ignores_order_and_unit_dimensions() {
        assert!(is_dense(&[2, 1, 3], &[1, 77, 2]));
        assert!(!is_dense(&[2, 3], &[4, 1]));
        assert!(same_strides(&[1, 3], &[7, 1], &[3, 1]) && !same_strides(&[2, 3], &[7, 1], &[3, 1]));
        assert!(same_strides(&[0, 3], &[7, 1], &[3, 1]));
    }

    #[test]
    fn windows_end_behind_their_last_element() {
        assert_eq!(window(&[2, 3], &[3, 1], 4).end(), 10);
        assert_eq!(window(&[2, 0], &[3, 1], 4).end(), 4);
        assert_eq!(Window::<i64>::row_major(&[]).end(), 1);
    }

    #[test]
    fn far_away_is_no_panic() {
        let far = window(&[i64::MAX, 2], &[i64::MAX, i64::MIN], i64::MAX);
        assert!(far.may_repeat() && !far.is_dense() && !far.is_row_major());
        assert_eq!((far.numel(), far.end()), (i64::MAX, i64::MAX));
        assert_eq!(row_major(&[2, i64::MAX, 3]), [i64::MAX, 3, 1]);
    }

    #[test]
    fn a_window_outside_is_not_found() {
        let root = window(&[4, 3], &[12, 2], 5);
        assert!(window(&[2], &[1], 5).within(&root).is_none());
        assert!(window(&[4], &[2], 5).within(&root).is_none());
        assert!(window(&[1], &[1], 4).within(&root).is_none());
        assert_eq!(window(&[3], &[12], 7).within(&root), Some(window(&[3], &[3], 1)));
    }
}
