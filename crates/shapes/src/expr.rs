//! Integer expressions over symbols, in a canonical form that is the same for equal polynomials.
//!
//! An [`Expr`] is a sum of terms; a term is a number times a product of *atoms*; an atom is a symbol or one of the calls `floordiv`, `mod`,
//! `min`, `max`, whose operands are expressions again. Terms and atoms are sorted and equal ones are merged, so `s0 + s0` and `s0*2` are
//! the same value. Between calls, only the rules of [`crate::simplify`] apply: `s0 - (s0 floordiv 8)*8` and `s0 mod 8` are different
//! values, but [`crate::Scope::decide`] knows that they are equal.
//!
//! Expressions are bounded in depth and size, so that recursion over them is safe and no operation takes long.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use smallvec::{SmallVec, smallvec};

use crate::error::{Result, ShapeError};

/// The largest nesting depth of calls.
pub const MAX_DEPTH: u32 = 48;
/// The largest number of terms and atoms of an expression, including those of its calls.
pub const MAX_SIZE: u32 = 2048;

/// A size that is not known at compile time, written `s0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

/// The function of a call. Division rounds towards minus infinity, and `mod` has the divisor's sign, as in Python.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Function {
    FloorDiv,
    Mod,
    Min,
    Max,
}

/// A function applied to expressions, which no rule reduces further.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Call {
    pub function: Function,
    /// Two for divisions; two or more, sorted, for `min` and `max`.
    pub operands: SmallVec<[Expr; 2]>,
}

/// A factor of a term.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Atom {
    Symbol(Symbol),
    Call(Arc<Call>),
}

/// A product of atoms, sorted; a power is repeated atoms. The empty product is 1.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Monomial(pub SmallVec<[Atom; 2]>);

/// `coefficient · monomial`; the coefficient is not 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term {
    pub monomial: Monomial,
    pub coefficient: i64,
}

/// The terms of an expression, also while it is built.
pub(crate) type Terms = SmallVec<[Term; 2]>;

struct Node {
    /// Strictly ascending, so the largest degree is first and the number last.
    terms: Terms,
    /// The hash of the terms; makes hashing, and comparing different expressions, cheap.
    hash: u64,
    depth: u32,
    size: u32,
}

/// A fast hash of some words: each is added and mixed by a multiplication. Maps hash the result again.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// An integer expression in canonical form. Cloning copies a pointer; `==` compares forms.
#[derive(Clone)]
pub struct Expr(Arc<Node>);

