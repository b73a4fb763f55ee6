//! What can go wrong with sizes. Nothing here panics: bad input is one of these.

use crate::{Predicate, Symbol};

/// Why an operation on sizes has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A value, or a coefficient on the way to it, is not an `i64`.
    #[error("integer overflow")]
    Overflow,
    /// The right operand of `floordiv` or `mod` is 0.
    #[error("division by zero")]
    DivisionByZero,
    /// An evaluation has no value for this symbol.
    #[error("symbol {0} has no value")]
    Unbound(Symbol),
    /// The expression is nested too deeply or has too many terms (see `expr::MAX_DEPTH`, `expr::MAX_SIZE`).
    #[error("the expression is too large")]
    TooLarge,
    /// An assumption that no values of the symbols fulfil.
    #[error("{0} is never true")]
    Contradiction(Box<Predicate>),
    /// The answer depends on the values of symbols. Who asked may guard on the predicate, assume it (or its opposite),
    /// and ask again.
    #[error("it is not known whether {0}")]
    Undecided(Box<Predicate>),
    /// A view that the window does not have: a dimension out of range, sizes that do not fit.
    #[error("{0}")]
    NoSuchView(String),
}

/// A result on sizes.
pub type Result<T> = std::result::Result<T, ShapeError>;
