//! The bounds and divisors of an expression, given the facts in a scope.

use crate::{
    Expr, Interval, Scope,
    expr::{Atom, Call, Function, Monomial, Term},
    number,
    scope::key,
    simplify::by_number,
};

/// The number of `min` and `max` calls that are replaced by their operands, one after the other.
const REPLACEMENTS: u32 = 2;
/// The largest number of terms, and of operands, for this replacement.
const FEW: usize = 8;
/// A sum of more terms is not analysed term by term.
const MAX_TERMS: usize = 256;

impl Scope {
    /// An interval that contains the expression's value for all values of the symbols that this scope allows.
    pub fn bounds(&self, expr: &Expr) -> Interval {
        self.bounds_with(expr, REPLACEMENTS)
    }

    fn bounds_with(&self, expr: &Expr, replacements: u32) -> Interval {
        if let Some(value) = expr.known() {
            return Interval::point(value);
        }
        let mut found = self.interval(expr);
        if let Some(interval) = self.shifted(expr) {
            found = found.meet(interval);
        }
        if replacements == 0 {
            return found;
        }
        let call_of = |term| if let Some(Atom::Call(call)) = Monomial::single(term) { Some(call) } else { None };
        let calls = expr.terms().iter().filter_map(|term| Some((term, call_of(&term.monomial)?)));
        for (term, call) in calls.filter(|(_, call)| call.operands.len() <= FEW).take(FEW) {
            // c·min(a, b) ≤ c·a for c > 0, and so on: depending on the signs of both, a bound from above or from below.
            let above = match call.function {
                Function::Min => term.coefficient > 0,
                Function::Max => term.coefficient < 0,
                _ => continue,
            };
            let rest = Expr::term(term.coefficient, term.monomial.clone()).and_then(|own| expr.sub(&own));
            for operand in &call.operands {
                let Ok(replaced) = rest.clone().and_then(|rest| rest.add(&operand.scale(term.coefficient)?)) else { continue };
                let bound = self.bounds_with(&replaced, replacements - 1);
                found = found.meet(if above {
                    bound.upper().map_or(Interval::ALL, Interval::at_most)
                } else {
                    bound.lower().map_or(Interval::ALL, Interval::at_least)
                });
            }
        }
        found
    }

    /// Interval arithmetic combined with the known facts.
    pub(crate) fn interval(&self, expr: &Expr) -> Interval {
        let found = sum(expr, &|atom| self.atom_interval(atom));
        if self.facts.is_empty() {
            return found;
        }
        let fact = key(expr).and_then(|(key, factor, shift)| Some(self.facts.get(&key)?.affine(factor, shift)));
        fact.map_or(found, |fact| found.meet(fact))
    }

    fn atom_interval(&self, atom: &Atom) -> Interval {
        match atom {
            Atom::Symbol(symbol) => self.info(*symbol).map_or(Interval::ALL, |info| info.range),
            Atom::Call(call) => {
                let found = self.call_interval(call);
                let fact = if self.facts.is_empty() { None } else { atom_expr(atom).and_then(|expr| self.facts.get(&expr).copied()) };
                fact.map_or(found, |fact| found.meet(fact))
            }
        }
    }

    pub(crate) fn call_interval(&self, call: &Call) -> Interval {
        let mut operands = call.operands.iter().map(|operand| self.interval(operand));
        let Some(first) = operands.next() else { return Interval::ALL };
        operands.fold(first, |left, right| match call.function {
            Function::FloorDiv => left.floordiv(right),
            Function::Mod => left.modulo(right),
            Function::Min => left.min(right),
            Function::Max => left.max(right),
        })
    }

    /// The interval with each atom x ≥ n written as n + t with t ≥ 0, if that can be tighter: `s0*s1 - s0` with sizes of at least 2 becomes
    /// 2 + 2·t1 + t0 + t0·t1, whose terms are all at least 0.
    fn shifted(&self, expr: &Expr) -> Option<Interval> {
        let terms = expr.varying();
        let mixed = terms.iter().any(|term| term.coefficient < 0) && terms.iter().any(|term| term.coefficient > 0);
        if !mixed || terms[0].monomial.0.len() < 2 {
            return None;
        }
        let start = |atom: &Atom| self.atom_interval(atom).lower().unwrap_or(0);
        // Each product of sums, multiplied out.
        let mut all = Vec::new();
        for term in expr.terms() {
            let mut products = vec![Term { monomial: Monomial::one(), coefficient: term.coefficient }];
            for atom in &term.monomial.0 {
                let (start, factor) = (start(atom), Monomial(smallvec::smallvec![atom.clone()]));
                if all.len() + 2 * products.len() > MAX_TERMS {
                    return None;
                }
                for i in 0..products.len() {
                    let numbers = products[i].coefficient.checked_mul(start)?;
                    let variable = Term { monomial: products[i].monomial.times(&factor), ..products[i] };
                    products[i].coefficient = numbers;
                    products.push(variable);
                }
            }
            all.extend(products);
        }
        let shifted = Expr::from_terms(all).ok()?;
        Some(sum(&shifted, &|atom| self.atom_interval(atom).add(Interval::point(start(atom)).negated())))
    }

    /// A positive number that divides the expression's value; 0 if the value is 0.
    pub fn divisor(&self, expr: &Expr) -> u64 {
        expr.terms().iter().fold(0, |gcd, term| number::gcd(gcd, self.term_divisor(term)))
    }

    pub(crate) fn term_divisor(&self, term: &Term) -> u64 {
        let known = |atom: &Atom| match atom {
            Atom::Symbol(symbol) => self.info(*symbol).map_or(1, |info| info.divisor.unsigned_abs()),
            Atom::Call(call) => self.call_divisor(call),
        };
        // If the product overflows, a divisor of only part of the factors is correct, too.
        term.monomial.0.iter().fold(term.coefficient.unsigned_abs(), |product, atom| product.checked_mul(known(atom)).unwrap_or(product))
    }

    fn call_divisor(&self, call: &Call) -> u64 {
        match call.function {
            // ⌊k·d / d⌋ = k
            Function::FloorDiv => by_number(call).map_or(1, |(x, d)| {
                let (divisor, d) = (self.divisor(x), d.unsigned_abs());
                if d != 0 && divisor % d == 0 { divisor / d } else { 1 }
            }),
            // x mod d = x − d·⌊x/d⌋, and min and max each equal one of their operands.
            Function::Mod | Function::Min | Function::Max => {
                call.operands.iter().fold(0, |gcd, operand| number::gcd(gcd, self.divisor(operand)))
            }
        }
    }
}

/// Interval arithmetic over the terms.
fn sum(expr: &Expr, of: &dyn Fn(&Atom) -> Interval) -> Interval {
    let product = |monomial: &Monomial| {
        monomial.0.chunk_by(|a, b| a == b).fold(Interval::point(1), |product, same| product.mul(of(&same[0]).power(same.len())))
    };
    expr.terms().iter().fold(Interval::point(0), |sum, term| sum.add(product(&term.monomial).affine(term.coefficient, 0)))
}

/// An atom as an expression.
pub(crate) fn atom_expr(atom: &Atom) -> Option<Expr> {
    Expr::term(1, Monomial(smallvec::smallvec![atom.clone()])).ok()
}
