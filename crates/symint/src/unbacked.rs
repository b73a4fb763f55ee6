//! Unbacked sizes: the number of elements that `nonzero` finds, the value that `item` reads.
//!
//! Such a symbol is not a size of an input, so nothing known at the start of the call determines it, and it cannot be guarded to be a
//! number. Queries about it are answered from its range, and from assertions by `torch._check`, which are checked when the graph runs. If
//! these do not suffice, the capture ends, with the location of the query.
//!
//! Torch's own functions check if a size is 0 or 1 wherever they broadcast or inspect strides. While one of them runs, a size that is not
//! negative is *presumed* to be 2 or more. The code that enables this (`python/dynamlir/recheck_unbacked.py`) has to run the function again
//! for 0 and for 1, and to end the capture if the result differs.

use std::collections::BTreeSet;

use dynamlir_graph::Line;
use dynamlir_shapes::{Dim, Predicate, Relation, Scope, Symbol};
use pyo3::prelude::*;

use crate::{SizeGuard, SizeNode, Sizes, location, node::Value, question::Question};

/// The unbacked values that graphs may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unbacked {
    /// Sizes of results.
    pub sizes: bool,
    /// Numbers read from tensors of ints.
    pub numbers: bool,
    /// True if the graph is not split where these values become known: its nodes define them.
    pub uncut: bool,
}

impl Unbacked {
    /// Returns true if any of these values are allowed.
    pub fn any(self) -> bool {
        self.sizes || self.numbers
    }
}

/// The facts about unbacked symbols.
#[derive(Default)]
pub(crate) struct UnbackedSymbols {
    pub symbols: BTreeSet<Symbol>,
    /// True if they may be presumed to be 2 or more.
    pub presumes: bool,
    /// The symbols about which a decision was presumed.
    pub presumed: BTreeSet<Symbol>,
    /// The query that could not be decided, and its location.
    pub undecided: Option<(String, Vec<Line>)>,
}

impl UnbackedSymbols {
    /// Returns the number of unbacked symbols.
    pub fn count(&self) -> usize {
        self.symbols.len()
    }

    /// Returns true if a predicate depends on an unbacked symbol.
    pub fn concerns(&self, predicate: &Predicate) -> bool {
        !self.symbols.is_empty() && !self.among(predicate).is_empty()
    }

    fn among(&self, predicate: &Predicate) -> Vec<Symbol> {
        let named = predicate.left.to_expr().symbols().into_iter().chain(predicate.right.to_expr().symbols());
        named.filter(|symbol| self.symbols.contains(symbol)).collect()
    }

    /// Returns the presumed answer; `None` if it may not be presumed.
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
            // A symbol that is certainly less is a number, or nearly so.
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
    /// Returns true if any symbol exists.
    pub fn any(&self) -> bool {
        self.with(|known| !known.ranges.is_empty())
    }

    /// Returns the number of unbacked symbols.
    pub fn unbacked_count(&self) -> usize {
        self.with(|known| known.unbacked.count())
    }

    /// Returns the query that could not be decided, and its location.
    pub fn undecided(&self) -> Option<(String, Vec<Line>)> {
        self.with(|known| known.unbacked.undecided.clone())
    }

    /// Returns true if a size depends on an unbacked symbol.
    pub fn is_unbacked(&self, size: &Dim) -> bool {
        self.with(|known| known.unbacked.concerns(&Predicate::new(size.clone(), Relation::Eq, 0)))
    }

    /// Returns true if a query depends on an unbacked symbol and is not decided by the known facts.
    pub fn is_open(&self, predicate: &Predicate) -> bool {
        self.with(|known| known.unbacked.concerns(predicate) && known.scope.decide(predicate).is_none())
    }

    /// Records a query that could not be decided.
    pub fn leave_undecided(&self, what: &str) {
        if self.undecided().is_some() {
            return;
        }
        let location = location::current();
        let message = format!("{what} depends on unbacked values; torch._check can state what the program relies on");
        self.with(|known| known.unbacked.undecided.get_or_insert((message, location)).0.len());
    }

    /// Requires a predicate to be true for the program to continue. If it depends on unbacked symbols, it is assumed, and checked at run
    /// time. Returns false if it is known to be false.
    pub fn count_on(&self, predicate: &Predicate) -> bool {
        if !self.is_open(predicate) {
            return self.decide(predicate);
        }
        let location = location::current();
        self.with(|known| {
            let possible = known.scope.assume(predicate).is_ok();
            if possible {
                known.guards.push(SizeGuard { predicate: predicate.clone(), location });
            }
            possible
        })
    }

    /// Like [`Self::count_on`], for a requirement of arithmetic, unless it may be presumed.
    pub fn needs(&self, predicate: &Predicate) -> bool {
        let presumed = self.is_open(predicate).then(|| self.with(|known| known.unbacked.presume(predicate, &known.scope))).flatten();
        presumed.unwrap_or_else(|| self.count_on(predicate))
    }

    /// Like [`Self::count_on`], for a question.
    pub(crate) fn promise(&self, question: &Question) -> bool {
        match question {
            Question::Is(predicate) => self.count_on(predicate),
            Question::Both(parts) => parts.iter().all(|part| self.promise(part)),
            Question::Either(_) => question.decide(self),
        }
    }

    /// Returns true if a guard can only be checked when the graph runs.
    pub(crate) fn is_checked_late(known: &crate::SizeFacts, guard: &SizeGuard) -> bool {
        known.unbacked.concerns(&guard.predicate)
    }

    /// Returns the guards that are checked before the graph runs, with their positions among all guards.
    pub(crate) fn early(known: &crate::SizeFacts) -> impl Iterator<Item = (usize, &SizeGuard)> {
        known.guards.iter().enumerate().filter(|(_, guard)| !Self::is_checked_late(known, guard))
    }
}

impl SizeNode {
    /// Requires the truth value to be true; see [`Sizes::count_on`].
    pub fn promised(&self, py: Python<'_>) -> bool {
        match &self.value {
            Value::Asked(question) => self.sizes.get().promise(question),
            _ => self.truth(py),
        }
    }

    /// Returns the numbers of the symbols in its simplest form.
    pub fn named(&self) -> Vec<u32> {
        let Value::Int(size) = &self.value else { return Vec::new() };
        let size = self.sizes.get().made(Ok(size.clone()));
        size.to_expr().symbols().into_iter().map(|symbol| symbol.0).collect()
    }
}
