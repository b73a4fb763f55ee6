//! Predicates on sizes: decides which are true, which are false, and which need a guard. Also the simplifier that uses ranges.

use std::{fmt, str::FromStr};

use crate::{
    Bindings, Dim, Dimension, Expr, Fault, Interval, ParseError, Scope,
    bounds::atom_expr,
    error::Result,
    expr::{Atom, Call, Function, Monomial, Term},
    simplify::by_number,
};

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are named as in Rust's own traits")]
pub enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Relation {
    /// Returns true if it holds between these numbers.
    #[inline]
    pub fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Self::Eq => left == right,
            Self::Ne => left != right,
            Self::Lt => left < right,
            Self::Le => left <= right,
            Self::Gt => left > right,
            Self::Ge => left >= right,
        }
    }
    /// The relation that holds exactly where this one does not.
    pub fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
        }
    }
    /// Decides the comparison from an interval of differences, if the interval suffices.
    fn within(self, difference: Interval) -> Option<bool> {
        let (least, most) = (difference.lower(), difference.upper());
        let all = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
        match self {
            Self::Lt => all(most.is_some_and(|most| most < 0), least.is_some_and(|least| least >= 0)),
            Self::Le => all(most.is_some_and(|most| most <= 0), least.is_some_and(|least| least > 0)),
            Self::Eq => all(difference.as_point() == Some(0), !difference.contains(0)),
            Self::Ne | Self::Gt | Self::Ge => self.negated().within(difference).map(|holds| !holds),
        }
    }
}

/// A comparison of two sizes; its truth may depend on the values of the symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Predicate {
    /// The left side.
    pub left: Dim,
    /// The relation between the sides.
    pub relation: Relation,
    /// The right side.
    pub right: Dim,
}

impl Predicate {
    /// `left relation right`.
    pub fn new(left: impl Into<Dim>, relation: Relation, right: impl Into<Dim>) -> Self {
        Self { left: left.into(), relation, right: right.into() }
    }
    /// `size` is a multiple of `divisor`.
    pub fn divisible(size: &Dim, divisor: &Dim) -> Result<Self> {
        Ok(Self::new(size.modulo(divisor)?, Relation::Eq, 0))
    }
    /// Returns true if it holds for these values of the symbols.
    pub fn holds(&self, bindings: &Bindings) -> Result<bool> {
        Ok(self.relation.holds(self.left.at(bindings)?, self.right.at(bindings)?))
    }
    /// Left minus right.
    pub(crate) fn difference(&self) -> Result<Expr> {
        self.left.to_expr().sub(&self.right.to_expr())
    }
    /// The negation.
    pub fn negated(&self) -> Self {
        Self { relation: self.relation.negated(), ..self.clone() }
    }
}

impl Scope {
    /// Returns true or false if the predicate has that value for all values that the symbols can have; `None` if it depends, or if this
    /// analysis cannot tell.
    pub fn decide(&self, predicate: &Predicate) -> Option<bool> {
        if let (Some(left), Some(right)) = (predicate.left.known(), predicate.right.known()) {
            return Some(predicate.relation.holds(left, right));
        }
        let Ok(difference) = predicate.difference() else { return self.decide_far(predicate) };
        self.decide_difference(&self.simplify(&difference).ok()?, predicate.relation)
    }

    /// Decides by the bounds of both sides, for numbers so large that the difference does not fit an `i64`: `s0 - 2` is less than
    /// `i64::MAX`, which torch uses for the missing end of a slice.
    fn decide_far(&self, predicate: &Predicate) -> Option<bool> {
        let (left, right) = (predicate.left.to_expr(), predicate.right.to_expr());
        let ends = |expr: &Expr| {
            let shift = i128::from(expr.constant());
            let varying = self.bounds(&expr.sub(&Expr::number(expr.constant())).ok()?);
            Some((i128::from(varying.lower().unwrap_or(i64::MIN)) + shift, i128::from(varying.upper().unwrap_or(i64::MAX)) + shift))
        };
        let ((low, high), (least, most)) = (ends(&left)?, ends(&right)?);
        predicate.relation.within(Interval::wide(low - most, high - least))
    }

