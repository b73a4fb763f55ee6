//! Padding with constants, reflected elements and repeated ones; windows on padded images.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::{Dim, Dimension, Relation};

use super::{
    Call, Lowering,
    join::reversed,
    shape::{fits, row_major},
    view::cut,
};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.constant_pad_nd.default", constant),
    ("aten.im2col.default", im2col),
    ("aten.reflection_pad1d.default", reflection),
    ("aten.reflection_pad2d.default", reflection),
    ("aten.reflection_pad3d.default", reflection),
    ("aten.replication_pad1d.default", replication),
    ("aten.replication_pad2d.default", replication),
    ("aten.replication_pad3d.default", replication),
];

/// Converts torch's (before, after) pairs, which start at the last dimension, to (dimension, before, after), first dimension first.
fn sides(padding: &[i64], rank: usize) -> Option<Vec<(i64, i64, i64)>> {
    let pairs = padding.as_chunks::<2>().0;
    let first = rank.checked_sub(pairs.len())?;
    Some(pairs.iter().rev().enumerate().map(|(i, &[low, high])| ((first + i) as i64, low, high)).collect())
}

/// Crops the tensor where the padding is negative.
fn crop(c: &Call, mut x: Value, sides: &[(i64, i64, i64)]) -> Option<Value> {
    for &(dim, low, high) in sides {
        let (low, high) = ((-low).max(0), (-high).max(0));
        x = cut(c, x, dim, low, 1, x.ty().dims()[dim as usize].sub(&Dim::from(low + high)).ok()?);
    }
    Some(x)
}

fn constant(c: &Call) -> Option<Vec<Value>> {
    let (x, value) = (c.tensor(0)?, c.scalar(2)?);
    fits(x.ty().element(), value).then_some(())?;
    let sides = sides(&c.ints(1)?, x.ty().rank())?;
    let (mut low, mut high) = (vec![0; x.ty().rank()], vec![0; x.ty().rank()]);
    // Cropping more elements than exist is left to eager, regardless of the padding on the other side.
    let shape = x.ty().dims();
    let is_there = |&(dim, low, high): &(i64, i64, i64)| c.surely(&shape[dim as usize], Relation::Ge, -(low.min(0) + high.min(0)));
    if !sides.iter().all(is_there) {
        return None;
    }
    for &(dim, before, after) in &sides {
        (low[dim as usize], high[dim as usize]) = (before.max(0), after.max(0));
    }
    Some(vec![c.e.pad(crop(c, x, &sides)?, &low, &high, value)])
}

/// Returns the elements to put before or after a tensor along a dimension.
type Edge = fn(&Call, Value, i64, i64) -> Value;

/// Pads one dimension after another with the elements that `before` and `after` return. Cropping comes last, since the uncropped tensor is
/// the one that is reflected.
fn pad_with(c: &Call, before: Edge, after: Edge) -> Option<Vec<Value>> {
    let mut x = c.tensor(0).filter(|x| !x.ty().is_open())?;
    let sides = sides(&c.ints(1)?, x.ty().rank())?;
    for &(dim, low, high) in &sides {
        let mut pieces = vec![x];
        if low > 0 {
            pieces.insert(0, before(c, x, dim, low));
        }
        if high > 0 {
            pieces.push(after(c, x, dim, high));
        }
        x = c.e.concat(&pieces, dim);
    }
    Some(vec![crop(c, x, &sides)?])
}

/// `c b | a b c d | c b`: the element at the edge is not repeated.
fn reflection(c: &Call) -> Option<Vec<Value>> {
    let before: Edge = |c, x, dim, n| reversed(c, cut(c, x, dim, 1, 1, n), &[dim]);
    let after: Edge = |c, x, dim, n| reversed(c, cut(c, x, dim, x.ty().shape()[dim as usize] - 1 - n, 1, n), &[dim]);
    pad_with(c, before, after)
}

/// `a a | a b c d | d d`: the element at the edge is repeated.
fn replication(c: &Call) -> Option<Vec<Value>> {
    fn stretch(c: &Call, edge: Value, dim: i64, n: i64) -> Value {
        let mut shape = edge.ty().shape();
        shape[dim as usize] = n;
        c.e.broadcast_to(edge, &shape)
    }
    let before: Edge = |c, x, dim, n| stretch(c, cut(c, x, dim, 0, 1, 1), dim, n);
    let after: Edge = |c, x, dim, n| stretch(c, cut(c, x, dim, x.ty().shape()[dim as usize] - 1, 1, 1), dim, n);
    pad_with(c, before, after)
}

/// The windows of a convolution as columns: a view of the padded images with its own strides.
fn im2col(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let pair = |i: usize| -> Option<[i64; 2]> { c.ints(i)?.try_into().ok() };
    let (kernel, dilation, padding, stride) = (pair(1)?, pair(2)?, pair(3)?, pair(4)?);
    let shape = x.ty().numbers()?;
    let (batch, &[channels, _, _]) = shape.split_last_chunk::<3>()?;
    let around = [vec![0; batch.len() + 1], padding.to_vec()].concat();
    let padded = c.e.pad(x, &around, &around, 0i64);
    let (sizes, strides) = (padded.ty().shape(), row_major(&padded.ty().shape()));
    let n = batch.len();
    let windows = |i: usize| (sizes[n + 1 + i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i].max(1) + 1;
    let window_shape = [batch, &[channels, kernel[0], kernel[1], windows(0), windows(1)]].concat();
    let (row, column) = (strides[n + 1], strides[n + 2]);
    let steps = [row * dilation[0], column * dilation[1], row * stride[0], column * stride[1]];
    let window_strides = [&strides[..=n], &steps].concat();
    let result = c.result_type(0);
    if result.numel() == 0 {
        return Some(vec![c.e.full(&result.shape(), result.element(), 0i64)]);
    }
    let columns = c.e.as_strided(padded, &window_shape, &window_strides, 0);
    Some(vec![c.e.reshape(columns, &result.shape())])
}
