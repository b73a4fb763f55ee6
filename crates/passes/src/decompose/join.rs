//! Joining tensors and reordering their elements: concatenation, repetition, rotation.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Dimension};

use super::{
    Call, Lowering,
    shape::wrap_all,
    view::{cut, swap},
};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.block_diag.default", block_diag),
    ("aten.cat.default", cat),
    ("aten.channel_shuffle.default", channel_shuffle),
    ("aten.concat.default", cat),
    ("aten.concatenate.default", cat),
    ("aten.flip.default", flip),
    ("aten.native_channel_shuffle.default", channel_shuffle),
    ("aten.pixel_shuffle.default", pixel_shuffle),
    ("aten.pixel_unshuffle.default", pixel_unshuffle),
    ("aten.repeat.default", repeat),
    ("aten.roll.default", roll),
    ("aten.rot90.default", rot90),
    ("aten.stack.default", stack),
];

fn cat(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let rank = ty.rank();
    let all: Vec<Value> = c.tensors(0)?.into_iter().map(|x| c.e.convert(x, ty.element())).collect();
    // An empty vector can be concatenated with anything. This is for compatibility with the time before empty tensors had shapes.
    let mut pieces: Vec<Value> = all.iter().copied().filter(|x| x.ty().rank() == rank && x.ty().shape() != [0]).collect();
    if pieces.is_empty() {
        pieces = all.into_iter().filter(|x| x.ty() == ty).take(1).collect();
    }
    let dim = c.dim(1, rank)?;
    (!pieces.is_empty()).then(|| vec![c.e.concat(&pieces, dim)])
}

fn stack(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let dim = c.dim(1, ty.rank())?;
    let mut slab = ty.dims();
    *slab.get_mut(dim as usize)? = Dim::from(1);
    let pieces: Vec<_> = c.tensors(0)?.into_iter().map(|x| c.e.reshape(c.e.convert(x, ty.element()), &slab)).collect();
    (!pieces.is_empty()).then(|| vec![c.e.concat(&pieces, dim)])
}

/// Repeats each dimension: a new dimension before it counts the repetitions, unless it has size 1 and can itself be broadcast.
fn repeat(c: &Call) -> Option<Vec<Value>> {
    let (x, times) = (c.tensor(0)?, c.sizes(1)?);
    let result = c.result_type(0).dims();
    let own = x.ty().dims();
    let front = result.len().checked_sub(own.len())?;
    let sizes: Vec<Dim> = std::iter::repeat_n(Dim::from(1), front).chain(own).collect();
    let (mut wide, mut dims) = (Vec::new(), Vec::new());
    for (size, count) in sizes.iter().zip(&times) {
        if !size.is(1) && !count.is(1) {
            wide.push(count.clone());
        }
        dims.push(wide.len() as i64);
        wide.push(if size.is(1) { count.clone() } else { size.clone() });
    }
    let x = c.e.reshape(x, &sizes);
    Some(vec![c.e.reshape(c.e.broadcast(x, &wide, &dims), &result)])
}

/// Elements shifted out at one end re-enter at the other.
fn roll_dim(c: &Call, x: Value, shift: i64, dim: i64) -> Option<Value> {
    let size = x.ty().dims().get(dim as usize)?.known()?;
    let shift = if size == 0 { 0 } else { shift.rem_euclid(size) };
    if shift == 0 {
        return Some(x);
    }
    let (back, front) = (cut(c, x, dim, size - shift, 1, shift), cut(c, x, dim, 0, 1, size - shift));
    Some(c.e.concat(&[back, front], dim))
}

fn roll(c: &Call) -> Option<Vec<Value>> {
    let (mut x, shifts, dims) = (c.tensor(0)?, c.ints(1)?, c.ints(2)?);
    let shape = x.ty().dims();
    if dims.is_empty() {
        let flat = c.e.reshape(x, &[x.ty().count()?]);
        let rolled = roll_dim(c, flat, *shifts.first()?, 0)?;
        return Some(vec![c.e.reshape(rolled, &shape)]);
    }
    for (&shift, &dim) in shifts.iter().zip(&wrap_all(&dims, shape.len())?) {
        x = roll_dim(c, x, shift, dim)?;
    }
    Some(vec![x])
}

