//! Sizes in the IR: numbers, or expressions over symbols that the function around declares.
//!
//! | in the IR | in Rust |
//! |---|---|
//! | `4`, `#dynamo.expr<s0*4>` | [`Dim`] |
//! | `array<i64: 4, 2>`, `#dynamo.sizes<s0*4, 2>` | `Vec<Dim>` |
//! | `tensor<?x2xf32, #dynamo.sizes<s0, 2>>` | [`Type::sizes`], [`Type::tensor_of`] |
//! | `!dynamo.tensor<[s0, 2]xf32, [2, 1]>` | [`Type::window`], [`Type::mutable_of`] |
//! | `dynamo.symbols = [#dynamo.symbol<s0, …>]` | [`SizeSymbol`], [`declared`], [`scope`] |
//!
//! What is a number is written as it always was. The dialect's C++ knows no algebra: it calls `crates/shapes` ([`register`]).

mod algebra;
mod declarations;
mod types;
mod values;

use mlir_sys::MlirStringRef;

pub use algebra::register;
pub use declarations::{Place, SizeSymbol, assumed, declare, declared, scope, set_assumed};

use super::{Ctx, Op, to_string};
use crate::ffi;
#[cfg(doc)]
use crate::ir::Type;
#[cfg(doc)]
use dynamlir_shapes::Dim;

/// Whether an expression was ever made in a context. Where none was, no type or attribute has one.
pub fn holds_expressions(ctx: Ctx) -> bool {
    // SAFETY: the context is alive.
    unsafe { ffi::dynamoContextHoldsExpressions(ctx.0) }
}

/// The first operation, in or at `root`, that says an expression, and the expression. It costs nothing where there is none.
pub fn find_expression(root: Op) -> Option<(Op, String)> {
    if !holds_expressions(root.ctx()) {
        return None;
    }
    let mut text = MlirStringRef { data: std::ptr::null(), length: 0 };
    // SAFETY: the operation is alive; the text is written where one is found, and the context owns it.
    let found = unsafe { ffi::dynamoFindExpression(root.raw(), &raw mut text) };
    (!found.ptr.is_null()).then(|| (Op::from_raw(found), to_string(text)))
}
