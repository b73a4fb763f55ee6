//! Strided windows on memory, and what the view primitives do to them.
//!
//! All of it is arithmetic on sizes, strides and offsets in elements; nothing is moved.

/// Element `i` of the window lies at `offset + Σ i_k · strides_k` elements from the buffer's start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    /// Number of elements per dimension.
    pub sizes: Vec<i64>,
    /// Distance of neighbours per dimension; 0 repeats, negative runs backwards.
    pub strides: Vec<i64>,
    /// Where element 0 is.
    pub offset: i64,
}

/// Row-major strides. A size of 0 counts as 1, as in torch.
pub fn row_major(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i].max(1);
    }
    strides
}

/// Whether the strides place every element of the shape exactly once, without gaps.
pub fn is_dense(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: Vec<_> = sizes.iter().zip(strides).filter(|(size, _)| **size != 1).collect();
    dims.sort_by_key(|(_, stride)| **stride);
    let mut expected = 1;
    dims.into_iter().all(|(size, stride)| {
        let fits = *stride == expected;
        expected *= size;
        fits
    })
}

/// Whether two stride lists say the same of a shape: strides of unit dimensions, and of empty tensors, say nothing.
pub fn same_strides(sizes: &[i64], a: &[i64], b: &[i64]) -> bool {
    sizes.contains(&0) || sizes.iter().zip(a.iter().zip(b)).all(|(size, (a, b))| *size == 1 || a == b)
}

