//! Into which nodes of autograd's graph a function is split.
//!
//! Eager has a node for each operation. What a user sees of that are the results that require a gradient: a gradient of one with
//! respect to another, hooks on them, whether one can be walked back after another. So it is enough to have a node for each *class* of
//! operations: those whose gradients come from the same *visible* results.
//!
//! ```text
//! h = x * 2          reached by {h}       node 0: x ─► h
//! y = h.sin()        reached by {y}       node 1: h ─► y
//! return h, y
//!
//! t = x @ w          reached by {y, z}    node 0: x, w ─► t, which nobody sees
//! y, z = f(t), g(t)  by {y}, by {z}       nodes 1 and 2: t ─► y and t ─► z
//! return y, z
//! ```
//! A visible result is a cut: what is made of it does not reach what it was made of, but the result itself. So along any path without a
//! visible result the set can only become smaller, and nodes have an order. A function with one visible result has one node.
//!
//! Within a class either all gradients that come in from other nodes are there or none is, except for operators of several results.

use std::collections::BTreeSet;

use dynamlir_dialect::ir::{Output, Value};

/// A set of visible results, by its place in [`Nodes`].
pub type Class = usize;

/// The classes that have been met.
#[derive(Default)]
pub struct Nodes {
    sets: Vec<BTreeSet<usize>>,
    /// Pairs of a class and another whose results it takes.
    after: Vec<(Class, Class)>,
}

/// What a gradient is the gradient of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// An argument.
    Argument(usize),
    /// A result, also one that nobody sees.
    Result(usize),
    /// An output that is a view of a result or of an argument.
    Output(usize),
}

impl From<Of> for Output {
    fn from(of: Of) -> Self {
        match of {
            Of::Argument(at) => Self::Arg(at),
            Of::Result(at) => Self::Result(at),
            Of::Output(at) => Self::Same(at),
        }
    }
}

/// When a gradient is there.
#[derive(Clone, Default)]
pub struct Reached {
    /// Where one of these results has a tangent,
    pub results: BTreeSet<usize>,
    /// or whenever its node runs: a function of the user's takes zeros for what is missing.
    pub always: bool,
}

impl Reached {
    /// Where one of these results has a tangent.
    pub fn by(results: impl IntoIterator<Item = usize>) -> Self {
        Self { results: results.into_iter().collect(), always: false }
    }

    /// Where either is there.
    pub fn extend(&mut self, other: &Self) {
        self.results.extend(&other.results);
        self.always |= other.always;
    }
}

/// A sum of gradients.
#[derive(Clone)]
pub struct Sum {
    /// The sum.
    pub value: Value,
    /// When it is there.
    pub reached: Reached,
}

/// A gradient that a node gives.
pub struct Given {
    /// The class that gives it.
    pub class: Class,
    /// Of what.
    pub of: Of,
    /// The gradient.
    pub sum: Sum,
}

/// An edge of autograd's graph along which no gradient goes: a function of the user's has returned None. Autograd visits what has made
/// the operand all the same, and uses it up.
pub struct Led {
    /// The class that leads there.
    pub class: Class,
    /// To what.
    pub to: Of,
}

/// A tangent that a node takes.
pub struct Tangent {
    /// The result whose tangent it is.
    pub result: usize,
    /// The class that makes this result.
    pub class: Class,
    /// The argument.
    pub value: Value,
}

impl Nodes {
    /// The class that these visible results reach.
    pub fn of(&mut self, set: BTreeSet<usize>) -> Class {
        self.sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        })
    }

    /// The visible results that reach a class.
    pub fn set(&self, class: Class) -> &BTreeSet<usize> {
        &self.sets[class]
    }

    /// Notes that a class takes a result of another.
    pub fn comes_after(&mut self, class: Class, maker: Class) {
        if class != maker && !self.after.contains(&(class, maker)) {
            self.after.push((class, maker));
        }
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.sets.len()
    }

    /// The number of each class's node, in an order in which each comes after those whose results it takes. The walk meets what is run
    /// first last, so of several that may come next, that one does.
    pub fn numbers(&self) -> Vec<usize> {
        let mut numbers: Vec<Option<usize>> = vec![None; self.sets.len()];
        for number in 0..self.sets.len() {
            let is_ready = |class: &Class| {
                numbers[*class].is_none() && self.after.iter().all(|(later, maker)| later != class || numbers[*maker].is_some())
            };
            let next = (0..self.sets.len()).rev().find(is_ready).or_else(|| (0..self.sets.len()).find(|class| numbers[*class].is_none()));
            if let Some(next) = next {
                numbers[next] = Some(number);
            }
        }
        numbers.into_iter().map(Option::unwrap_or_default).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_after_those_whose_results_they_take() {
        let mut nodes = Nodes::default();
        let [y, z, trunk] = [&[0][..], &[1], &[0, 1]].map(|set| nodes.of(set.iter().copied().collect()));
        nodes.comes_after(y, trunk);
        nodes.comes_after(z, trunk);
        nodes.comes_after(z, y);
        assert_eq!(nodes.numbers(), [1, 2, 0]);
        assert_eq!(nodes.of(BTreeSet::from([1])), z);
        assert_eq!((nodes.count(), nodes.set(trunk).len()), (3, 2));
    }
}
