//! The rules of `floordiv`, `mod`, `min` and `max` that hold for all values of all symbols.
//!
//! Division is floor division: ⌊x/d⌋, and x mod d = x − d·⌊x/d⌋. Each rule says why it is correct for that, also if x or d is negative.
//! Rules that are correct only within a symbol's range are in [`crate::Scope::simplify`].
//!
//! A rule may define a value for an expression that had none (`0 floordiv s0` is 0, also for `s0` = 0), but never changes one.

use smallvec::{SmallVec, smallvec};

use crate::{
    error::{Result, ShapeError},
    expr::{Atom, Expr, Function, Monomial, Term, Terms},
    number,
};

/// The largest number of operands of a `min` or `max`: each is compared with all others.
const MAX_OPERANDS: usize = 64;

impl Expr {
    /// ⌊self / divisor⌋.
    pub fn floordiv(&self, divisor: &Self) -> Result<Self> {
        if let Some(d) = divisor.known() {
            return self.floordiv_number(d);
        }
        // ⌊q·d / d⌋ = q; 0 and the divisor itself are among the multiples.
        if let Some(quotient) = self.divided_exactly(divisor) {
            return Ok(quotient);
        }
        // ⌊x / −d⌋ = ⌊−x / d⌋
        if is_negated(divisor) {
            return self.neg()?.floordiv(&divisor.neg()?);
        }
        // ⌊(q·d + r) / d⌋ = q + ⌊r/d⌋
        let (whole, rest) = self.split(divisor)?;
        // ⌊k·r / k·d⌋ = ⌊r/d⌋ for k ≠ 0; for k = 0 the left side is undefined.
        let (factor, monomial) = common(&rest, divisor);
        let (rest, divisor) = (rest.reduced(factor, &monomial)?, divisor.reduced(factor, &monomial)?);
        let quotient = match divisor.known() {
            Some(d) => rest.floordiv_number(d)?,
            None => Self::call(Function::FloorDiv, smallvec![rest, divisor])?,
        };
        whole.add(&quotient)
    }

    /// self − divisor · ⌊self / divisor⌋.
    pub fn modulo(&self, divisor: &Self) -> Result<Self> {
        if let Some(d) = divisor.known() {
            return self.modulo_number(d);
        }
        // q·d mod d = 0
        if self.divided_exactly(divisor).is_some() {
            return Ok(Self::number(0));
        }
        // x mod −d = x + d·⌊−x / d⌋ = −(−x mod d)
        if is_negated(divisor) {
            return self.neg()?.modulo(&divisor.neg()?)?.neg();
        }
        // (q·d + r) mod d = r mod d
        let (_, rest) = self.split(divisor)?;
        // k·r mod k·d = k·r − k·d·⌊r/d⌋ = k · (r mod d) for k ≠ 0
        let (factor, monomial) = common(&rest, divisor);
        let (rest, divisor) = (rest.reduced(factor, &monomial)?, divisor.reduced(factor, &monomial)?);
        let rest = match divisor.known() {
            Some(d) => rest.modulo_number(d)?,
            None => Self::call(Function::Mod, smallvec![rest, divisor])?,
        };
        rest.mul(&Self::term(factor as i64, monomial)?)
    }

    /// ⌈self / divisor⌉ = −⌊−self / divisor⌋.
    pub fn ceildiv(&self, divisor: &Self) -> Result<Self> {
        self.neg()?.floordiv(divisor)?.neg()
    }

    /// The smaller one.
    pub fn min(&self, other: &Self) -> Result<Self> {
        Self::extreme(Function::Min, [self, other])
    }

    /// The larger one.
    pub fn max(&self, other: &Self) -> Result<Self> {
        Self::extreme(Function::Max, [self, other])
    }

