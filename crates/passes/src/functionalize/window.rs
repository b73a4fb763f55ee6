//! Strided windows on a storage, and where they lie in the value that stands for the storage.

use std::cmp::Reverse;

use dynamlir_dialect::ir::Type;

/// Sizes, strides and storage offset of one tensor, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub offset: i64,
}

impl Window {
    /// The window that a `!dynamo.tensor` shows.
    pub fn of(ty: Type) -> Self {
        Self { sizes: ty.shape(), strides: ty.strides(), offset: ty.offset() }
    }
    /// A whole row-major value of this shape.
    pub fn row_major(sizes: &[i64]) -> Self {
        Self { sizes: sizes.to_vec(), strides: row_major(sizes), offset: 0 }
    }
    /// Number of elements shown, repetitions counted.
    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }
    /// One past the last element; the offset of a window that shows nothing.
    pub fn end(&self) -> i64 {
        if self.numel() == 0 {
            return self.offset;
        }
        1 + self.offset + self.dims().map(|(n, s)| (n - 1) * s).sum::<i64>()
    }
    /// Equal for windows that show the same elements at the same indices: strides that never matter are 0.
    pub fn canonical(&self) -> Self {
        let empty = self.numel() == 0;
        let strides = self.dims().map(|(n, s)| if empty || n == 1 { 0 } else { s }).collect();
        Self { sizes: self.sizes.clone(), strides, offset: if empty { 0 } else { self.offset } }
    }
    /// Whether some element may be shown at two indices. Windows that interleave without touching count as well:
    /// telling them apart is not worth it.
    pub fn repeats(&self) -> bool {
        let mut dims: Vec<_> = self.dims().filter(|&(n, _)| n > 1).collect();
        dims.sort_by_key(|&(_, s)| s);
        let mut reach = 0;
        for (n, s) in dims {
            if s <= reach {
                return self.numel() > 0;
            }
            reach += (n - 1) * s;
        }
        false
    }
    /// Whether this is a whole stretch of memory in row-major order.
    pub fn is_row_major(&self) -> bool {
        self.canonical().strides == Self::row_major(&self.sizes).canonical().strides
    }
    /// For a window that fills a stretch of memory: its dimensions from the outermost to the innermost in memory.
    pub fn memory_order(&self) -> Option<Vec<usize>> {
        let mut order: Vec<_> = (0..self.sizes.len()).collect();
        order.sort_by_key(|&i| Reverse(self.strides[i]));
        let dense = Self {
            sizes: order.iter().map(|&i| self.sizes[i]).collect(),
            strides: order.iter().map(|&i| self.strides[i]).collect(),
            offset: 0,
        };
        dense.is_row_major().then_some(order)
    }
    /// The same elements without dimensions that repeat them, or None when elements repeat in another way.
    pub fn without_repetition(&self) -> Option<Self> {
        let sizes = self.dims().map(|(n, s)| if s == 0 { n.min(1) } else { n }).collect();
        let once = Self { sizes, ..self.clone() };
        (!once.repeats()).then_some(once)
    }
    fn dims(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.sizes.iter().copied().zip(self.strides.iter().copied())
    }
    /// `distance` as a number of steps along each dimension, largest stride first. The answer is unique as long as
    /// the window does not repeat elements; it may leave the window.
    fn steps(&self, distance: i64) -> Option<Vec<i64>> {
        let mut order: Vec<_> = (0..self.sizes.len()).filter(|&i| self.sizes[i] > 1).collect();
        order.sort_by_key(|&i| Reverse(self.strides[i]));
        let mut steps = vec![0; self.sizes.len()];
        let mut rest = distance;
        for i in order {
            steps[i] = rest.checked_div(self.strides[i])?;
            rest %= self.strides[i];
        }
        (rest == 0).then_some(steps)
    }
    /// This window in the coordinates of `root`'s value in row-major order, if every element it shows is one of
    /// `root`'s. `root` shows no element twice.
    fn within(&self, root: &Self) -> Option<Self> {
        let mut last = root.steps(self.offset.checked_sub(root.offset).filter(|&d| d >= 0)?)?;
        let unit = row_major(&root.sizes);
        let flat = |steps: &[i64]| steps.iter().zip(&unit).map(|(a, b)| a * b).sum::<i64>();
        let offset = flat(&last);
        let mut strides = Vec::new();
        for (n, s) in self.dims() {
            let steps = root.steps(if n > 1 { s } else { 0 })?;
            strides.push(flat(&steps));
            for (last, step) in last.iter_mut().zip(steps) {
                *last += (n - 1) * step;
            }
        }
        let inside = last.iter().zip(&root.sizes).all(|(last, size)| last < size);
        inside.then(|| Self { sizes: self.sizes.clone(), strides, offset })
    }
}

