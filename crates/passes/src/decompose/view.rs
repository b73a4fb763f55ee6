//! Views and copies of views: ops that only rearrange the elements of their operand.
//!
//! Functionalization has resolved all aliasing; here a view is just its value. Most views need only the result's shape, because recording
//! has already checked the arguments and resolved `-1`.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::{Dim, Dimension, Relation, Window, row_major_in};

use super::{
    Call, Lowering,
    shape::{arg_offset, is_row_major, row_major, span, wrap_all},
};
use crate::extent::Extent;

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._conj.default", identity),
    ("aten._reshape_alias.default", reshape),
    ("aten._reshape_copy.default", reshape),
    ("aten._unsafe_view.default", reshape),
    ("aten.adjoint.default", swap_last),
    ("aten.alias.default", identity),
    ("aten.alias_copy.default", identity),
    ("aten.as_strided.default", as_strided),
    ("aten.as_strided_copy.default", as_strided),
    ("aten.chunk.default", split),
    ("aten.contiguous.default", identity),
    ("aten.detach.default", identity),
    ("aten.detach_copy.default", identity),
    ("aten.diagonal.default", diagonal),
    ("aten.diagonal_copy.default", diagonal),
    ("aten.expand.default", expand),
    ("aten.expand_as.default", expand),
    ("aten.expand_copy.default", expand),
    ("aten.flatten.using_ints", reshape),
    ("aten.lift.default", identity),
    ("aten.lift_fresh.default", identity),
    ("aten.linalg_diagonal.default", diagonal),
    ("aten.mT.default", swap_last),
    ("aten.narrow_copy.default", narrow),
    ("aten.numpy_T.default", reverse_dims),
    ("aten.permute.default", permute),
    ("aten.permute_copy.default", permute),
    ("aten.real.default", identity),
    ("aten.reshape.default", reshape),
    ("aten.resolve_conj.default", identity),
    ("aten.resolve_neg.default", identity),
    ("aten.select.int", select),
    ("aten.select_copy.int", select),
    ("aten.slice.Tensor", slice),
    ("aten.slice_copy.Tensor", slice),
    ("aten.split.Tensor", split),
    ("aten.split_copy.Tensor", split),
    ("aten.split_with_sizes.default", split),
    ("aten.split_with_sizes_copy.default", split),
    ("aten.squeeze.default", reshape),
    ("aten.squeeze.dim", reshape),
    ("aten.squeeze.dims", reshape),
    ("aten.squeeze_copy.default", reshape),
    ("aten.squeeze_copy.dim", reshape),
    ("aten.squeeze_copy.dims", reshape),
    ("aten.t.default", reverse_dims),
    ("aten.t_copy.default", reverse_dims),
    ("aten.transpose.int", transpose),
    ("aten.transpose_copy.int", transpose),
    ("aten.unbind.int", unbind),
    ("aten.unbind_copy.int", unbind),
    ("aten.unfold.default", unfold),
    ("aten.unfold_copy.default", unfold),
    ("aten.unsafe_chunk.default", split),
    ("aten.unsafe_split.Tensor", split),
    ("aten.unsafe_split_with_sizes.default", split),
    ("aten.unsqueeze.default", reshape),
    ("aten.unsqueeze_copy.default", reshape),
    ("aten.view.default", reshape),
    ("aten.view.dtype", bitcast),
    ("aten.view_as.default", reshape),
    ("aten.view_copy.default", reshape),
    ("aten.view_copy.dtype", bitcast),
];

/// Returns the operand itself. Memory formats do not affect values; the conjugate of a real number is the number.
fn identity(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    (x.ty() == c.result_type(0)).then(|| vec![x])
}

fn reshape(c: &Call) -> Option<Vec<Value>> {
    Some(vec![c.e.reshape(c.tensor(0)?, &c.result_dims(0))])
}

fn expand(c: &Call) -> Option<Vec<Value>> {
    Some(vec![c.e.broadcast_to(c.tensor(0)?, &c.result_dims(0))])
}

