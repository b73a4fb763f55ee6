//! The split of a function into nodes of autograd's graph.
//!
//! Eager has a node for each operation. Users observe only the results that require a gradient: the gradient of one result with respect to
//! another, hooks on results, whether backward can run through one after another. So it is enough to have a node for each *class* of
//! operations: those whose gradients come from the same *visible* results.
//!
//! ```text
//! h = x * 2          reached by {h}       node 0: x ─► h
//! y = h.sin()        reached by {y}       node 1: h ─► y
//! return h, y
//!
//! t = x @ w          reached by {y, z}    node 0: x, w ─► t, which users do not see
//! y, z = f(t), g(t)  by {y}, by {z}       nodes 1 and 2: t ─► y and t ─► z
//! return y, z
//! ```
//! A visible result is a cut: gradients of values computed from it reach the result, but not the operations that it was computed from. So
//! along any path without a visible result the set can only shrink, and nodes have an order. A function with one visible result has one
//! node.
//!
//! Within a class, either all gradients from other nodes are present or none is, except for operators of several results.

use std::collections::BTreeSet;

use dynamlir_dialect::ir::{Output, Value};

/// A set of visible results, as an index into [`Nodes`].
pub type Class = usize;

/// The classes found so far.
#[derive(Default)]
pub struct Nodes {
    sets: Vec<BTreeSet<usize>>,
    /// Pairs of a class and another class whose results it takes.
    after: Vec<(Class, Class)>,
}

/// The value that a gradient belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// An argument.
    Argument(usize),
    /// A result, possibly a hidden one.
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

/// The condition under which a gradient is present.
#[derive(Clone, Default)]
pub struct Reached {
    /// Present if one of these results has a tangent,
    pub results: BTreeSet<usize>,
    /// or whenever its node runs: a user's function receives zeros for missing gradients.
    pub always: bool,
}

impl Reached {
    /// Present if one of these results has a tangent.
    pub fn by(results: impl IntoIterator<Item = usize>) -> Self {
        Self { results: results.into_iter().collect(), always: false }
    }

    /// Extends the condition: present if either is.
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
    /// The condition under which it is present.
    pub reached: Reached,
}

/// A gradient that a node returns.
pub struct NodeGradient {
    /// The class that returns it.
    pub class: Class,
    /// The value whose gradient it is.
    pub of: Of,
    /// The gradient.
    pub sum: Sum,
}

/// An edge of autograd's graph along which no gradient flows, since a user's function has returned None. Autograd still visits the
/// operation that computed the operand, and frees its saved tensors.
pub struct Led {
    /// The class at the start of the edge.
    pub class: Class,
    /// The value at the end of the edge.
    pub to: Of,
}

/// A tangent that a node takes.
pub struct Tangent {
    /// The result to which it belongs.
    pub result: usize,
    /// The class that computes this result.
    pub class: Class,
    /// The argument that holds it.
    pub value: Value,
}

impl Nodes {
    /// Returns the class for a set of visible results.
    pub fn of(&mut self, set: BTreeSet<usize>) -> Class {
        self.sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        })
    }

    /// Returns the visible results whose gradients reach a class.
    pub fn set(&self, class: Class) -> &BTreeSet<usize> {
        &self.sets[class]
    }

    /// Records that a class takes a result of another.
    pub fn comes_after(&mut self, class: Class, maker: Class) {
        if class != maker && !self.after.contains(&(class, maker)) {
            self.after.push((class, maker));
        }
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.sets.len()
    }

    /// Numbers each class's node in an order in which it comes after the nodes whose results it takes. The walk finds the first operations
    /// last, so of several candidates the class found last comes next.
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