impl Ord for Monomial {
    /// Graded lexicographic order, the largest first. It is compatible with products, which polynomial division needs.
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.len().cmp(&self.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Monomial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Monomial {
    /// The empty product.
    pub fn one() -> Self {
        Self(SmallVec::new())
    }
    pub fn is_one(&self) -> bool {
        self.0.is_empty()
    }
    /// The only atom.
    pub fn single(&self) -> Option<&Atom> {
        if let [atom] = &self.0[..] { Some(atom) } else { None }
    }
    pub fn times(&self, other: &Self) -> Self {
        let mut atoms: SmallVec<[Atom; 2]> = self.0.iter().chain(&other.0).cloned().collect();
        if !self.is_one() && !other.is_one() {
            atoms.sort_unstable();
        }
        Self(atoms)
    }
    /// The product without the atoms of `other`, if it contains all of them.
    pub fn without(&self, other: &Self) -> Option<Self> {
        let mut left = other.0.iter().peekable();
        let rest = self.0.iter().filter(|atom| left.next_if(|wanted| wanted == atom).is_none()).cloned().collect();
        left.peek().is_none().then_some(Self(rest))
    }
    /// The atoms that both have.
    pub fn common(&self, other: &Self) -> Self {
        let mut rest = other.0.clone();
        let shared = |atom: &&Atom| rest.iter().position(|other| other == *atom).map(|at| rest.remove(at)).is_some();
        Self(self.0.iter().filter(shared).cloned().collect())
    }
}

impl Expr {
    /// Creates an expression from terms in canonical order.
    pub(crate) fn from_sorted(terms: Terms) -> Result<Self> {
        debug_assert!(terms.is_sorted_by(|a, b| a.monomial < b.monomial) && terms.iter().all(|term| term.coefficient != 0));
        let (mut depth, mut size, mut hasher) = (0, 0_u32, Mix::default());
        for term in &terms {
            size += 1;
            for atom in &term.monomial.0 {
                size += 1;
                if let Atom::Call(call) = atom {
                    for operand in &call.operands {
                        depth = depth.max(operand.0.depth + 1);
                        size += operand.0.size;
                    }
                }
            }
            // Each summand is bounded, so the sum cannot overflow before this check.
            if depth > MAX_DEPTH || size > MAX_SIZE {
                return Err(ShapeError::TooLarge);
            }
            term.hash(&mut hasher);
        }
        Ok(Self(Arc::new(Node { terms, hash: hasher.finish(), depth, size })))
    }
    /// Creates an expression from terms in any order; terms with the same monomial are added.
    pub(crate) fn from_terms(mut terms: Vec<Term>) -> Result<Self> {
        terms.sort_unstable_by(|a, b| a.monomial.cmp(&b.monomial));
        let mut merged = Terms::new();
        let mut terms = terms.into_iter().peekable();
        while let Some(term) = terms.next() {
            // Wide, so that overflow does not depend on the order of the summands.
            let mut sum = i128::from(term.coefficient);
            while let Some(next) = terms.next_if(|next| next.monomial == term.monomial) {
                sum += i128::from(next.coefficient);
            }
            if sum != 0 {
                let coefficient = i64::try_from(sum).map_err(|_| ShapeError::Overflow)?;
                merged.push(Term { coefficient, ..term });
            }
        }
        Self::from_sorted(merged)
    }
    /// `coefficient · monomial`.
    pub(crate) fn term(coefficient: i64, monomial: Monomial) -> Result<Self> {
        Self::from_sorted(if coefficient == 0 { Terms::new() } else { smallvec![Term { monomial, coefficient }] })
    }
    /// The call as it is, without simplification.
    pub(crate) fn call(function: Function, operands: SmallVec<[Self; 2]>) -> Result<Self> {
        Self::term(1, Monomial(smallvec![Atom::Call(Arc::new(Call { function, operands }))]))
    }
    /// A number.
    pub fn number(value: i64) -> Self {
        let terms = if value == 0 { Terms::new() } else { smallvec![Term { monomial: Monomial::one(), coefficient: value }] };
        Self::small(terms)
    }
    /// A symbol.
    pub fn symbol(symbol: Symbol) -> Self {
        Self::small(smallvec![Term { monomial: Monomial(smallvec![Atom::Symbol(symbol)]), coefficient: 1 }])
    }
    /// An expression of at most one term without calls, which is within all bounds.
    fn small(terms: Terms) -> Self {
        let mut hasher = Mix::default();
        terms.iter().for_each(|term| term.hash(&mut hasher));
        let size = terms.iter().map(|term| 1 + term.monomial.0.len() as u32).sum();
        Self(Arc::new(Node { terms, hash: hasher.finish(), depth: 0, size }))
    }
    /// The terms in descending order of degree, the number last.
    pub(crate) fn terms(&self) -> &[Term] {
        &self.0.terms
    }
    /// The value, if it does not depend on a symbol.
    pub fn known(&self) -> Option<i64> {
        match self.terms() {
            [] => Some(0),
            [term] if term.monomial.is_one() => Some(term.coefficient),
            _ => None,
        }
    }
    /// The symbol, if the expression is just a symbol.
    pub fn as_symbol(&self) -> Option<Symbol> {
        match self.as_atom() {
            Some(Atom::Symbol(symbol)) => Some(*symbol),
            _ => None,
        }
    }
    pub(crate) fn as_atom(&self) -> Option<&Atom> {
        if let [Term { monomial, coefficient: 1 }] = self.terms() { monomial.single() } else { None }
    }
    /// The call, if the expression is just a call.
    pub(crate) fn as_call(&self, function: Function) -> Option<&Call> {
        match self.as_atom() {
            Some(Atom::Call(call)) if call.function == function => Some(call),
            _ => None,
        }
    }
    /// The number among the terms, 0 if there is none.
    pub(crate) fn constant(&self) -> i64 {
        self.terms().last().filter(|term| term.monomial.is_one()).map_or(0, |term| term.coefficient)
    }
    /// The terms except the number.
    pub(crate) fn varying(&self) -> &[Term] {
        let terms = self.terms();
        terms.strip_suffix(terms.last().filter(|term| term.monomial.is_one()).map_or(&[][..], std::slice::from_ref)).unwrap_or(terms)
    }
    /// The symbols it depends on.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let mut found = BTreeSet::new();
        self.collect_symbols(&mut found);
        found
    }
    /// The operands of all divisions, `min` and `max` in it, at any depth: each is an intermediate value of its evaluation.
    pub fn operands(&self) -> Vec<Self> {
        let calls = self.terms().iter().flat_map(|term| &term.monomial.0).filter_map(|atom| match atom {
            Atom::Symbol(_) => None,
            Atom::Call(call) => Some(call),
        });
        calls.flat_map(|call| &call.operands).flat_map(|operand| [vec![operand.clone()], operand.operands()].concat()).collect()
    }
    fn collect_symbols(&self, found: &mut BTreeSet<Symbol>) {
        for atom in self.terms().iter().flat_map(|term| &term.monomial.0) {
            match atom {
                Atom::Symbol(symbol) => _ = found.insert(*symbol),
                Atom::Call(call) => call.operands.iter().for_each(|operand| operand.collect_symbols(found)),
            }
        }
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.terms == other.0.terms)
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    // One word for the whole expression, hashed when it was created.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Ord for Expr {
    /// An order of forms, for sorting; it does not say anything about values.
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.terms.cmp(&other.0.terms) }
    }
}

impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
