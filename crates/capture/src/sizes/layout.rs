//! How sizes and strides lie in memory, asked as torch's own C++ code asks it of numbers.

use dynamlir_shapes::{Dim, Dimension, Predicate, Relation};

use super::Sizes;

/// A layout that torch knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `is_contiguous`
    RowMajor,
    /// `is_channels_last_contiguous`, of images or volumes
    ChannelsLast(usize),
    /// `is_channels_last_strides`
    ChannelsLastStrides(usize),
    /// `is_non_overlapping_and_dense`
    Dense,
}

/// Whether a tensor is laid out so, from now on.
pub(super) fn is(known: &Sizes, sizes: &[Dim], strides: &[Dim], layout: Layout) -> bool {
    let asked = Asked { known, sizes, strides };
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

/// The dimensions from the innermost on.
fn channels_last(images: usize) -> Vec<usize> {
    std::iter::once(1).chain((2..images + 2).rev()).chain([0]).collect()
}

struct Asked<'a> {
    known: &'a Sizes,
    sizes: &'a [Dim],
    strides: &'a [Dim],
}

impl Asked<'_> {
    fn holds(&self, left: &Dim, relation: Relation, right: impl Into<Dim>) -> bool {
        self.known.decide(&Predicate::new(left.clone(), relation, right))
    }

    fn is_empty(&self) -> bool {
        self.sizes.iter().any(|size| self.holds(size, Relation::Eq, 0))
    }

    /// Whether each stride is the number of elements further in.
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

    /// Whether strides are as in channels-last memory with gaps.
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