    fn floordiv_number(&self, d: i64) -> Result<Self> {
        match d {
            0 => return Err(ShapeError::DivisionByZero),
            1 => return Ok(self.clone()),
            // ⌊x / −d⌋ = ⌊−x / d⌋
            ..0 => return self.neg()?.floordiv_number(d.checked_neg().ok_or(ShapeError::Overflow)?),
            _ => {}
        }
        // ⌊(q·d + r) / d⌋ = q + ⌊r/d⌋, and ⌊r/d⌋ = 0 for a number 0 ≤ r < d.
        let (whole, rest, constant) = self.residue(d);
        let whole = |quotient: Self| if whole.is_empty() { Ok(quotient) } else { Self::from_sorted(whole)?.add(&quotient) };
        if rest.is_empty() {
            return whole(Self::number(0));
        }
        // ⌊(g·x + c) / g·d⌋ = ⌊(x + ⌊c/g⌋) / d⌋, since ⌊y / g·d⌋ = ⌊⌊y/g⌋ / d⌋ for g > 0.
        let (g, x) = reduced_sum(rest, constant, d)?;
        let d = d / g;
        // ⌊(⌊x/m⌋ + c) / d⌋ = ⌊⌊(x + c·m) / m⌋ / d⌋ = ⌊(x + c·m) / m·d⌋ for m, d > 0
        if let [Term { monomial, coefficient: 1 }] = x.varying()
            && let Some(Atom::Call(call)) = monomial.single()
            && let Some((inner, m)) = by_number(call).filter(|_| call.function == Function::FloorDiv)
            && let (Some(product), Some(shift)) = (m.checked_mul(d), m.checked_mul(x.constant()))
        {
            return whole(inner.add(&Self::number(shift))?.floordiv_number(product)?);
        }
        whole(Self::call(Function::FloorDiv, smallvec![x, Self::number(d)])?)
    }

    fn modulo_number(&self, d: i64) -> Result<Self> {
        match d {
            0 => return Err(ShapeError::DivisionByZero),
            1 | -1 => return Ok(Self::number(0)),
            // x mod −d = −(−x mod d)
            ..0 => return self.neg()?.modulo_number(d.checked_neg().ok_or(ShapeError::Overflow)?)?.neg(),
            _ => {}
        }
        // (q·d + r) mod d = r mod d, and r mod d = r for a number 0 ≤ r < d.
        let (_, rest, constant) = self.without_inner_mods(d)?.residue(d);
        if rest.is_empty() {
            return Ok(Self::number(constant));
        }
        // (g·x + c) mod g·d = g · ((x + ⌊c/g⌋) mod d) + c mod g, since 0 ≤ c mod g < g.
        let (g, x) = reduced_sum(rest, constant, d)?;
        let call = Self::call(Function::Mod, smallvec![x, Self::number(d / g)])?;
        call.scale(g)?.add(&Self::number(constant % g))
    }

    /// k·(x mod m) becomes k·x if d divides k·m: they differ by a multiple of k·m, so nothing changes modulo d.
    fn without_inner_mods(&self, d: i64) -> Result<Self> {
        let mut sum = self.clone();
        // Each round replaces calls in the sum by their operands, which are less deep.
        loop {
            // k may also be taken modulo d, if k·m does not overflow.
            let inner = |term: &Term| match term.monomial.single()? {
                Atom::Call(call) if call.function == Function::Mod => {
                    let (x, m) = by_number(call)?;
                    let (_, k) = number::nearest(term.coefficient, d);
                    (i128::from(k) * i128::from(m) % i128::from(d) == 0).then(|| (term.clone(), x.clone(), k))
                }
                _ => None,
            };
            let Some((term, x, k)) = sum.terms().iter().find_map(inner) else { return Ok(sum) };
            sum = sum.sub(&Self::term(term.coefficient, term.monomial)?)?.add(&x.scale(k)?)?;
        }
    }

    /// (q, r, c) with `self = d·q + r + c`: r does not have a number term, its coefficients are those closest to 0, and 0 ≤ c < d. So
    /// values that are equal modulo d have the same r and c.
    fn residue(&self, d: i64) -> (Terms, Terms, i64) {
        let (mut whole, mut rest) = (Terms::new(), Terms::new());
        for Term { monomial, coefficient } in self.varying() {
            let (quotient, left) = number::nearest(*coefficient, d);
            for (list, coefficient) in [(&mut whole, quotient), (&mut rest, left)] {
                if coefficient != 0 {
                    list.push(Term { monomial: monomial.clone(), coefficient });
                }
            }
        }
        let (quotient, constant) = (self.constant().div_euclid(d), self.constant().rem_euclid(d));
        if quotient != 0 {
            whole.push(Term { monomial: Monomial::one(), coefficient: quotient });
        }
        (whole, rest, constant)
    }

    /// (q, r) with `self = q·divisor + r`. For a divisor of one term, each term of r lacks that term's monomial, or has it with a
    /// coefficient closer to 0 than to a multiple. For other divisors nothing is split off.
    fn split(&self, divisor: &Self) -> Result<(Self, Self)> {
        let [by] = divisor.terms() else { return Ok((Self::number(0), self.clone())) };
        let d = by.coefficient;
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for term in self.terms() {
            let (quotient, left) = match term.monomial.without(&by.monomial) {
                Some(monomial) => {
                    let (quotient, left) = number::nearest(term.coefficient, d);
                    (Some(Term { monomial, coefficient: quotient }), left)
                }
                None => (None, term.coefficient),
            };
            whole.extend(quotient.filter(|term| term.coefficient != 0));
            if left != 0 {
                rest.push(Term { coefficient: left, ..term.clone() });
            }
        }
        Ok((Self::from_terms(whole)?, Self::from_terms(rest)?))
    }