fn permute(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dims = wrap_all(&c.ints(1)?, x.ty().rank())?;
    Some(vec![c.e.permute(x, &dims)])
}

fn transpose(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let rank = x.ty().rank();
    Some(vec![swap(c, x, c.dim(1, rank)?, c.dim(2, rank)?)])
}

/// `mT` and `adjoint`: swaps the last two dimensions.
fn swap_last(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    Some(vec![match x.ty().rank() {
        0 | 1 => x,
        rank => swap(c, x, rank as i64 - 2, rank as i64 - 1),
    }])
}

/// `t` and `numpy_T`: reverses all dimensions (`t` is only for rank 2 and less).
fn reverse_dims(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dims: Vec<i64> = (0..x.ty().rank() as i64).rev().collect();
    Some(vec![c.e.permute(x, &dims)])
}

/// Swaps two dimensions. A 0-d tensor, which torch treats as having one dimension, is unchanged.
pub(super) fn swap(c: &Call, x: Value, a: i64, b: i64) -> Value {
    if a == b { x } else { c.e.transpose(x, a, b) }
}

/// Returns `size` elements of dimension `dim` starting at `start`.
pub(super) fn cut(c: &Call, x: Value, dim: i64, start: impl Extent, step: i64, size: impl Extent) -> Value {
    let (start, size) = (start.dim(), size.dim());
    // For an empty result the start is irrelevant, for a single element the step.
    let (start, step) = (if size.is(0) { Dim::from(0) } else { start }, if size.is(0) || size.is(1) { 1 } else { step });
    c.e.slice_dim(x, dim, start, step, size)
}

fn slice(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let shape = x.ty().dims();
    let dim = c.dim(1, shape.len())?;
    let (start, step, size) = span(c, (c.size(2), c.size(3)), c.int(4)?, shape.get(dim as usize)?)?;
    // Eager's count overflows with the largest step, which shows in the result's type. The type may also use another expression for the
    // size.
    let given = c.result_dims(0).get(dim as usize)?.clone();
    let size = size.known().zip(given.known()).map_or(given, |(size, given)| size.min(given).into());
    Some(vec![cut(c, x, dim, start, step, size)])
}

/// Resolves a position that may be counted from the end; returns None if that depends on symbols.
pub(crate) fn from_front(c: &Call, at: Dim, size: &Dim) -> Option<Dim> {
    if at.compare(Relation::Lt, &Dim::from(0), &c.scope).ok()? { at.add(size).ok() } else { Some(at) }
}

fn narrow(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let shape = x.ty().dims();
    let dim = c.dim(1, shape.len())?;
    let start = from_front(c, c.size(2)?, shape.get(dim as usize)?)?;
    Some(vec![cut(c, x, dim, start, 1, c.size(3)?)])
}

/// Selects one index of a dimension and removes the dimension.
pub(super) fn pick(c: &Call, x: Value, dim: i64, index: impl Extent) -> Value {
    let mut shape = x.ty().dims();
    let row = cut(c, x, dim, index, 1, 1);
    shape.remove(dim as usize);
    c.e.reshape(row, &shape)
}

fn select(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let shape = x.ty().dims();
    let dim = c.dim(1, shape.len())?;
    let index = from_front(c, c.size(2)?, shape.get(dim as usize)?)?;
    Some(vec![pick(c, x, dim, index)])
}

fn unbind(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dim = c.dim(1, x.ty().rank())?;
    Some((0..c.op.num_results()).map(|i| pick(c, x, dim, i as i64)).collect())
}

/// `split`, `chunk` and similar ops: the result types give the size of each piece.
fn split(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dim = c.dim(2, x.ty().rank())?;
    let mut start = Dim::from(0);
    let mut pieces = Vec::new();
    for i in 0..c.op.num_results() {
        let size = c.result_dims(i).get(dim as usize)?.clone();
        pieces.push(cut(c, x, dim, start.clone(), 1, size.clone()));
        start = start.add(&size).ok()?;
    }
    Some(pieces)
}

