//! A size, stride or offset: a number, or an expression over symbols.

use std::{collections::BTreeMap, hash::Hash};

use crate::{
    Expr, Predicate, Relation, Scope, Symbol,
    error::{Result, ShapeError},
    number,
};

/// Values of symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(BTreeMap<Symbol, i64>);

impl Bindings {
    /// The symbol's value.
    pub fn get(&self, symbol: Symbol) -> Option<i64> {
        self.0.get(&symbol).copied()
    }
    /// Sets the value of a symbol; returns its previous value.
    pub fn insert(&mut self, symbol: Symbol, value: i64) -> Option<i64> {
        self.0.insert(symbol, value)
    }
}

impl FromIterator<(Symbol, i64)> for Bindings {
    fn from_iter<I: IntoIterator<Item = (Symbol, i64)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A number, or an expression that is not a number. Arithmetic folds, so a value that does not depend on symbols is always a number.
///
/// `==` compares forms: it is for maps and tests. Equality of *values* depends on the symbols; it is a [`Predicate`], decided by a
/// [`Scope`]. For the same reason sizes are not ordered.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Dim(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Known(i64),
    /// An expression that is not a number.
    Symbolic(Expr),
}

/// The type of a size: `i64` or [`Dim`]. Windows are written once for both, at no extra cost for `i64`.
pub trait Dimension: Clone + Eq + Hash + std::fmt::Debug + std::fmt::Display + From<i64> {
    /// The context in which comparisons are decided: nothing for numbers, the facts about symbols for expressions.
    type Scope: ?Sized;

    /// The number, if it is one.
    fn known(&self) -> Option<i64>;
    /// `self + other`.
    fn add(&self, other: &Self) -> Result<Self>;
    /// `self - other`.
    fn sub(&self, other: &Self) -> Result<Self>;
    /// `self · other`.
    fn mul(&self, other: &Self) -> Result<Self>;
    /// ⌊self / other⌋.
    fn floordiv(&self, other: &Self) -> Result<Self>;
    /// self − other · ⌊self / other⌋.
    fn modulo(&self, other: &Self) -> Result<Self>;
    /// The smaller one.
    fn min(&self, other: &Self) -> Result<Self>;
    /// The larger one.
    fn max(&self, other: &Self) -> Result<Self>;
    /// Returns true if the relation holds; [`ShapeError::Undecided`] if that depends on symbols.
    fn compare(&self, relation: Relation, other: &Self, scope: &Self::Scope) -> Result<bool>;

    /// ⌈self / other⌉ = −⌊−self / other⌋.
    fn ceildiv(&self, other: &Self) -> Result<Self> {
        let zero = Self::from(0);
        zero.sub(&zero.sub(self)?.floordiv(other)?)
    }
    /// Returns true if this is known to be the number; for an expression, false does not mean that it differs.
    fn is(&self, value: i64) -> bool {
        self.known() == Some(value)
    }
    /// The smaller one; an expression only if the scope does not know which one that is.
    fn min_in(&self, other: &Self, scope: &Self::Scope) -> Result<Self> {
        match self.compare(Relation::Le, other, scope) {
            Ok(smaller) => Ok(if smaller { self.clone() } else { other.clone() }),
            Err(_) => self.min(other),
        }
    }
    /// The larger one; an expression only if the scope does not know which one that is.
    fn max_in(&self, other: &Self, scope: &Self::Scope) -> Result<Self> {
        match self.compare(Relation::Ge, other, scope) {
            Ok(larger) => Ok(if larger { self.clone() } else { other.clone() }),
            Err(_) => self.max(other),
        }
    }
}

impl Dimension for i64 {
    type Scope = ();

