//! Memory layouts of sizes and strides, determined in the way in which torch's own C++ code does it for numbers.

use dynamlir_shapes::{Dim, Dimension, Predicate, Relation};

use crate::Sizes;

/// A layout that torch has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `is_contiguous`
    RowMajor,
    /// `is_channels_last_contiguous`, of images or volumes
    ChannelsLast(usize),
    /// `is_channels_last_strides`
    ChannelsLastStrides(usize),
    /// `is_non_overlapping_and_dense`
    Dense,
}

/// Returns true if a tensor has this layout, and guards the answer.
pub(crate) fn is(known: &Sizes, sizes: &[Dim], strides: &[Dim], layout: Layout) -> bool {
    let asked = LayoutQuestion { known, sizes, strides };
    match layout {
        Layout::RowMajor => {
            let order: Vec<_> = (0..sizes.len()).rev().collect();
            asked.is_empty() || asked.follows(&order)
        }
        Layout::ChannelsLast(images) => sizes.len() == images + 2 && asked.follows(&channels_last(images)),
        Layout::ChannelsLastStrides(images) => sizes.len() == images + 2 && asked.ascends(&channels_last(images)),
        Layout::Dense => asked.is_dense(),
    }
}

/// Returns the dimensions from the innermost on.
fn channels_last(images: usize) -> Vec<usize> {
    std::iter::once(1).chain((2..images + 2).rev()).chain([0]).collect()
}

struct LayoutQuestion<'a> {
    known: &'a Sizes,
    sizes: &'a [Dim],
    strides: &'a [Dim],
}

impl LayoutQuestion<'_> {
    fn holds(&self, left: &Dim, relation: Relation, right: impl Into<Dim>) -> bool {
        self.known.decide(&Predicate::new(left.clone(), relation, right))
    }

    fn is_empty(&self) -> bool {
        self.sizes.iter().any(|size| self.holds(size, Relation::Eq, 0))
    }

    /// Returns true if each stride is the number of elements of the inner dimensions.
    fn follows(&self, order: &[usize]) -> bool {
        let mut expected = Dim::from(1);
        for &d in order {
            if self.holds(&self.sizes[d], Relation::Eq, 1) {
                continue;
            }
            if !self.holds(&self.strides[d], Relation::Eq, expected.clone()) {
                return false;
            }
            expected = self.known.made(expected.mul(&self.sizes[d]));
        }
        true
    }

    /// Returns true if strides are those of channels-last memory with gaps.
    fn ascends(&self, order: &[usize]) -> bool {
        if self.holds(&self.strides[1], Relation::Eq, 0) {
            return false;
        }
        let mut least = Dim::from(0);
        for &d in order {
            if self.holds(&self.sizes[d], Relation::Eq, 0) || self.holds(&self.strides[d], Relation::Lt, least.clone()) {
                return false;
            }
            if d == 0 && self.holds(&least, Relation::Eq, self.strides[1].clone()) {
                return false;
            }
            least = self.strides[d].clone();
            if self.holds(&self.sizes[d], Relation::Gt, 1) {
                least = self.known.made(least.mul(&self.sizes[d]));
            }
        }
        true
    }

    fn is_dense(&self) -> bool {
        if let ([size], [stride]) = (self.sizes, self.strides) {
            return self.holds(size, Relation::Lt, 2) || self.holds(stride, Relation::Eq, 1);
        }
        let mut order: Vec<usize> = Vec::new();
        let mut trivial = Vec::new();
        for d in 0..self.sizes.len() {
            if self.holds(&self.sizes[d], Relation::Lt, 2) {
                trivial.push(d);
                continue;
            }
            let at = order.iter().position(|&other| self.holds(&self.strides[d], Relation::Lt, self.strides[other].clone()));
            order.insert(at.unwrap_or(order.len()), d);
        }
        let mut expected = Dim::from(1);
        for d in order {
            if !self.holds(&self.strides[d], Relation::Eq, expected.clone()) {
                return false;
            }
            expected = self.known.made(expected.mul(&self.sizes[d]));
        }
        true
    }
}
