//! Sizes as numbers or expressions over symbols, and strided windows with such sizes.
//!
//! A [`Dim`] is a number, or an expression over [`Symbol`]s in canonical form; a [`Scope`] holds the facts about the symbols and decides
//! comparisons; a [`Window`] is sizes, strides and an offset, with views as operations.
//!
//! ```
//! use dynamlir_shapes::{Dim, Dimension, Predicate, Relation, Scope, Window};
//!
//! let mut scope = Scope::new();
//! let rows = Dim::from(scope.fresh_size(7));
//!
//! // Numbers stay numbers, and equal expressions are equal values.
//! let whole = Window::row_major_in(&[rows.clone(), Dim::from(4)], &scope)?;
//! assert_eq!(whole.element_count()?.to_string(), "s0*4");
//! assert_eq!(whole.element_count()?.floordiv(&Dim::from(4))?, rows);
//!
//! // Views are operations on windows.
//! let last = whole.select_in(0, &Dim::from(-1), &scope)?;
//! assert_eq!(last.offset.to_string(), "s0*4 - 4");
//! assert!(whole.transpose(0, 1)?.reshape_in(&[rows.mul(&Dim::from(4))?], &scope)?.is_none());
//!
//! // A property that depends on the symbols is a predicate; a guard makes it known.
//! let small = Predicate::new(rows, Relation::Le, 128);
//! assert_eq!(scope.decide(&small), None);
//! scope.assume(&small)?;
//! assert_eq!(scope.decide(&small), Some(true));
//! # Ok::<(), dynamlir_shapes::ShapeError>(())
//! ```
//!
//! *Invariants:* all arithmetic is checked, and a fault in sizes or in text is an error, never a panic; a rule of the simplifier never
//! changes a value; the printed text of a `Dim` parses back to the equal `Dim`.
#![forbid(unsafe_code)]

mod bounds;
mod decide;
mod dim;
mod error;
mod expr;
mod fold;
mod interval;
mod number;
mod numbers;
mod parse;
mod poly;
mod print;
mod scope;
mod simplify;
mod strides;
mod views;
mod window;

pub use self::{
    decide::{Predicate, Relation},
    dim::{Bindings, Dim, Dimension},
    error::{Result, ShapeError},
    expr::{Expr, MAX_DEPTH, MAX_SIZE, Symbol},
    fold::Algebra,
    interval::{Interval, LARGEST_SIZE},
    number::{floordiv, modulo},
    numbers::{is_dense, is_row_major, may_repeat, row_major, same_strides},
    parse::{Fault, ParseError},
    scope::{Scope, SymbolInfo},
    strides::{extent_in, is_dense_in, is_empty_in, may_repeat_in, product, row_major_in, same_strides_in},
};
pub use window::Window;
