//! Sizes that only running tells: how many elements `nonzero` finds, what `item` reads.
//!
//! Such a symbol is no size of an input, so nothing that the call begins with says what it is, and no guard can hold it to a number: what
//! is asked of it is answered by its range, and by what `torch._check` has said, which is checked when the graph runs. Where that is not
//! enough the capture ends, and the question says where.
//!
//! Torch's own functions ask whether a size is 0 or 1 wherever they broadcast or look at strides. While one of them runs, a size that is
//! not negative is *presumed* to be 2 or more; whoever lets it presume (`python/dynamlir/presumed.py`) has to run it again for 0 and for 1,
//! and to end the capture where that is not the same.

use std::collections::BTreeSet;

use dynamlir_graph::Line;
use dynamlir_shapes::{Dim, Predicate, Relation, Scope, Symbol};
use pyo3::prelude::*;

use super::{SizeGuard, SizeNode, Sizes, node::Value, policy, question::Question};

/// What graphs may have that only running tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unbacked {
    /// Sizes of results.
    pub sizes: bool,
    /// Numbers that are read from tensors of ints.
    pub numbers: bool,
    /// Whether the graph is not cut where they come to be known: its nodes say what they are.
    pub uncut: bool,
}

impl Unbacked {
    /// Whether there is anything that they may have.
    pub fn any(self) -> bool {
        self.sizes || self.numbers
    }
}

/// What is known of the symbols that only running tells.
#[derive(Default)]
pub(crate) struct Untold {
    pub symbols: BTreeSet<Symbol>,
    /// Whether they may be presumed to be 2 or more.
    pub presumes: bool,
    /// Those of which something was decided so.
    pub presumed: BTreeSet<Symbol>,
    /// What could not be decided, and where that was asked.
    pub undecided: Option<(String, Vec<Line>)>,
}

impl Untold {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.symbols.len()
    }

    /// Whether a predicate depends on one of them.
    pub fn concerns(&self, predicate: &Predicate) -> bool {
        !self.symbols.is_empty() && !self.among(predicate).is_empty()
    }

    fn among(&self, predicate: &Predicate) -> Vec<Symbol> {
        let named = predicate.left.to_expr().symbols().into_iter().chain(predicate.right.to_expr().symbols());
        named.filter(|symbol| self.symbols.contains(symbol)).collect()
    }

    /// The answer that is presumed; None where nothing may be.
    pub fn presume(&mut self, predicate: &Predicate, scope: &Scope) -> Option<bool> {
        if !self.presumes {
            return None;
        }
        let mut many = scope.clone();
        for symbol in self.among(predicate) {
            let at_least = |number| Predicate::new(Dim::from(symbol), Relation::Ge, number);
            if scope.decide(&at_least(0)) != Some(true) {
                return None;
            }
            // Where it is less for sure, it is a number, or as good as one.
            if many.decide(&at_least(2)) != Some(false) {
                many.assume(&at_least(2)).ok()?;
            }
        }
        let answer = many.decide(predicate)?;
        self.presumed.extend(self.among(predicate));
        Some(answer)
    }
}

impl Sizes {
    /// Whether there is a symbol.
    pub(crate) fn any(&self) -> bool {
        self.with(|known| !known.ranges.is_empty())
    }

    /// How many symbols only running tells.
    pub(crate) fn unbacked_count(&self) -> usize {
        self.with(|known| known.unbacked.count())
    }

    /// What could not be decided, and where.
    pub(crate) fn undecided(&self) -> Option<(String, Vec<Line>)> {
        self.with(|known| known.unbacked.undecided.clone())
    }

    /// Whether a size depends on what only running tells.
    pub(crate) fn is_unbacked(&self, size: &Dim) -> bool {
        self.with(|known| known.unbacked.concerns(&Predicate::new(size.clone(), Relation::Eq, 0)))
    }

    /// Whether a question depends on what only running tells, as far as it is known.
    pub(crate) fn is_open(&self, predicate: &Predicate) -> bool {
        self.with(|known| known.unbacked.concerns(predicate) && known.scope.decide(predicate).is_none())
    }

    /// Notes that something could not be decided.
    pub(crate) fn leave_undecided(&self, what: &str) {
        if self.undecided().is_some() {
            return;
        }
        let location = policy::location();
        let message = format!("{what}, which only running tells; torch._check can promise what the program counts on");
        self.with(|known| known.unbacked.undecided.get_or_insert((message, location)).0.len());
    }

    /// Takes for true what has to be for the program to go on: of what only running tells it is checked then. False where it never is.
    pub(crate) fn count_on(&self, predicate: &Predicate) -> bool {
        if !self.is_open(predicate) {
            return self.decide(predicate);
        }
        let location = policy::location();
        self.with(|known| {
            let possible = known.scope.assume(predicate).is_ok();
            if possible {
                known.guards.push(SizeGuard { predicate: predicate.clone(), location });
            }
            possible
        })
    }

    /// The same of what arithmetic needs, unless it may be presumed.
    pub(crate) fn needs(&self, predicate: &Predicate) -> bool {
        let presumed = self.is_open(predicate).then(|| self.with(|known| known.unbacked.presume(predicate, &known.scope))).flatten();
        presumed.unwrap_or_else(|| self.count_on(predicate))
    }

    /// The same of what was asked.
    pub(super) fn promise(&self, question: &Question) -> bool {
        match question {
            Question::Is(predicate) => self.count_on(predicate),
            Question::Both(parts) => parts.iter().all(|part| self.promise(part)),
            Question::Either(_) => question.decide(self),
        }
    }

    /// Whether a guard is one that only running can check.
    pub(crate) fn is_checked_late(known: &super::Known, guard: &SizeGuard) -> bool {
        known.unbacked.concerns(&guard.predicate)
    }

    /// The guards that are checked before the graph runs, with their places among all.
    pub(super) fn early(known: &super::Known) -> impl Iterator<Item = (usize, &SizeGuard)> {
        known.guards.iter().enumerate().filter(|(_, guard)| !Self::is_checked_late(known, guard))
    }
}

impl SizeNode {
    /// Has what is asked be true, from now on.
    pub(crate) fn promised(&self, py: Python<'_>) -> bool {
        match &self.value {
            Value::Asked(question) => self.sizes.get().promise(question),
            _ => self.truth(py),
        }
    }

    /// The symbols in it, by their numbers, in its simplest form.
    pub(crate) fn named(&self) -> Vec<u32> {
        let Value::Int(size) = &self.value else { return Vec::new() };
        let size = self.sizes.get().made(Ok(size.clone()));
        size.to_expr().symbols().into_iter().map(|symbol| symbol.0).collect()
    }
}
