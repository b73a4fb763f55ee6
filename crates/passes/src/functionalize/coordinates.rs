//! The part of its storage that a tensor shows, and the place of that part in the value that represents the storage.
//!
//! Sizes may be expressions. The position of a part is then decided by the facts declared about their symbols. If it cannot be decided, the
//! part counts as not found. For windows with constant sizes only, more cases are recognized than for others.

use std::borrow::Cow;

use dynamlir_dialect::ir::Type;
use dynamlir_shapes::{Dim, Dimension, Predicate, Relation, Scope};

/// Sizes, strides and storage offset of a tensor, in elements.
pub type Window = dynamlir_shapes::Window;

/// The window that a `!dynamo.tensor` shows; its type must specify one.
pub fn shown(ty: Type) -> Window {
    // A mutable tensor's type has explicit strides, so no facts about symbols are needed.
    ty.window(&Scope::new()).unwrap_or_else(|| panic!("{ty} does not say its window"))
}

/// Canonicalizes a window, so that windows showing the same elements at the same indices are equal: strides that never matter become 0.
pub fn canonical(window: &Window) -> Window {
    let empty = is_empty(window);
    let dims = window.sizes.iter().zip(&window.strides);
    let strides = dims.map(|(size, stride)| if empty || size.is(1) { Dim::from(0) } else { stride.clone() }).collect();
    Window { sizes: window.sizes.clone(), strides, offset: if empty { Dim::from(0) } else { window.offset.clone() } }
}

/// Returns true if a window is known to be empty.
pub fn is_empty(window: &Window) -> bool {
    window.sizes.iter().any(|size| size.is(0))
}

/// The mapping between a storage and the value that represents it.
#[derive(Clone, Debug)]
pub enum Coordinates {
    /// The value's elements, in row-major order, are adjacent in memory: `len` of them, starting at `offset`.
    Stretch { offset: Dim, len: Dim },
    /// The value equals this window, index by index.
    Of(Window),
}

impl Coordinates {
    /// Converts a window to row-major coordinates of the value. `None` if it shows, or may show, other elements.
    pub fn locate(&self, window: &Window, scope: &Scope) -> Option<Window> {
        let window = canonical(window);
        if is_empty(&window) {
            return Some(window);
        }
        let scope = &*with_elements(&window, scope);
        match self {
            Self::Stretch { offset, len } => {
                let holds = |a: &Dim, b: &Dim| a.compare(Relation::Le, b, scope).unwrap_or(false);
                let inside = match window.extent_in(scope).ok()? {
                    None => true,
                    Some((first, last)) => holds(offset, &first) && holds(&last, &offset.add(len).ok()?.sub(&Dim::from(1)).ok()?),
                };
                let offset = window.offset.sub(offset).ok()?;
                inside.then_some(Window { offset, ..window })
            }
            Self::Of(root) if window == canonical(root) => Window::row_major_in(&window.sizes, scope).ok().map(|whole| canonical(&whole)),
            Self::Of(root) => window.known()?.within(&root.known()?).map(Window::from),
        }
    }
}

/// The facts about symbols, given that a window is not empty: an empty window may be located anywhere.
fn with_elements<'s>(window: &Window, scope: &'s Scope) -> Cow<'s, Scope> {
    let mut known = Cow::Borrowed(scope);
    for size in &window.sizes {
        let has_some = Predicate::new(size.clone(), Relation::Ge, 1);
        // If the assumption contradicts the other facts, the window is always empty.
        if known.decide(&has_some).is_none() && known.to_mut().assume(&has_some).is_err() {
            return Cow::Borrowed(scope);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = dynamlir_shapes::Window<i64>;

    fn window(sizes: &[i64], strides: &[i64], offset: i64) -> Numbers {
        Numbers { sizes: sizes.to_vec(), strides: strides.to_vec(), offset }
    }

    fn dim(text: &str) -> Dim {
        text.parse().expect("parses")
    }

    #[test]
    fn windows_of_expressions_are_located_where_that_is_decided() {
        let mut scope = Scope::new();
        let rows = Dim::from(scope.fresh_size(7));
        let whole = Window::row_major_in(&[rows.clone(), 4.into()], &scope).expect("a window");
        let stretch = Coordinates::Stretch { offset: 0.into(), len: dim("s0*4") };
        assert_eq!(stretch.locate(&whole, &scope), Some(whole.clone()));
        let last = Window { sizes: vec![4.into()], strides: vec![1.into()], offset: dim("s0*4 - 4") };
        assert_eq!(stretch.locate(&last, &scope), Some(last.clone()));
        // There may be fewer than three rows.
        assert_eq!(stretch.locate(&Window { offset: 8.into(), ..last }, &scope), None);
        // There may be exactly two rows: then the window behind them is empty.
        let rest = Window { sizes: vec![dim("s0 - 2"), 4.into()], strides: vec![4.into(), 1.into()], offset: 8.into() };
        assert_eq!(stretch.locate(&rest, &scope), Some(rest.clone()));
        assert_eq!(stretch.locate(&Window { offset: 9.into(), ..rest }, &scope), None);
        let turned = whole.transpose(0, 1).expect("two dimensions");
        assert_eq!(Coordinates::Of(turned.clone()).locate(&turned, &scope).map(|at| at.strides), Some(vec![rows, 1.into()]));
    }

    /// The storage elements that a window shows, in row-major order of its indices.
    fn elements(w: &Numbers) -> Vec<i64> {
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
                let at = Coordinates::Of(root.clone().into()).locate(&other.clone().into(), &Scope::new());
                if let Some(at) = at.and_then(|at| at.known()) {
                    let of_root = elements(root);
                    let through: Vec<_> = elements(&at).iter().map(|&e| of_root[e as usize]).collect();
                    assert_eq!(through, elements(&other), "{other:?} in {root:?}");
                    found += 1;
                }
            }
        }
        assert!(found > 40, "only {found} windows were found");
    }

    fn candidates(r: &Numbers) -> Vec<Numbers> {
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
