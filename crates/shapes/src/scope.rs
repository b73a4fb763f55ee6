//! Known facts about symbols: ranges, divisors, hints, equalities, and intervals of expressions.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Bindings, Expr, Interval, Predicate, Relation, Symbol,
    error::{Result, ShapeError},
    expr::{Atom, Function, Term},
    number,
    simplify::by_number,
};

/// The facts about one symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolInfo {
    /// The range of its values.
    pub range: Interval,
    /// The value it had when it was created, for choices that are correct for any value.
    pub hint: Option<i64>,
    /// Its values are multiples of this positive number.
    pub divisor: i64,
}

impl Default for SymbolInfo {
    /// A size of at least 2: 0 and 1 behave differently in broadcasts and strides, so they are never symbols.
    fn default() -> Self {
        Self { range: Interval::at_least(2), hint: None, divisor: 1 }
    }
}

/// The symbols of a graph and the facts about them.
///
/// Equalities are kept as a flat union-find: a symbol known to equal an expression over others is replaced by it (see [`Self::simplify`]),
/// and no replacement contains a replaced symbol.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub(crate) symbols: BTreeMap<Symbol, SymbolInfo>,
    pub(crate) solved: BTreeMap<Symbol, Expr>,
    /// Intervals of expressions in the form of [`key`].
    pub(crate) facts: BTreeMap<Expr, Interval>,
    /// Expressions that are not 0, normalized to a positive first coefficient.
    pub(crate) nonzero: BTreeSet<Expr>,
}

impl Scope {
    /// A scope without symbols.
    pub fn new() -> Self {
        Self::default()
    }
    /// Creates a symbol.
    pub fn fresh(&mut self, info: SymbolInfo) -> Symbol {
        let next = self.symbols.last_key_value().map_or(0, |(last, _)| last.0.saturating_add(1));
        self.declare(Symbol(next), info);
        Symbol(next)
    }
    /// Creates a symbol for a size of 2 or more, with this value as hint.
    pub fn fresh_size(&mut self, hint: i64) -> Symbol {
        self.fresh(SymbolInfo { hint: Some(hint), ..SymbolInfo::default() })
    }
    /// Declares a symbol with these facts.
    pub fn declare(&mut self, symbol: Symbol, info: SymbolInfo) {
        self.symbols.insert(symbol, SymbolInfo { divisor: info.divisor.max(1), ..info });
    }
    /// Returns true if the symbol was declared.
    pub fn contains(&self, symbol: Symbol) -> bool {
        self.symbols.contains_key(&symbol)
    }
    /// The declared facts about the symbol and those learned since.
    pub fn info(&self, symbol: Symbol) -> Option<&SymbolInfo> {
        self.symbols.get(&symbol)
    }
    /// All symbols.
    pub fn symbols(&self) -> impl Iterator<Item = (Symbol, &SymbolInfo)> {
        self.symbols.iter().map(|(symbol, info)| (*symbol, info))
    }
    /// The value at the hints, if all symbols have one.
    pub fn hint(&self, expr: &Expr) -> Option<i64> {
        let of_symbol = |symbol| self.info(symbol)?.hint.or_else(|| self.hint(self.solved.get(&symbol)?));
        expr.evaluate(&of_symbol).ok()
    }
    /// Returns true if these values are in the ranges, are multiples of the divisors, and satisfy the assumed equalities and facts.
    pub fn admits(&self, bindings: &Bindings) -> bool {
        // Differences of two sizes may not fit a size.
        let value = |expr: &Expr| expr.wide_value(&|symbol| bindings.get(symbol)).ok();
        self.symbols().all(|(symbol, info)| bindings.get(symbol).is_some_and(|v| info.range.contains(v) && v % info.divisor == 0))
            && self.solved.iter().all(|(symbol, expr)| value(expr) == bindings.get(*symbol).map(i128::from))
            && self.facts.iter().all(|(expr, interval)| value(expr).is_some_and(|v| interval.contains_wide(v)))
            && self.nonzero.iter().all(|expr| value(expr).is_some_and(|v| v != 0))
    }

    /// Assumes the predicate from now on: a guard that was checked. Returns an error if it can never hold; then nothing changes.
    pub fn assume(&mut self, predicate: &Predicate) -> Result<()> {
        let mut next = self.clone();
        next.learn(predicate)?;
        *self = next;
        Ok(())
    }

    fn learn(&mut self, predicate: &Predicate) -> Result<()> {
        let contradiction = || ShapeError::Contradiction(Box::new(predicate.clone()));
        match self.decide(predicate) {
            Some(true) => return Ok(()),
            Some(false) => return Err(contradiction()),
            None => {}
        }
        let difference = self.simplify(&predicate.difference()?)?;
        let interval = match predicate.relation {
            Relation::Lt => Interval::at_most(-1),
            Relation::Le => Interval::at_most(0),
            Relation::Gt => Interval::at_least(1),
            Relation::Ge => Interval::at_least(0),
            Relation::Eq => Interval::point(0),
            Relation::Ne => {
                let nonzero =
                    if difference.terms().first().is_some_and(|term| term.coefficient < 0) { difference.neg()? } else { difference };
                // Excluding the end of a range leaves a range.
                let range = self.bounds(&nonzero);
                let shorter = match (range.lower(), range.upper()) {
                    (Some(0), _) => Interval::at_least(1),
                    (_, Some(0)) => Interval::at_most(-1),
                    _ => Interval::ALL,
                };
                if shorter != Interval::ALL {
                    self.record(&nonzero, shorter).ok_or_else(contradiction)?;
                }
                self.nonzero.insert(nonzero);
                return Ok(());
            }
        };
        if predicate.relation == Relation::Eq {
            if self.divides(&difference) {
                return Ok(());
            }
            if let Some((symbol, value)) = solution(&difference) {
                return self.solve(symbol, &value).ok_or_else(contradiction);
            }
        }
        self.record(&difference, interval).ok_or_else(contradiction)
    }

