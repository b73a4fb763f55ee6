//! Errors on sizes. Nothing here panics: bad input results in one of these.

use crate::{Predicate, Symbol};

/// The reason why an operation on sizes does not have a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A value, or an intermediate coefficient, does not fit an `i64`.
    #[error("integer overflow")]
    Overflow,
    /// The right operand of `floordiv` or `mod` is 0.
    #[error("division by zero")]
    DivisionByZero,
    /// An evaluation does not have a value for this symbol.
    #[error("symbol {0} has no value")]
    Unbound(Symbol),
    /// The expression is nested too deeply or has too many terms (see `expr::MAX_DEPTH`, `expr::MAX_SIZE`).
    #[error("the expression is too large")]
    TooLarge,
    /// An assumption that no values of the symbols fulfil.
    #[error("{0} is never true")]
    Contradiction(Box<Predicate>),
    /// The answer depends on the values of symbols. The caller may guard on the predicate, assume it (or its opposite), and retry.
    #[error("it is not known whether {0}")]
    Undecided(Box<Predicate>),
    /// A view that the window does not have: for example a dimension out of range, or sizes that do not fit.
    #[error("{0}")]
    NoSuchView(String),
}

/// The result of an operation on sizes.
pub type Result<T> = std::result::Result<T, ShapeError>;