/// Returns the window of a diagonal in a row-major operand: the strides of the remaining dimensions followed by the diagonal's, and its
/// offset. `size` is its length.
pub(super) fn diagonal_window(shape: &[i64], diagonal: i64, dims: (i64, i64), size: i64) -> (Vec<i64>, i64) {
    let strides = row_major(shape);
    let (a, b) = (dims.0 as usize, dims.1 as usize);
    let mut window: Vec<i64> = (0..shape.len()).filter(|&i| i != a && i != b).map(|i| strides[i]).collect();
    window.push(strides[a] + strides[b]);
    let start = if diagonal < 0 { -diagonal * strides[a] } else { diagonal * strides[b] };
    (window, if size == 0 { 0 } else { start })
}

fn diagonal(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let shape = x.ty().numbers()?;
    let result = c.result_shape(0);
    let dims = (c.dim(2, shape.len())?, c.dim(3, shape.len())?);
    let (strides, offset) = diagonal_window(&shape, c.int(1)?, dims, *result.last()?);
    Some(vec![c.e.as_strided(x, &result, &strides, offset)])
}

/// Windows along a dimension; a new last dimension is the position inside the window.
fn unfold(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let (shape, result) = (x.ty().dims(), c.result_dims(0));
    if shape.is_empty() {
        // A 0-d tensor has one window of one element; an empty window is not worth an op of its own.
        return (result == [Dim::from(1)]).then(|| vec![c.e.reshape(x, &result)]);
    }
    let dim = c.dim(1, shape.len())?;
    let mut strides = row_major_in(&shape, &c.scope).ok()?;
    let inner = strides.get(dim as usize)?.clone();
    strides[dim as usize] = inner.mul(&c.size(3)?).ok()?;
    strides.push(inner);
    Some(vec![c.e.as_strided(x, &result, &strides, Dim::from(0))])
}

/// `ATen`'s op indexes the operand's *storage*. This is the same as indexing the elements in row-major order only if the storage is known
/// to hold the operand in row-major order from its start; if functionalization knows more, it emits `dynamo.as_strided`.
fn as_strided(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let result = c.result_dims(0);
    let (strides, offset) = (c.sizes(2)?, c.size(3).unwrap_or(Dim::from(0)));
    fits_row_major(c, x, &result, &strides, &offset).then(|| vec![c.e.as_strided(x, &result, &strides, offset)])
}

/// Returns true if a window of the storage is the same window of the row-major operand 0.
pub(super) fn fits_row_major(c: &Call, x: Value, sizes: &[Dim], strides: &[Dim], offset: &Dim) -> bool {
    let dense = is_row_major(c, 0);
    let window = Window { sizes: sizes.to_vec(), strides: strides.to_vec(), offset: offset.clone() };
    let inside = match (window.extent_in(&c.scope), x.ty().count()) {
        (Ok(None), _) => true,
        (Ok(Some((_, last))), Some(count)) => c.surely(&last, Relation::Lt, count),
        _ => false,
    };
    // The offset of an argument or of a view would shift the window.
    let starts_storage = x.arg_index().is_none_or(|i| arg_offset(c.op, i).is_some_and(|offset| offset.is(0)));
    dense && inside && starts_storage && c.surely(offset, Relation::Ge, 0)
}

/// `view(dtype)` between types of equal width. A bool is a byte in torch; viewed as a byte it is 0 or 1.
fn bitcast(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let (from, to) = (x.ty().element(), c.result_type(0).element());
    if from.is_bool() && !to.is_bool() && to.is_int() && to.width() == 8 {
        return Some(vec![c.e.convert(x, to)]);
    }
    (from.width() == to.width() && x.ty().dims() == c.result_dims(0)).then(|| vec![c.e.bitcast(x, to)])
}