/// How the value that stands for a storage is laid over it.
#[derive(Clone, Debug)]
pub enum Coordinates {
    /// Its elements, in row-major order, are `len` neighbours in memory from `offset` on.
    Stretch { offset: i64, len: i64 },
    /// Index by index it is this window.
    Of(Window),
}

impl Coordinates {
    /// A window in row-major coordinates of the value; None when it shows something else than the value's elements.
    pub fn locate(&self, window: &Window) -> Option<Window> {
        let window = window.canonical();
        if window.numel() == 0 {
            return Some(window);
        }
        match self {
            Self::Stretch { offset, len } => {
                (window.offset >= *offset && window.end() <= offset + len).then(|| Window { offset: window.offset - offset, ..window })
            }
            Self::Of(root) => window.within(root),
        }
    }
}

/// Row-major strides of a shape.
pub fn row_major(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(sizes: &[i64], strides: &[i64], offset: i64) -> Window {
        Window { sizes: sizes.to_vec(), strides: strides.to_vec(), offset }
    }

    /// Storage elements that a window shows, in row-major order of its indices.
    fn elements(w: &Window) -> Vec<i64> {
        let mut all = vec![w.offset];
        for (n, s) in w.dims() {
            all = all.iter().flat_map(|&e| (0..n).map(move |i| e + i * s)).collect();
        }
        all
    }

    #[test]
    fn located_windows_show_the_same_elements() {
        let roots =
            [window(&[4, 6], &[6, 1], 3), window(&[4, 6], &[1, 4], 0), window(&[4, 3], &[12, 2], 5), window(&[2, 1, 3], &[3, 7, 1], 0)];
        let mut found = 0;
        for root in &roots {
            for other in roots.iter().flat_map(candidates) {
                if let Some(at) = Coordinates::Of(root.clone()).locate(&other) {
                    let of_root = elements(root);
                    let through: Vec<_> = elements(&at).iter().map(|&e| of_root[e as usize]).collect();
                    assert_eq!(through, elements(&other), "{other:?} in {root:?}");
                    found += 1;
                }
            }
        }
        assert!(found > 40, "only {found} windows were found");
    }

    fn candidates(r: &Window) -> Vec<Window> {
        let mut all = Vec::new();
        for start in 0..4 {
            for n in 1..4 {
                for step in 1..3 {
                    let offset = r.offset + start * r.strides[1] + r.strides[0];
                    all.push(window(&[n, 2], &[step * r.strides[0], r.strides[1]], offset));
                    all.push(window(&[2, n], &[0, r.strides[0] + step * r.strides[1]], offset));
                }
            }
        }
        all
    }

    #[test]
    fn repetition_and_memory_order() {
        assert!(window(&[3, 2], &[0, 1], 0).repeats());
        assert!(window(&[3, 2], &[1, 1], 0).repeats());
        assert!(!window(&[3, 2], &[2, 1], 0).repeats());
        assert!(!window(&[1, 2], &[0, 1], 0).repeats());
        assert_eq!(window(&[3, 2], &[1, 3], 0).memory_order(), Some(vec![1, 0]));
        assert_eq!(window(&[3, 2], &[3, 1], 0).memory_order(), None);
    }

    #[test]
    fn a_window_outside_is_not_found() {
        let root = window(&[4, 3], &[12, 2], 5);
        let inside = Coordinates::Of(root);
        assert!(inside.locate(&window(&[2], &[1], 5)).is_none());
        assert!(inside.locate(&window(&[4], &[2], 5)).is_none());
        assert!(inside.locate(&window(&[1], &[1], 4)).is_none());
    }
}
