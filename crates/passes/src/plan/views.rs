//! What the view primitives make of a window, and the types of memory.

use dynamlir_dialect::{
    ir::{Ctx, Op, Type, Value},
    ops::DynamoOp,
    pass::PassError,
};
use dynamlir_shapes::{Result, ShapeError};

use super::Window;

/// The window of a view primitive's result, given that of its operand; None where strides cannot say it.
pub fn view(op: Op, window: &Window) -> std::result::Result<Option<Window>, PassError> {
    let dims = |list: Vec<i64>| list.into_iter().map(|dim| dim as usize).collect::<Vec<_>>();
    let sizes = |result: Value| result.ty().shape();
    let seen = match DynamoOp::of(op) {
        Some(DynamoOp::Permute(permute)) => window.permute(&dims(permute.dims())).map(Some),
        Some(DynamoOp::Slice(slice)) => window.part(&slice.starts(), &slice.steps(), &sizes(slice.result())).map(Some),
        Some(DynamoOp::Broadcast(spread)) => window.broadcast_in(&sizes(spread.result()), &dims(spread.dims()), &()).map(Some),
        Some(DynamoOp::Reverse(reverse)) => window.reverse_in(&dims(reverse.dims()), &()).map(Some),
        Some(DynamoOp::Reshape(reshape)) => window.reshape_in(&sizes(reshape.result()), &()),
        Some(DynamoOp::AsStrided(view)) => window.as_strided_in(&sizes(view.result()), &view.strides(), &view.offset(), &()),
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

/// The type of a workspace.
pub fn workspace_type(ctx: Ctx, bytes: i64) -> Type {
    Type::memref(&[bytes], Type::int(ctx, 8), &[1], 0)
}

/// The type of memory that is seen through a window.
pub fn memref(element: Type, window: &Window) -> Type {
    Type::memref(&window.sizes, element, &window.strides, window.offset)
}

/// Bytes of an element.
pub fn bytes(element: Type) -> i64 {
    i64::from(element.width().div_ceil(8))
}