impl Window {
    /// A dense row-major window from the start of a buffer.
    pub fn dense(sizes: &[i64]) -> Self {
        Self { sizes: sizes.to_vec(), strides: row_major(sizes), offset: 0 }
    }
    /// A window with these strides from the start of a buffer.
    pub fn strided(sizes: &[i64], strides: &[i64]) -> Self {
        Self { sizes: sizes.to_vec(), strides: strides.to_vec(), offset: 0 }
    }
    /// Number of elements shown.
    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }
    /// Whether the elements lie in row-major order without gaps.
    pub fn is_row_major(&self) -> bool {
        same_strides(&self.sizes, &self.strides, &row_major(&self.sizes))
    }
    /// Result dimension i is dimension `dims[i]`.
    pub fn permute(&self, dims: &[i64]) -> Self {
        let pick = |from: &[i64]| dims.iter().map(|d| from[*d as usize]).collect();
        Self { sizes: pick(&self.sizes), strides: pick(&self.strides), offset: self.offset }
    }
    /// A rectangular part.
    pub fn slice(&self, starts: &[i64], steps: &[i64], sizes: &[i64]) -> Self {
        let skipped: i64 = starts.iter().zip(&self.strides).map(|(start, stride)| start * stride).sum();
        let strides = self.strides.iter().zip(steps).map(|(stride, step)| stride * step).collect();
        // An empty slice may start past the end; its address is never read.
        let offset = if sizes.contains(&0) { self.offset } else { self.offset + skipped };
        Self { sizes: sizes.to_vec(), strides, offset }
    }
    /// Dimension i becomes dimension `dims[i]` of `sizes`; the others repeat.
    pub fn broadcast(&self, sizes: &[i64], dims: &[i64]) -> Self {
        let mut strides = vec![0; sizes.len()];
        for (i, dim) in dims.iter().enumerate() {
            let dim = *dim as usize;
            strides[dim] = if self.sizes[i] == 1 && sizes[dim] != 1 { 0 } else { self.strides[i] };
        }
        Self { sizes: sizes.to_vec(), strides, offset: self.offset }
    }
    /// The dimensions along which the same elements are shown again.
    pub fn repeated_dims(&self) -> Vec<usize> {
        (0..self.sizes.len()).filter(|&d| self.sizes[d] > 1 && self.strides[d] == 0).collect()
    }
    /// Whether an element may be shown twice. Says so of some windows, with interleaved dimensions, that show each once.
    pub fn may_repeat(&self) -> bool {
        let mut dims: Vec<_> = self.sizes.iter().zip(&self.strides).filter(|(size, _)| **size > 1).collect();
        dims.sort_by_key(|(_, stride)| stride.unsigned_abs());
        let mut reached = 0;
        !self.sizes.contains(&0)
            && dims.into_iter().any(|(size, stride)| {
                let inside = stride.abs() <= reached;
                reached += stride.abs() * (size - 1);
                inside
            })
    }
    /// The part at index 0 of each of `dims`, which stay as unit dimensions.
    pub fn first_of(&self, dims: &[usize]) -> Self {
        let mut part = self.clone();
        for &d in dims {
            part.sizes[d] = 1;
        }
        part
    }
    /// The opposite order along `dims`.
    pub fn reverse(&self, dims: &[i64]) -> Self {
        let mut reversed = self.clone();
        for dim in dims {
            let dim = *dim as usize;
            reversed.offset += (self.sizes[dim] - 1).max(0) * self.strides[dim];
            reversed.strides[dim] = -self.strides[dim];
        }
        reversed
    }
    /// The same elements in row-major order in another shape, if strides can say it (the rule of `Tensor.view`).
    pub fn reshape(&self, sizes: &[i64]) -> Option<Self> {
        if self.numel() == 0 {
            return Some(Self { sizes: sizes.to_vec(), strides: row_major(sizes), offset: self.offset });
        }
        // Runs of old dimensions that act as one, outermost first; unit dimensions belong to no run.
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).filter(|(size, _)| **size != 1) {
            match runs.last_mut() {
                Some((count, inner)) if *inner == stride * size => {
                    *count *= size;
                    *inner = stride;
                }
                _ => runs.push((size, stride)),
            }
        }
        let mut strides = vec![1; sizes.len()];
        let mut new = sizes.len();
        for (count, inner) in runs.into_iter().rev() {
            let mut left = count;
            let mut stride = inner;
            while left > 1 {
                new = new.checked_sub(1)?;
                if left % sizes[new] != 0 {
                    return None;
                }
                strides[new] = stride;
                stride *= sizes[new];
                left /= sizes[new];
            }
        }
        // What remains are unit dimensions.
        Some(Self { sizes: sizes.to_vec(), strides, offset: self.offset })
    }
    /// The window that `dynamo.as_strided` makes; only row-major memory can be seen that way.
    pub fn as_strided(&self, sizes: &[i64], strides: &[i64], offset: i64) -> Option<Self> {
        self.is_row_major().then(|| Self { sizes: sizes.to_vec(), strides: strides.to_vec(), offset: self.offset + offset })
    }
    /// The window without its unit dimensions.
    pub fn squeeze(&self) -> Self {
        let (sizes, strides) = self.sizes.iter().zip(&self.strides).filter(|(size, _)| **size != 1).unzip();
        Self { sizes, strides, offset: self.offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_window_has_no_flat_view() {
        let window = Window::dense(&[2, 3]).permute(&[1, 0]);
        assert_eq!(window.reshape(&[6]), None);
        assert_eq!(window.reshape(&[3, 1, 2]).map(|w| w.strides), Some(vec![1, 1, 3]));
    }

    #[test]
    fn reshape_splits_and_merges_runs() {
        let window = Window::dense(&[4, 6]).slice(&[0, 0], &[1, 1], &[2, 6]);
        assert_eq!(window.reshape(&[12]).map(|w| w.strides), Some(vec![1]));
        assert_eq!(window.reshape(&[2, 2, 3]).map(|w| w.strides), Some(vec![6, 3, 1]));
    }

    #[test]
    fn a_broadcast_window_keeps_its_zero_strides() {
        let window = Window::dense(&[3]).broadcast(&[2, 3], &[1]);
        assert_eq!(window.strides, [0, 1]);
        assert_eq!(window.reshape(&[6]), None);
    }

    #[test]
    fn reverse_starts_at_the_end() {
        let window = Window::dense(&[2, 3]).reverse(&[1]);
        assert_eq!((window.offset, window.strides), (2, vec![3, -1]));
    }

    #[test]
    fn density_ignores_order_and_unit_dimensions() {
        assert!(is_dense(&[2, 1, 3], &[1, 77, 2]));
        assert!(!is_dense(&[2, 3], &[4, 1]));
    }
}
