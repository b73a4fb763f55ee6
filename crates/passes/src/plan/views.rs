//! What the view primitives make of a window.

use dynamlir_dialect::{ir::Op, pass::PassError};
use dynamlir_shapes::{Result, ShapeError};

use super::Window;

/// The window of a view primitive's result, given that of its operand; None where strides cannot say it.
pub fn view(op: Op, window: &Window) -> std::result::Result<Option<Window>, PassError> {
    let list = |name: &str| op.attr_i64s(name).unwrap_or_default();
    let dims = || list("dims").into_iter().map(|dim| dim as usize).collect::<Vec<_>>();
    let sizes = op.result(0).ty().shape();
    let seen = match op.name().as_str() {
        "dynamo.permute" => window.permute(&dims()).map(Some),
        "dynamo.slice" => window.part(&list("starts"), &list("steps"), &sizes).map(Some),
        "dynamo.broadcast" => window.broadcast_in(&sizes, &dims(), &()).map(Some),
        "dynamo.reverse" => window.reverse_in(&dims(), &()).map(Some),
        "dynamo.reshape" => window.reshape_in(&sizes, &()),
        "dynamo.as_strided" => window.as_strided_in(&sizes, &list("strides"), &op.attr_i64("offset").unwrap_or(0), &()),
        _ => return Err(PassError::at(op, format!("{} cannot stand in the graph function at this stage", op.name()))),
    };
    at(op, seen)
}

/// The part of a window from `starts` on that has the shape `sizes`.
pub fn block(op: Op, window: &Window, starts: &[i64], sizes: &[i64]) -> std::result::Result<Window, PassError> {
    at(op, window.part(starts, &vec![1; sizes.len()], sizes))
}

/// Makes a fault of sizes one of the op that asks.
pub fn at<T>(op: Op, result: Result<T>) -> std::result::Result<T, PassError> {
    result.map_err(|error: ShapeError| PassError::at(op, error.to_string()))
}