    #[inline]
    fn known(&self) -> Option<i64> {
        Some(*self)
    }
    #[inline]
    fn add(&self, other: &Self) -> Result<Self> {
        number::checked(self.checked_add(*other))
    }
    #[inline]
    fn sub(&self, other: &Self) -> Result<Self> {
        number::checked(self.checked_sub(*other))
    }
    #[inline]
    fn mul(&self, other: &Self) -> Result<Self> {
        number::checked(self.checked_mul(*other))
    }
    #[inline]
    fn floordiv(&self, other: &Self) -> Result<Self> {
        number::floordiv(*self, *other)
    }
    #[inline]
    fn modulo(&self, other: &Self) -> Result<Self> {
        number::modulo(*self, *other)
    }
    #[inline]
    fn min(&self, other: &Self) -> Result<Self> {
        Ok(Ord::min(*self, *other))
    }
    #[inline]
    fn max(&self, other: &Self) -> Result<Self> {
        Ok(Ord::max(*self, *other))
    }
    #[inline]
    fn compare(&self, relation: Relation, other: &Self, (): &()) -> Result<bool> {
        Ok(relation.holds(*self, *other))
    }
}

impl Dim {
    /// The size as an expression, even if it is a number.
    pub fn to_expr(&self) -> Expr {
        match &self.0 {
            Form::Known(value) => Expr::number(*value),
            Form::Symbolic(expr) => expr.clone(),
        }
    }
    /// The number, if it is one.
    pub fn known(&self) -> Option<i64> {
        match self.0 {
            Form::Known(value) => Some(value),
            Form::Symbolic(_) => None,
        }
    }
    /// The symbol, if it is just a symbol.
    pub fn as_symbol(&self) -> Option<Symbol> {
        match &self.0 {
            Form::Known(_) => None,
            Form::Symbolic(expr) => expr.as_symbol(),
        }
    }
    /// The value at the hints of the scope's symbols; for choices that are correct for any value.
    pub fn hint(&self, scope: &Scope) -> Option<i64> {
        match &self.0 {
            Form::Known(value) => Some(*value),
            Form::Symbolic(expr) => scope.hint(expr),
        }
    }
    /// The value for these values of the symbols.
    pub fn at(&self, bindings: &Bindings) -> Result<i64> {
        match &self.0 {
            Form::Known(value) => Ok(*value),
            Form::Symbolic(expr) => expr.evaluate(&|symbol| bindings.get(symbol)),
        }
    }
    /// An equal size, as simple as the scope's facts allow.
    pub fn simplify(&self, scope: &Scope) -> Result<Self> {
        match &self.0 {
            Form::Known(_) => Ok(self.clone()),
            Form::Symbolic(expr) => scope.simplify(expr).map(Self::from),
        }
    }
    fn combine(&self, other: &Self, numbers: fn(&i64, &i64) -> Result<i64>, exprs: fn(&Expr, &Expr) -> Result<Expr>) -> Result<Self> {
        match (&self.0, &other.0) {
            (Form::Known(a), Form::Known(b)) => numbers(a, b).map(Self::from),
            (Form::Symbolic(a), Form::Symbolic(b)) => exprs(a, b).map(Self::from),
            _ => exprs(&self.to_expr(), &other.to_expr()).map(Self::from),
        }
    }
}

impl Dimension for Dim {
    type Scope = Scope;

    fn known(&self) -> Option<i64> {
        self.known()
    }
    fn add(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::add, Expr::add)
    }
    fn sub(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::sub, Expr::sub)
    }
    fn mul(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::mul, Expr::mul)
    }
    fn floordiv(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::floordiv, Expr::floordiv)
    }
    fn modulo(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::modulo, Expr::modulo)
    }
    fn min(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::min, Expr::min)
    }
    fn max(&self, other: &Self) -> Result<Self> {
        self.combine(other, Dimension::max, Expr::max)
    }
    fn compare(&self, relation: Relation, other: &Self, scope: &Scope) -> Result<bool> {
        if let (Form::Known(a), Form::Known(b)) = (&self.0, &other.0) {
            return Ok(relation.holds(*a, *b));
        }
        let predicate = Predicate::new(self.clone(), relation, other.clone());
        scope.decide(&predicate).ok_or_else(|| ShapeError::Undecided(Box::new(predicate)))
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Self(Form::Known(value))
    }
}

impl From<Expr> for Dim {
    fn from(expr: Expr) -> Self {
        Self(expr.known().map_or_else(|| Form::Symbolic(expr), Form::Known))
    }
}

impl From<Symbol> for Dim {
    fn from(symbol: Symbol) -> Self {
        Self(Form::Symbolic(Expr::symbol(symbol)))
    }
}
