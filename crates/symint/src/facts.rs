//! The facts about symbols that a capture reads and records.

use dynamlir_shapes::{Dim, Predicate, Symbol};

use crate::{SizeGuard, Sizes};

impl Sizes {
    /// Returns all symbols, in the order of their numbers.
    pub fn symbols(&self) -> Vec<Symbol> {
        self.with(|known| known.scope.symbols().map(|(symbol, _)| symbol).collect())
    }

    /// Returns the unbacked symbols, in the order of their numbers.
    pub fn unbacked_symbols(&self) -> Vec<Symbol> {
        self.with(|known| known.unbacked.symbols.iter().copied().collect())
    }

    /// Returns true if a symbol is declared.
    pub fn is_declared(&self, symbol: Symbol) -> bool {
        self.with(|known| known.scope.info(symbol).is_some())
    }

    /// Returns the range of each symbol, and the predicates to check before the graph runs.
    pub fn assumptions(&self) -> (Vec<(i64, i64)>, Vec<Predicate>) {
        self.with(|known| (known.ranges.clone(), Self::early(known).map(|(_, guard)| guard.predicate.clone()).collect()))
    }

    /// Returns the number of guards so far.
    pub fn guard_count(&self) -> usize {
        self.with(|known| known.guards.len())
    }

    /// Returns the assumptions made for faster code, see [`Sizes::expect_at_most`].
    pub fn expected(&self) -> Vec<Predicate> {
        self.with(|known| known.expected.clone())
    }

    /// Makes the assumptions for faster code that an earlier capture made, and no others. `None`: those that are true now.
    pub fn replay_expected(&self, expected: Option<Vec<Predicate>>) {
        self.with(|known| known.replayed = expected);
    }

    /// Returns the failure to express a size, because of which the capture must be discarded.
    pub fn failure(&self) -> Option<String> {
        self.with(|known| known.failed.clone())
    }

    /// Requires that a symbol does not turn out to be a single number. `place` describes the size.
    pub fn mark(&self, symbol: Symbol, place: String) {
        self.with(|known| known.marked.push((symbol, place)));
    }

    /// Returns the first marked size that turned out to be a single number: the size, the number, and the guards behind that.
    pub fn marked_as_number(&self) -> Option<(String, i64, Vec<SizeGuard>)> {
        self.with(|known| {
            known.marked.iter().find_map(|(symbol, place)| {
                let value = Dim::from(*symbol).simplify(&known.scope).ok()?.known()?;
                let about = |guard: &&SizeGuard| {
                    let Predicate { left, right, .. } = &guard.predicate;
                    left.to_expr().symbols().contains(symbol) || right.to_expr().symbols().contains(symbol)
                };
                let guards = known.guards.iter().filter(about);
                Some((place.clone(), value, guards.cloned().collect()))
            })
        })
    }
}