    /// Records that `expr` lies in the interval; `None` if it cannot.
    fn record(&mut self, expr: &Expr, interval: Interval) -> Option<()> {
        if let Some(value) = expr.known() {
            return interval.contains(value).then_some(());
        }
        let (key, factor, shift) = key(expr).unwrap_or_else(|| (expr.clone(), 1, 0));
        let interval = interval.solve_affine(factor, shift);
        let known = match key.as_symbol() {
            Some(symbol) => &mut self.symbols.entry(symbol).or_insert(SymbolInfo { range: Interval::ALL, ..SymbolInfo::default() }).range,
            None => self.facts.entry(key).or_insert(Interval::ALL),
        };
        *known = known.meet(interval);
        (!known.is_empty()).then_some(())
    }

    /// Records a divisor of a symbol if `difference = 0` means just that: k·(c·s mod m) = 0 with c coprime to m, the form that the rules of
    /// `mod` produce.
    fn divides(&mut self, difference: &Expr) -> bool {
        let found = || {
            let [Term { monomial, .. }] = difference.terms() else { return None };
            let Atom::Call(call) = monomial.single()? else { return None };
            let (x, m) = by_number(call).filter(|_| call.function == Function::Mod)?;
            let [Term { monomial, .. }] = x.terms() else { return None };
            let Atom::Symbol(symbol) = monomial.single()? else { return None };
            let divisor = self.info(*symbol)?.divisor;
            let gcd = number::gcd(divisor.unsigned_abs(), m.unsigned_abs()) as i64;
            Some((*symbol, (divisor / gcd).checked_mul(m)?))
        };
        let Some((symbol, divisor)) = found() else { return false };
        self.symbols.entry(symbol).and_modify(|info| info.divisor = divisor);
        true
    }

    /// Replaces a symbol by the expression it equals, from now on.
    fn solve(&mut self, symbol: Symbol, value: &Expr) -> Option<()> {
        let old = self.symbols.get(&symbol).copied();
        self.solved.insert(symbol, value.clone());
        // The facts about the symbol carry over to its replacement.
        if let Some(old) = old {
            self.record(value, old.range)?;
            if let Some(info) = value.as_symbol().and_then(|symbol| self.symbols.get_mut(&symbol)) {
                let gcd = number::gcd(info.divisor.unsigned_abs(), old.divisor.unsigned_abs()) as i64;
                info.divisor = (info.divisor / gcd).checked_mul(old.divisor).unwrap_or(info.divisor);
                info.hint = info.hint.or(old.hint);
            }
        }
        // No stored expression may contain a replaced symbol. Those that cannot be rewritten are dropped, which loses their facts.
        for (replaced, expr) in self.solved.clone() {
            if let Ok(expr) = self.simplify(&expr) {
                self.solved.insert(replaced, expr);
            }
        }
        let facts = std::mem::take(&mut self.facts);
        for (expr, interval) in facts {
            if let Ok(expr) = self.simplify(&expr) {
                self.record(&expr, interval)?;
            }
        }
        let nonzero = std::mem::take(&mut self.nonzero);
        self.nonzero = nonzero.iter().filter_map(|expr| self.simplify(expr).ok()).collect();
        (!self.nonzero.contains(&Expr::number(0))).then_some(())
    }
}

/// (key, factor, shift) with `expr = factor · key + shift`: facts are stored only for the key, which all such expressions share.
pub(crate) fn key(expr: &Expr) -> Option<(Expr, i64, i64)> {
    let shift = expr.constant();
    let varying = Expr::from_sorted(expr.varying().into()).ok()?;
    let factor = i64::try_from(varying.content().0).ok().filter(|factor| *factor > 0)?;
    let factor = if varying.terms().first()?.coefficient < 0 { -factor } else { factor };
    let terms = varying.terms().iter().map(|term| Some(Term { coefficient: term.coefficient.checked_div(factor)?, ..term.clone() }));
    Some((Expr::from_sorted(terms.collect::<Option<_>>()?).ok()?, factor, shift))
}

/// Solves `expr = 0` for its newest symbol that is a term with coefficient 1 or −1 and occurs nowhere else.
fn solution(expr: &Expr) -> Option<(Symbol, Expr)> {
    let candidate = |term: &Term| {
        let Some(Atom::Symbol(symbol)) = term.monomial.single() else { return None };
        let sign = Some(term.coefficient).filter(|coefficient| matches!(coefficient, 1 | -1))?;
        let rest = expr.sub(&Expr::term(sign, term.monomial.clone()).ok()?).ok()?;
        let value = rest.scale(-sign).ok()?;
        (!rest.symbols().contains(symbol)).then_some((*symbol, value))
    };
    // For s0 = s1 the newer one is replaced.
    expr.terms().iter().filter_map(candidate).max_by_key(|(symbol, _)| *symbol)
}
