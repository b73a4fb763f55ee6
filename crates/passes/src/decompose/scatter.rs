//! A value with a part of it replaced: the functional forms of writing through a view, and masks.

use dynamlir_dialect::ir::{Type, Value};

use super::{
    Call, Lowering,
    promote::category,
    shape::{fits, row_major, span},
    view::{cut, diagonal_window, fits_row_major},
};

/// Schema and lowering.
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

/// `x` with `part` in the place that `start:…:step` of a dimension names.
fn write(c: &Call, x: Value, part: Value, dim: i64, (start, step, size): (i64, i64, i64)) -> Option<Value> {
    let shape = x.ty().shape();
    let whole = *shape.get(dim as usize)?;
    if size == 0 {
        return Some(x);
    }
    let part = c.e.convert(part, x.ty().element());
    if step > 1 && size > 1 {
        let mut strides = row_major(&shape);
        let offset = start * strides[dim as usize];
        strides[dim as usize] *= step;
        let empty = x.ty().numel() == 0;
        return Some(if empty { x } else { c.e.as_strided_scatter(x, part, &strides, offset) });
    }
    let mut pieces = Vec::new();
    if start > 0 {
        pieces.push(cut(c, x, dim, 0, 1, start));
    }
    pieces.push(part);
    if start + size < whole {
        pieces.push(cut(c, x, dim, start + size, 1, whole - start - size));
    }
    Some(c.e.concat(&pieces, dim))
}

/// The shape of a slice of `x`.
fn sliced(x: Type, dim: i64, size: i64) -> Option<Vec<i64>> {
    let mut shape = x.shape();
    *shape.get_mut(dim as usize)? = size;
    Some(shape)
}

fn slice_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let shape = x.ty().shape();
    let dim = c.dim(2, shape.len())?;
    let place = span(c.int(3), c.int(4), c.int(5)?, *shape.get(dim as usize)?)?;
    let part = c.e.broadcast_to(part, &sliced(x.ty(), dim, place.2)?);
    Some(vec![write(c, x, part, dim, place)?])
}

fn select_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let shape = x.ty().shape();
    let (dim, index) = (c.dim(2, shape.len())?, c.int(3)?);
    let index = if index < 0 { index + shape.get(dim as usize)? } else { index };
    let part = c.e.reshape(part, &sliced(x.ty(), dim, 1)?);
    Some(vec![write(c, x, part, dim, (index, 1, 1))?])
}

/// The gradient of a slice: the gradient of the part among zeros.
fn slice_backward(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let dim = c.dim(2, ty.rank())?;
    let place = span(c.int(3), c.int(4), c.int(5)?, *ty.shape().get(dim as usize)?)?;
    among_zeros(c, c.tensor(0)?, dim, place)
}

fn select_backward(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let (dim, index) = (c.dim(2, ty.rank())?, c.int(3)?);
    let index = if index < 0 { index + ty.shape().get(dim as usize)? } else { index };
    let part = c.e.reshape(c.tensor(0)?, &sliced(ty, dim, 1)?);
    among_zeros(c, part, dim, (index, 1, 1))
}

fn among_zeros(c: &Call, part: Value, dim: i64, place: (i64, i64, i64)) -> Option<Vec<Value>> {
    let (ty, (start, step, size)) = (c.result_type(0), place);
    if step > 1 || size == 0 {
        let zeros = c.e.full(&ty.shape(), ty.element(), 0i64);
        return Some(vec![write(c, zeros, part, dim, place)?]);
    }
    let (mut low, mut high) = (vec![0; ty.rank()], vec![0; ty.rank()]);
    low[dim as usize] = start;
    high[dim as usize] = ty.shape()[dim as usize] - start - size;
    Some(vec![c.e.pad(part, &low, &high, 0i64)])
}

fn diagonal_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let shape = x.ty().shape();
    if part.ty().numel() == 0 {
        return Some(vec![x]);
    }
    let dims = (c.dim(3, shape.len())?, c.dim(4, shape.len())?);
    let (strides, offset) = diagonal_window(&shape, c.int(2)?, dims, *part.ty().shape().last()?);
    let part = c.e.convert(part, x.ty().element());
    Some(vec![c.e.as_strided_scatter(x, part, &strides, offset)])
}

/// Like `as_strided`, only where operand 0 is known to fill its storage row-major; and the window must not show an
/// element twice, for then it is unspecified which write wins.
fn as_strided_scatter(c: &Call) -> Option<Vec<Value>> {
    let (x, part) = (c.tensor(0)?, c.tensor(1)?);
    let (sizes, strides, offset) = (c.ints(2)?, c.ints(3)?, c.int(4).unwrap_or(0));
    if part.ty().shape() != sizes || !fits_row_major(c, x, &sizes, &strides, offset) || overlaps(&sizes, &strides) {
        return None;
    }
    if part.ty().numel() == 0 {
        return Some(vec![x]);
    }
    let part = c.e.convert(part, x.ty().element());
    Some(vec![c.e.as_strided_scatter(x, part, &strides, offset)])
}

/// Whether a window may show an element twice. Sorted by stride, each dimension must step over all that the
/// smaller ones reach; windows that interleave otherwise are counted as overlapping.
fn overlaps(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: Vec<(i64, i64)> = strides.iter().copied().zip(sizes.iter().copied()).filter(|&(_, size)| size > 1).collect();
    dims.sort_unstable();
    let mut reach = 0;
    dims.into_iter().any(|(stride, size)| {
        let overlap = stride <= reach;
        reach += stride * (size - 1);
        overlap
    })
}

fn masked_fill_scalar(c: &Call) -> Option<Vec<Value>> {
    let (ty, value) = (c.result_type(0), c.scalar(2)?);
    fits(ty.element(), value).then_some(())?;
    masked_fill(c, c.e.full(&ty.shape(), ty.element(), value))
}

/// The value is a 0-d tensor. Eager refuses one that overflows in the type of self, which only widening cannot.
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
    masked_fill(c, c.e.broadcast_to(c.e.convert(value, to), &ty.shape()))
}

fn masked_fill(c: &Call, value: Value) -> Option<Vec<Value>> {
    let shape = c.result_shape(0);
    let (x, mask) = (c.e.broadcast_to(c.tensor(0)?, &shape), c.tensor(1)?);
    // Masks of bytes are refused by eager since long.
    mask.ty().element().is_bool().then(|| vec![c.e.select(c.e.broadcast_to(mask, &shape), value, x)])
}