    fn decide_difference(&self, difference: &Expr, relation: Relation) -> Option<bool> {
        if let Some(value) = difference.known() {
            return Some(relation.holds(value, 0));
        }
        let found = relation.within(self.bounds(difference));
        if found.is_some() {
            return found;
        }
        if matches!(relation, Relation::Eq | Relation::Ne) && self.is_nonzero(difference) {
            return Some(relation == Relation::Ne);
        }
        // x mod d = x − d·⌊x/d⌋; as polynomials over the quotients, more forms are equal.
        let expanded = without_mods(difference).ok().filter(|expanded| expanded != difference)?;
        relation.within(self.bounds(&expanded))
    }

    /// Returns true by an assumption, or if a nonzero remainder is left where the rest is a multiple.
    fn is_nonzero(&self, expr: &Expr) -> bool {
        let rest = expr.constant().unsigned_abs();
        let divisor = expr.varying().iter().fold(0, |gcd, term| crate::number::gcd(gcd, self.term_divisor(term)));
        let assumed = |expr: &Expr| self.nonzero.contains(expr);
        (divisor > 1 && !rest.is_multiple_of(divisor))
            || (!self.nonzero.is_empty() && (assumed(expr) || expr.neg().is_ok_and(|expr| assumed(&expr))))
    }

    /// An expression that is equal for all values of the symbols that this scope allows. Symbols and expressions known to equal a number or
    /// another expression are replaced, and rules that need ranges and divisors apply.
    pub fn simplify(&self, expr: &Expr) -> Result<Expr> {
        let is_plain = |atom: &Atom| match atom {
            Atom::Symbol(symbol) => {
                !self.solved.contains_key(symbol) && self.info(*symbol).is_none_or(|info| info.range.as_point().is_none())
            }
            Atom::Call(_) => false,
        };
        if expr.terms().iter().flat_map(|term| &term.monomial.0).all(is_plain) {
            return Ok(expr.clone());
        }
        let mut sum = Expr::number(expr.constant());
        for term in expr.varying() {
            let mut product = Expr::number(term.coefficient);
            for atom in &term.monomial.0 {
                product = product.mul(&self.simplified_atom(atom)?)?;
            }
            sum = sum.add(&product)?;
        }
        self.multiplied_quotients(&sum)
    }

    fn simplified_atom(&self, atom: &Atom) -> Result<Expr> {
        let call = match atom {
            Atom::Symbol(symbol) => {
                if let Some(value) = self.solved.get(symbol) {
                    // It contains no replaced symbol, but more may be known about its symbols by now.
                    return self.simplify(value);
                }
                let fixed = self.info(*symbol).and_then(|info| info.range.as_point());
                return Ok(fixed.map_or_else(|| Expr::symbol(*symbol), Expr::number));
            }
            Atom::Call(call) => call,
        };
        let operands = call.operands.iter().map(|operand| self.simplify(operand)).collect::<Result<Vec<_>>>()?;
        let simple = match (call.function, &operands[..]) {
            (Function::FloorDiv, [x, d]) => x.floordiv(d)?,
            (Function::Mod, [x, d]) => self.simple_mod(x, d)?,
            (function, operands) => self.simple_extreme(function, operands)?,
        };
        // An expression with only one possible value is that value.
        Ok(self.interval(&simple).as_point().map_or(simple, Expr::number))
    }

    /// x mod d = x for 0 ≤ x < d, and multiples of d can be dropped.
    fn simple_mod(&self, x: &Expr, d: &Expr) -> Result<Expr> {
        if self.interval(x).lower().is_some_and(|least| least >= 0) && self.is_surely(x, Relation::Lt, d) {
            return Ok(x.clone());
        }
        let Some(number) = d.known().filter(|number| *number > 0) else { return x.modulo(d) };
        let remains = |term: &&Term| !self.term_divisor(term).is_multiple_of(number.unsigned_abs());
        Expr::from_sorted(x.terms().iter().filter(remains).cloned().collect())?.modulo(d)
    }

    /// min(x, y) = x for x ≤ y.
    fn simple_extreme(&self, function: Function, operands: &[Expr]) -> Result<Expr> {
        let relation = if function == Function::Min { Relation::Le } else { Relation::Ge };
        let mut kept: Vec<&Expr> = Vec::new();
        for operand in operands {
            if kept.iter().any(|other| self.is_surely(other, relation, operand)) {
                continue;
            }
            kept.retain(|other| !self.is_surely(operand, relation, other));
            kept.push(operand);
        }
        Expr::extreme(function, kept)
    }

