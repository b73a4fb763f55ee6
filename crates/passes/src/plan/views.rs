//! The effect of the view primitives on windows, and the types of memory.

use dynamlir_dialect::{
    ir::{Ctx, DYNAMIC, Op, Type, Value},
    ops::DynamoOp,
    pass::PassError,
};
use dynamlir_shapes::{Dim, Result, Scope, ShapeError};

use super::{NumberWindow, Window};

/// The window of a view primitive's result, given that of its operand; `None` if strides cannot express it.
pub fn view(op: Op, window: &Window, scope: &Scope) -> std::result::Result<Option<Window>, PassError> {
    let dims = |list: Vec<i64>| list.into_iter().map(|dim| dim as usize).collect::<Vec<_>>();
    let sizes = |result: Value| result.ty().dims();
    let seen = match DynamoOp::of(op) {
        Some(DynamoOp::Permute(permute)) => window.permute(&dims(permute.dims())).map(Some),
        Some(DynamoOp::Slice(slice)) => window.part(&slice.starts_dims(), &numbers(&slice.steps()), &sizes(slice.result())).map(Some),
        Some(DynamoOp::Broadcast(spread)) => window.broadcast_in(&sizes(spread.result()), &dims(spread.dims()), scope).map(Some),
        Some(DynamoOp::Reverse(reverse)) => window.reverse_in(&dims(reverse.dims()), scope).map(Some),
        Some(DynamoOp::Reshape(reshape)) => window.reshape_in(&sizes(reshape.result()), scope),
        Some(DynamoOp::AsStrided(view)) => window.as_strided_in(&sizes(view.result()), &view.strides_dims(), &view.offset_dims(), scope),
        _ => return Err(PassError::at(op, format!("{} cannot stand in the graph function at this stage", op.name()))),
    };
    at(op, seen)
}

/// The part of a window from `starts` on that has the shape `sizes`.
pub fn block(op: Op, window: &Window, starts: &[Dim], sizes: &[Dim]) -> std::result::Result<Window, PassError> {
    at(op, window.part(starts, &vec![Dim::from(1); sizes.len()], sizes))
}

/// Attributes an error in size arithmetic to an op.
pub fn at<T>(op: Op, result: Result<T>) -> std::result::Result<T, PassError> {
    result.map_err(|error: ShapeError| PassError::at(op, error.to_string()))
}

/// Numbers as sizes.
pub fn numbers(list: &[i64]) -> Vec<Dim> {
    list.iter().copied().map(Dim::from).collect()
}

/// Windows as numbers; an error of `op` if some size is not static, since its kernel does not support that.
pub fn numbers_of(op: Op, windows: &[Window]) -> std::result::Result<Vec<NumberWindow>, PassError> {
    let known = |window: &Window| {
        window.known().ok_or_else(|| {
            let sizes: Vec<String> = window.sizes.iter().map(ToString::to_string).collect();
            PassError::at(op, format!("the kernel takes sizes that are numbers, found [{}]", sizes.join(", ")))
        })
    };
    windows.iter().map(known).collect()
}

/// The type of a workspace.
pub fn workspace_type(ctx: Ctx, bytes: &Dim) -> Type {
    Type::memref(&[number(bytes)], Type::int(ctx, 8), &[1], 0)
}

/// Returns true if one of them is not static.
pub fn any_open(dims: &[Dim]) -> bool {
    dims.iter().any(|dim| dim.known().is_none())
}

/// Returns true if a window's memref has a `?`.
pub fn is_open(window: &Window) -> bool {
    any_open(&window.sizes) || any_open(&window.strides) || window.offset.known().is_none()
}

/// The memref type of a window. Expressions become `?`.
pub fn memref(element: Type, window: &Window) -> Type {
    let all = |dims: &[Dim]| dims.iter().map(number).collect::<Vec<_>>();
    Type::memref(&all(&window.sizes), element, &all(&window.strides), number(&window.offset))
}

fn number(dim: &Dim) -> i64 {
    dim.known().unwrap_or(DYNAMIC)
}

/// Size of an element in bytes.
pub fn bytes(element: Type) -> i64 {
    i64::from(element.width().div_ceil(8))
}