/// The elements in reverse order along `dims`; dimensions of size 0 or 1 are skipped.
pub(super) fn reversed(c: &Call, x: Value, dims: &[i64]) -> Value {
    let shape = x.ty().dims();
    let matters = |size: &Dim| size.known().is_none_or(|size| size > 1);
    let dims: Vec<i64> = dims.iter().copied().filter(|&dim| shape.get(dim as usize).is_some_and(matters)).collect();
    if dims.is_empty() { x } else { c.e.reverse(x, &dims) }
}

fn flip(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dims = wrap_all(&c.ints(1)?, x.ty().rank())?;
    Some(vec![reversed(c, x, &dims)])
}

/// A quarter turn is a flip and a transposition.
fn rot90(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dims = wrap_all(&c.ints(2)?, x.ty().rank())?;
    let &[a, b] = dims.as_slice() else { return None };
    let turn = |flipped: i64| swap(c, reversed(c, x, &[flipped]), a, b);
    Some(vec![match c.int(1)?.rem_euclid(4) {
        0 => x,
        1 => turn(b),
        2 => reversed(c, x, &[a, b]),
        _ => turn(a),
    }])
}

fn block_diag(c: &Call) -> Option<Vec<Value>> {
    let ty = c.result_type(0);
    let &[_, columns] = ty.numbers()?.as_slice() else { return None };
    let mut at = 0;
    let mut rows = Vec::new();
    for x in c.tensors(0)? {
        let x = c.e.convert(x, ty.element());
        let shape = x.ty().numbers()?;
        let (height, width) = match *shape.as_slice() {
            [] => (1, 1),
            [width] => (1, width),
            [height, width] => (height, width),
            _ => return None,
        };
        let block = c.e.reshape(x, &[height, width]);
        rows.push(c.e.pad(block, &[0, at], &[0, columns - at - width], 0i64));
        at += width;
    }
    (!rows.is_empty()).then(|| vec![c.e.concat(&rows, 0)])
}

/// Splits dimensions by a reshape to `split`, permutes them, and merges them by a reshape to the result's shape.
fn regroup(c: &Call, x: Value, split: &[i64], dims: &[i64], result: Type) -> Value {
    let x = c.e.permute(c.e.reshape(x, split), dims);
    c.e.reshape(x, &result.shape())
}

/// Splits a shape into the leading dimensions, which the shuffles below leave unchanged, and the last three.
fn images(shape: &[i64]) -> Option<(&[i64], [i64; 3])> {
    let (batch, last) = shape.split_at_checked(shape.len().checked_sub(3)?)?;
    Some((batch, last.try_into().ok()?))
}

/// Channels become pixels: `(c r r) h w -> c (h r) (w r)`.
fn pixel_shuffle(c: &Call) -> Option<Vec<Value>> {
    let (x, r) = (c.tensor(0)?, c.int(1)?);
    let shape = x.ty().numbers()?;
    let (batch, [channels, h, w]) = images(&shape)?;
    let n = batch.len() as i64;
    let split = [batch, &[channels / (r * r).max(1), r, r, h, w]].concat();
    let dims: Vec<i64> = (0..n).chain([n, n + 3, n + 1, n + 4, n + 2]).collect();
    Some(vec![regroup(c, x, &split, &dims, c.result_type(0))])
}

/// Pixels become channels: `c (h r) (w r) -> (c r r) h w`.
fn pixel_unshuffle(c: &Call) -> Option<Vec<Value>> {
    let (x, r) = (c.tensor(0)?, c.int(1)?);
    let shape = x.ty().numbers()?;
    let (batch, [channels, h, w]) = images(&shape)?;
    let n = batch.len() as i64;
    let split = [batch, &[channels, h / r.max(1), r, w / r.max(1), r]].concat();
    let dims: Vec<i64> = (0..n).chain([n, n + 2, n + 4, n + 1, n + 3]).collect();
    Some(vec![regroup(c, x, &split, &dims, c.result_type(0))])
}

/// `n (g c) … -> n (c g) …`.
fn channel_shuffle(c: &Call) -> Option<Vec<Value>> {
    let (x, groups) = (c.tensor(0)?, c.int(1)?);
    let shape = x.ty().numbers()?;
    let &[batch, channels, ref rest @ ..] = shape.as_slice() else { return None };
    let split = [&[batch, groups, channels / groups.max(1)], rest].concat();
    let dims: Vec<i64> = [0, 2, 1].into_iter().chain(3..split.len() as i64).collect();
    Some(vec![regroup(c, x, &split, &dims, c.result_type(0))])
}