    /// Both are simplified already.
    fn is_surely(&self, left: &Expr, relation: Relation, right: &Expr) -> bool {
        left.sub(right).is_ok_and(|difference| relation.within(self.bounds(&difference)) == Some(true))
    }

    /// q·d·⌊x/d⌋ = q·x where d divides x.
    fn multiplied_quotients(&self, expr: &Expr) -> Result<Expr> {
        let exact = |term: &Term| {
            let dividing = |atom: &Atom| match atom {
                Atom::Call(call) if call.function == Function::FloorDiv => {
                    let (x, d) = by_number(call)?;
                    let fits = term.coefficient.checked_rem(d)? == 0 && self.divisor(x).is_multiple_of(d.unsigned_abs());
                    fits.then(|| (atom.clone(), x.clone(), term.coefficient / d))
                }
                _ => None,
            };
            term.monomial.0.iter().find_map(dividing).map(|found| (term.clone(), found))
        };
        let mut sum = expr.clone();
        // Each round removes one division.
        while let Some((term, (atom, x, coefficient))) = sum.terms().iter().find_map(exact) {
            let rest = term.monomial.without(&Monomial(smallvec::smallvec![atom])).unwrap_or_else(Monomial::one);
            let own = Expr::term(term.coefficient, term.monomial)?;
            sum = sum.sub(&own)?.add(&Expr::term(coefficient, rest)?.mul(&x)?)?;
        }
        Ok(sum)
    }
}

/// The expression with each outer x mod d written as x − d·⌊x/d⌋.
fn without_mods(expr: &Expr) -> Result<Expr> {
    let expanded = |call: &Call| -> Result<Expr> {
        let [x, d] = &call.operands[..] else { return Ok(Expr::number(0)) };
        let (x, d) = (without_mods(x)?, without_mods(d)?);
        x.sub(&d.mul(&x.floordiv(&d)?)?)
    };
    let mut sum = Expr::number(0);
    for term in expr.terms() {
        let mut product = Expr::number(term.coefficient);
        for atom in &term.monomial.0 {
            let factor = match atom {
                Atom::Call(call) if call.function == Function::Mod => Some(expanded(call)?),
                _ => atom_expr(atom),
            };
            product = product.mul(&factor.unwrap_or_else(|| Expr::number(0)))?;
        }
        sum = sum.add(&product)?;
    }
    Ok(sum)
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        })
    }
}

impl FromStr for Predicate {
    type Err = ParseError;

    /// Parses the printed form: `s0*2 <= s1`.
    fn from_str(text: &str) -> std::result::Result<Self, ParseError> {
        let all = [Relation::Eq, Relation::Ne, Relation::Le, Relation::Ge, Relation::Lt, Relation::Gt];
        let found = all.into_iter().find_map(|relation| Some((relation, text.split_once(&format!(" {relation} "))?)));
        let none = ParseError { position: text.len(), fault: Fault::Expected("a relation") };
        let (relation, (left, right)) = found.ok_or(none)?;
        let second = text.len() - right.len();
        let later = |fault: ParseError| ParseError { position: fault.position + second, ..fault };
        Ok(Self::new(left.parse::<Dim>()?, relation, right.parse::<Dim>().map_err(later)?))
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.relation, self.right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_is_printed() {
        for text in ["s0 <= s1", "(s0*s1) mod 8 == 0", "s0*2 != s1 floordiv 3", "min(s0, 4) > 2", "s0 < s1", "s0 >= -4"] {
            assert_eq!(text.parse::<Predicate>().expect("parses").to_string(), text);
        }
        assert_eq!("s0 + 1".parse::<Predicate>().expect_err("no relation").to_string(), "expected a relation at column 7");
        let fault = "s0 <= s1 +".parse::<Predicate>().expect_err("ends too early");
        assert!(fault.position >= 6, "{fault}");
    }

    #[test]
    fn a_predicate_holds_of_numbers() {
        let predicate: Predicate = "s0 mod 4 == s1".parse().expect("parses");
        let at = |s0, s1| predicate.holds(&[(crate::Symbol(0), s0), (crate::Symbol(1), s1)].into_iter().collect());
        assert_eq!((at(7, 3), at(8, 3)), (Ok(true), Ok(false)));
    }
}
