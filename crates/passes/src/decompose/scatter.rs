//! Values with a part replaced: the functional forms of writes through a view, and masks.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Dimension, may_repeat_in, row_major_in};

use super::{
    Call, Lowering,
    promote::category,
    shape::{fits, span},
    view::{cut, diagonal_window, fits_row_major, from_front},
};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.as_strided_scatter.default", as_strided_scatter),
    ("aten.diagonal_scatter.default", diagonal_scatter),
    ("aten.masked_fill.Scalar", masked_fill_scalar),
    ("aten.masked_fill.Tensor", masked_fill_tensor),
    ("aten.select_backward.default", select_backward),
    ("aten.select_scatter.default", select_scatter),
    ("aten.slice_backward.default", slice_backward),
    ("aten.slice_scatter.default", slice_scatter),
];

/// Returns `x` with `start:…:step` of a dimension replaced by `part`.
fn write(c: &Call, x: Value, part: Value, dim: i64, (start, step, size): (Dim, i64, Dim)) -> Option<Value> {
    let shape = x.ty().dims();
    let whole = shape.get(dim as usize)?;
    if size.is(0) {
        return Some(x);
    }
    let part = c.e.convert(part, x.ty().element());
    if step > 1 && !size.is(1) {
        let mut strides = row_major_in(&shape, &c.scope).ok()?;
        let offset = start.mul(&strides[dim as usize]).ok()?;
        strides[dim as usize] = strides[dim as usize].mul(&Dim::from(step)).ok()?;
        let empty = shape.contains(&Dim::from(0));
        return Some(if empty { x } else { c.e.as_strided_scatter(x, part, &strides, offset) });
    }
    let behind = start.add(&size).ok()?;
    let rest = whole.sub(&behind).ok()?;
    let mut pieces = Vec::new();
    if !start.is(0) {
        pieces.push(cut(c, x, dim, Dim::from(0), 1, start));
    }
    pieces.push(part);
    if !rest.is(0) {
        pieces.push(cut(c, x, dim, behind, 1, rest));
    }
    Some(c.e.concat(&pieces, dim))
}

/// The shape of a slice of `x`.
fn sliced(x: Type, dim: i64, size: Dim) -> Option<Vec<Dim>> {
    let mut shape = x.dims();
    *shape.get_mut(dim as usize)? = size;
    Some(shape)
}

fn slice_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let shape = x.ty().dims();
    let dim = c.dim(2, shape.len())?;
    let place = span(c, (c.size(3), c.size(4)), c.int(5)?, shape.get(dim as usize)?)?;
    let part = c.e.broadcast_to(part, &sliced(x.ty(), dim, place.2.clone())?);
    Some(vec![write(c, x, part, dim, place)?])
}

fn select_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let shape = x.ty().dims();
    let dim = c.dim(2, shape.len())?;
    let index = from_front(c, c.size(3)?, shape.get(dim as usize)?)?;
    let part = c.e.reshape(part, &sliced(x.ty(), dim, 1.into())?);
    Some(vec![write(c, x, part, dim, (index, 1, 1.into()))?])
}

/// The gradient of a slice: the gradient of the part, surrounded by zeros.
fn slice_backward(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let dim = c.dim(2, ty.rank())?;
    let place = span(c, (c.size(3), c.size(4)), c.int(5)?, ty.dims().get(dim as usize)?)?;
    among_zeros(c, c.tensor(0)?, dim, place)
}

fn select_backward(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let dim = c.dim(2, ty.rank())?;
    let index = from_front(c, c.size(3)?, ty.dims().get(dim as usize)?)?;
    let part = c.e.reshape(c.tensor(0)?, &sliced(ty, dim, 1.into())?);
    among_zeros(c, part, dim, (index, 1, 1.into()))
}

fn among_zeros(c: &Call, part: Value, dim: i64, place: (Dim, i64, Dim)) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    if place.1 > 1 || place.2.is(0) {
        let zeros = c.e.full(&ty.dims(), ty.element(), 0i64);
        return Some(vec![write(c, zeros, part, dim, place)?]);
    }
    let (start, _, size) = place;
    let (mut low, mut high) = (vec![Dim::from(0); ty.rank()], vec![Dim::from(0); ty.rank()]);
    high[dim as usize] = ty.dims()[dim as usize].sub(&start).and_then(|rest| rest.sub(&size)).ok()?;
    low[dim as usize] = start;
    Some(vec![c.e.pad(part, &low, &high, 0i64)])
}

fn diagonal_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let shape = x.ty().numbers()?;
    if part.ty().numel() == 0 {
        return Some(vec![x]);
    }
    let dims = (c.dim(3, shape.len())?, c.dim(4, shape.len())?);
    let (strides, offset) = diagonal_window(&shape, c.int(2)?, dims, *part.ty().numbers()?.last()?);
    let part = c.e.convert(part, x.ty().element());
    Some(vec![c.e.as_strided_scatter(x, part, &strides, offset)])
}

/// Like `as_strided`, lowered only if operand 0 is known to fill its storage in row-major order. The window must not contain an element
/// twice, since it is unspecified which write would win.
fn as_strided_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let (sizes, strides, offset) = (c.sizes(2)?, c.sizes(3)?, c.size(4).unwrap_or(Dim::from(0)));
    let repeats = may_repeat_in(&sizes, &strides, &c.scope).unwrap_or(true);
    if part.ty().dims() != sizes || !fits_row_major(c, x, &sizes, &strides, &offset) || repeats {
        return None;
    }
    if sizes.contains(&Dim::from(0)) {
        return Some(vec![x]);
    }
    let part = c.e.convert(part, x.ty().element());
    Some(vec![c.e.as_strided_scatter(x, part, &strides, offset)])
}

fn masked_fill_scalar(c: &Call) -> Option<Vec<Value>> {
    let (ty, value) = (c.result_type(0), c.scalar(2)?);
    fits(ty.element(), value).then_some(())?;
    masked_fill(c, c.e.full(&ty.dims(), ty.element(), value))
}

/// The value is a 0-d tensor. Eager rejects a value that overflows the type of self, so only widening conversions are lowered.
fn masked_fill_tensor(c: &Call) -> Option<Vec<Value>> {
    let (ty, value) = (c.result_type(0), c.tensor(2)?);
    let (from, to) = (value.ty().element(), ty.element());
    let widens = match (category(from), category(to)) {
        (2, 2) => from.width() < to.width(),
        (a, b) if a == b => from.width() < to.width() && !to.is_unsigned(),
        (0, _) => true,
        (1, 2) => to.width() >= 32,
        _ => false,
    };
    (from == to || widens).then_some(())?;
    masked_fill(c, c.e.broadcast_to(c.e.convert(value, to), &ty.dims()))
}

fn masked_fill(c: &Call, value: Value) -> Option<Vec<Value>> {
    let shape = c.result_dims(0);
    let (x, mask) = (c.e.broadcast_to(c.tensor(0)?, &shape), c.tensor(1)?);
    // Eager no longer accepts byte masks.
    mask.ty().element().is_bool().then(|| vec![c.e.select(c.e.broadcast_to(mask, &shape), value, x)])
}
