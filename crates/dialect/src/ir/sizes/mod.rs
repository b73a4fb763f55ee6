//! Sizes in the IR: numbers, or expressions over symbols that the enclosing function declares.
//!
//! | in the IR | in Rust |
//! |---|---|
//! | `4`, `#dynamo.expr<s0*4>` | [`Dim`] |
//! | `array<i64: 4, 2>`, `#dynamo.sizes<s0*4, 2>` | `Vec<Dim>` |
//! | `tensor<?x2xf32, #dynamo.sizes<s0, 2>>` | [`Type::sizes`], [`Type::tensor_of`] |
//! | `!dynamo.tensor<[s0, 2]xf32, [2, 1]>` | [`Type::window`], [`Type::mutable_of`] |
//! | `dynamo.symbols = [#dynamo.symbol<s0, …>]` | [`SizeSymbol`], [`declared`], [`scope`] |
//!
//! Sizes that are numbers keep their usual form. The dialect's C++ code has no algebra of its own: it calls `crates/shapes` ([`register`]).

mod algebra;
mod declarations;
mod types;
mod values;

use mlir_sys::MlirStringRef;

pub use algebra::register;
pub use declarations::{SizeSymbol, SymbolSite, assumed, declare, declared, scope, set_assumed};

use super::{Ctx, Op, to_string};
use crate::ffi;
#[cfg(doc)]
use crate::ir::Type;
#[cfg(doc)]
use dynamlir_shapes::Dim;

/// Returns true if an expression was ever created in a context. If not, its types and attributes do not contain any.
pub fn holds_expressions(ctx: Ctx) -> bool {
    // SAFETY: the context is alive.
    unsafe { ffi::dynamoContextHoldsExpressions(ctx.0) }
}

/// The first operation, in or at `root`, that contains an expression, and the expression. It is free if the context has no expressions.
pub fn find_expression(root: Op) -> Option<(Op, String)> {
    if !holds_expressions(root.ctx()) {
        return None;
    }
    let mut text = MlirStringRef { data: std::ptr::null(), length: 0 };
    // SAFETY: the operation is alive; the text is written if one is found, and the context owns it.
    let found = unsafe { ffi::dynamoFindExpression(root.raw(), &raw mut text) };
    (!found.ptr.is_null()).then(|| (Op::from_raw(found), to_string(text)))
}