    /// The exact quotient by a factor common to all terms.
    fn reduced(&self, factor: u64, monomial: &Monomial) -> Result<Self> {
        if factor <= 1 && monomial.is_one() {
            return Ok(self.clone());
        }
        let factor = i64::try_from(factor).map_err(|_| ShapeError::Overflow)?.max(1);
        let divided = |term: &Term| {
            let monomial = term.monomial.without(monomial).unwrap_or_else(|| term.monomial.clone());
            Term { monomial, coefficient: term.coefficient / factor }
        };
        Self::from_terms(self.terms().iter().map(divided).collect())
    }

    /// The smallest or largest of some expressions.
    pub(crate) fn extreme<'a>(function: Function, operands: impl IntoIterator<Item = &'a Self>) -> Result<Self> {
        // min(min(a, b), c) = min(a, b, c)
        let mut kept: SmallVec<[Self; 2]> = SmallVec::new();
        for operand in operands {
            match operand.as_call(function) {
                Some(call) => call.operands.iter().try_for_each(|inner| keep_extreme(function, &mut kept, inner))?,
                None => keep_extreme(function, &mut kept, operand)?,
            }
        }
        // min(a, max(a, b)) = a and max(a, min(a, b)) = a
        let opposite = if function == Function::Min { Function::Max } else { Function::Min };
        let absorbed =
            |operand: &Self| operand.as_call(opposite).is_some_and(|call| call.operands.iter().any(|inner| kept.contains(inner)));
        let mut left: SmallVec<[Self; 2]> = kept.iter().filter(|operand| !absorbed(operand)).cloned().collect();
        left.sort_unstable();
        match &left[..] {
            // min(a, a) = a
            [only] => Ok(only.clone()),
            _ => Self::call(function, left),
        }
    }
}

/// (g, (rest + c) / g, rounded down) for the g that divides the terms and d; c ≥ 0.
fn reduced_sum(mut rest: Terms, c: i64, d: i64) -> Result<(i64, Expr)> {
    let g = rest.iter().fold(d.unsigned_abs(), |gcd, term| number::gcd(gcd, term.coefficient.unsigned_abs())) as i64;
    rest.iter_mut().for_each(|term| term.coefficient /= g);
    if c >= g {
        rest.push(Term { monomial: Monomial::one(), coefficient: c / g });
    }
    Ok((g, Expr::from_sorted(rest)?))
}

/// Adds an operand to those of a `min` or `max`. Of two that differ by a number, one is redundant: min(x, x + c) = x for c ≥ 0. Two
/// numbers, and two equal operands, are special cases of that.
fn keep_extreme(function: Function, kept: &mut SmallVec<[Expr; 2]>, operand: &Expr) -> Result<()> {
    for other in &mut *kept {
        if operand.varying() == other.varying() {
            if (function == Function::Min) == (operand.constant() < other.constant()) {
                *other = operand.clone();
            }
            return Ok(());
        }
    }
    if kept.len() >= MAX_OPERANDS {
        return Err(ShapeError::TooLarge);
    }
    kept.push(operand.clone());
    Ok(())
}

/// The largest number and product of atoms that divide all terms of both; if one is 0, those of the other.
fn common(a: &Expr, b: &Expr) -> (u64, Monomial) {
    let ((number_a, monomial_a), (number_b, monomial_b)) = (a.content(), b.content());
    let number = number::gcd(number_a, number_b);
    // 2^63 does not fit a coefficient; keeping the factor is correct, too.
    (if i64::try_from(number).is_ok() { number } else { 1 }, monomial_a.common(&monomial_b))
}

/// Returns true if the first coefficient is negative, which is the case for exactly one of d and −d.
fn is_negated(divisor: &Expr) -> bool {
    divisor.terms().first().is_some_and(|term| term.coefficient < 0)
}

/// The operands of a division whose divisor is a number.
pub(crate) fn by_number(call: &crate::expr::Call) -> Option<(&Expr, i64)> {
    let [x, d] = &call.operands[..] else { return None };
    Some((x, d.known()?))
}
