//! Sums, products and exact quotients of expressions, and their values.

use crate::{
    error::{Result, ShapeError},
    expr::{Atom, Expr, Function, Monomial, Symbol, Term, Terms},
    number,
};

/// More products of terms than this are not multiplied out.
const MAX_PRODUCTS: usize = 1024;

impl Expr {
    /// `self + other`.
    pub fn add(&self, other: &Self) -> Result<Self> {
        self.add_scaled(other, 1)
    }
    /// `self - other`.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        self.add_scaled(other, -1)
    }
    /// `-self`.
    pub fn neg(&self) -> Result<Self> {
        self.scale(-1)
    }
    /// `self + other · factor`, by merging the sorted terms.
    fn add_scaled(&self, other: &Self, factor: i64) -> Result<Self> {
        let scaled = |term: &Term| -> Result<Term> {
            let coefficient = term.coefficient.checked_mul(factor).ok_or(ShapeError::Overflow)?;
            Ok(Term { monomial: term.monomial.clone(), coefficient })
        };
        let (mut left, mut right) = (self.terms(), other.terms());
        let mut sum = Terms::new();
        while let ([a, rest_a @ ..], [b, rest_b @ ..]) = (left, right) {
            match a.monomial.cmp(&b.monomial) {
                std::cmp::Ordering::Less => {
                    sum.push(a.clone());
                    left = rest_a;
                }
                std::cmp::Ordering::Greater => {
                    sum.push(scaled(b)?);
                    right = rest_b;
                }
                std::cmp::Ordering::Equal => {
                    let both = i128::from(a.coefficient) + i128::from(b.coefficient) * i128::from(factor);
                    let coefficient = i64::try_from(both).map_err(|_| ShapeError::Overflow)?;
                    if coefficient != 0 {
                        sum.push(Term { monomial: a.monomial.clone(), coefficient });
                    }
                    (left, right) = (rest_a, rest_b);
                }
            }
        }
        sum.extend(left.iter().cloned());
        for term in right {
            sum.push(scaled(term)?);
        }
        Self::from_sorted(sum)
    }
    /// `self · factor`.
    pub fn scale(&self, factor: i64) -> Result<Self> {
        match factor {
            0 => Ok(Self::number(0)),
            1 => Ok(self.clone()),
            _ => Self::number(0).add_scaled(self, factor),
        }
    }
    /// `self · other`, multiplied out.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        if let Some(factor) = other.known() {
            return self.scale(factor);
        }
        if let Some(factor) = self.known() {
            return other.scale(factor);
        }
        if self.terms().len() * other.terms().len() > MAX_PRODUCTS {
            return Err(ShapeError::TooLarge);
        }
        let mut terms = Vec::with_capacity(self.terms().len() * other.terms().len());
        for a in self.terms() {
            for b in other.terms() {
                let coefficient = a.coefficient.checked_mul(b.coefficient).ok_or(ShapeError::Overflow)?;
                terms.push(Term { monomial: a.monomial.times(&b.monomial), coefficient });
            }
        }
        Self::from_terms(terms)
    }
    /// The `q` with `self = divisor · q`, if the polynomials divide exactly.
    pub(crate) fn divided_exactly(&self, divisor: &Self) -> Option<Self> {
        let lead = divisor.terms().first()?;
        let (mut rest, mut quotient) = (self.clone(), Vec::new());
        // Each step removes the largest remaining monomial; no larger one reappears.
        while let Some(first) = rest.terms().first() {
            if first.coefficient.checked_rem(lead.coefficient)? != 0 || quotient.len() > MAX_PRODUCTS {
                return None;
            }
            let step =
                Term { monomial: first.monomial.without(&lead.monomial)?, coefficient: first.coefficient.checked_div(lead.coefficient)? };
            rest = rest.sub(&Self::term(step.coefficient, step.monomial.clone()).ok()?.mul(divisor).ok()?).ok()?;
            quotient.push(step);
        }
        Self::from_terms(quotient).ok()
    }
    /// The largest positive number, and the largest product of atoms, that divide every term; (0, 1) for 0.
    pub(crate) fn content(&self) -> (u64, Monomial) {
        let number = self.terms().iter().fold(0, |gcd, term| number::gcd(gcd, term.coefficient.unsigned_abs()));
        let mut terms = self.terms().iter();
        let first = terms.next().map_or_else(Monomial::one, |term| term.monomial.clone());
        (number, terms.fold(first, |common, term| common.common(&term.monomial)))
    }
    /// The value for the symbol values that `value_of` returns.
    ///
    /// Intermediate results are wider than the result, so that forms that are equal as polynomials overflow alike unless values come near
    /// 2^127.
    pub fn evaluate(&self, value_of: &dyn Fn(Symbol) -> Option<i64>) -> Result<i64> {
        i64::try_from(self.wide_value(value_of)?).map_err(|_| ShapeError::Overflow)
    }
    /// The same value, before it is narrowed.
    pub(crate) fn wide_value(&self, value_of: &dyn Fn(Symbol) -> Option<i64>) -> Result<i128> {
        let mut sum = 0_i128;
        for term in self.terms() {
            let mut product = i128::from(term.coefficient);
            for atom in &term.monomial.0 {
                let factor = match atom {
                    Atom::Symbol(symbol) => value_of(*symbol).ok_or(ShapeError::Unbound(*symbol))?.into(),
                    Atom::Call(call) => {
                        let mut values = call.operands.iter().map(|operand| operand.wide_value(value_of));
                        let first = values.next().unwrap_or(Ok(0))?;
                        values.try_fold(first, |left, right| match call.function {
                            Function::FloorDiv => number::wide_floordiv(left, right?),
                            Function::Mod => number::wide_modulo(left, right?),
                            Function::Min => Ok(left.min(right?)),
                            Function::Max => Ok(left.max(right?)),
                        })?
                    }
                };
                product = product.checked_mul(factor).ok_or(ShapeError::Overflow)?;
            }
            sum = sum.checked_add(product).ok_or(ShapeError::Overflow)?;
        }
        Ok(sum)
    }
}
