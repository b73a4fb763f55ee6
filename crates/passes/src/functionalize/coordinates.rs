//! What a tensor shows of its storage, and where that lies in the value that stands for the storage.

use dynamlir_dialect::ir::Type;

/// Sizes, strides and storage offset of one tensor, in elements.
pub type Window = dynamlir_shapes::Window<i64>;

/// The window that a `!dynamo.tensor` shows.
pub fn shown(ty: Type) -> Window {
    Window { sizes: ty.shape(), strides: ty.strides(), offset: ty.offset() }
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
        if window.is_empty() {
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
}
