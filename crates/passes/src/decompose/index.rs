//! Reading by index, by `dynamo.gather`, with the indices checked and wrapped as in eager.
//!
//! An index from the program may be out of range, which raises. So it is checked before anything is read with it. If the check fails, eager
//! runs the call and raises its own error. An index known to be in range is not checked.

use dynamlir_dialect::{
    ir::{AttrValue, Type, Value},
    ops::{BroadcastOp, DynamoOp, DynamoOp as D},
};
use dynamlir_shapes::{Dim, Dimension, Relation};

use super::{Call, Lowering, promote::wide};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._unsafe_index.Tensor", index),
    ("aten.embedding.default", embedding),
    ("aten.gather.default", gather),
    ("aten.index.Tensor", index),
    ("aten.index_select.default", index_select),
    ("aten.nll_loss2d_forward.default", nll_loss),
    ("aten.nll_loss_forward.default", nll_loss),
    ("aten.one_hot.default", one_hot),
    ("aten.take.default", take),
];

/// Returns the smallest and the largest possible value of an integer tensor's elements, if the ops that compute it show them.
fn known_range(x: Value) -> Option<(Dim, Dim)> {
    let op = x.def()?;
    let both = || Some((known_range(op.operand(0))?, known_range(op.operand(1))?));
    let positions = |of: Value, dim: i64| Some((Dim::from(0), last(of.ty().dims().get(usize::try_from(dim).ok()?)?)?));
    match DynamoOp::of(op)? {
        D::Iota(iota) => positions(x, iota.dim()),
        D::Full(full) => Dim::read(full.value()).map(|value| (value.clone(), value)),
        D::CheckRange(check) => Some((check.low_dims(), check.high_dims().sub(&Dim::from(1)).ok()?)),
        D::ArgReduce(reduce) => positions(reduce.operand(), reduce.dim()),
        D::Broadcast(_) | D::Reshape(_) | D::Permute(_) | D::Slice(_) | D::Reverse(_) | D::AsStrided(_) => known_range(op.operand(0)),
        D::Convert(convert) => match convert.operand().ty().element() {
            element if element.is_bool() => Some((0.into(), 1.into())),
            element if element.is_int() && x.ty().element().width() == 64 => known_range(convert.operand()),
            _ => None,
        },
        D::Add(_) => both().and_then(|(a, b)| Some((a.0.add(&b.0).ok()?, a.1.add(&b.1).ok()?))),
        D::Sub(_) => both().and_then(|(a, b)| Some((a.0.sub(&b.1).ok()?, a.1.sub(&b.0).ok()?))),
        D::Min(_) => both().and_then(|(a, b)| Some((a.0.min(&b.0).ok()?, a.1.min(&b.1).ok()?))),
        D::Max(_) => both().and_then(|(a, b)| Some((a.0.max(&b.0).ok()?, a.1.max(&b.1).ok()?))),
        _ => None,
    }
}

/// Returns the last position of a dimension, or 0 if the dimension is empty.
fn last(size: &Dim) -> Option<Dim> {
    size.sub(&Dim::from(1)).ok().map(|last| if last.known().is_some_and(|last| last < 0) { Dim::from(0) } else { last })
}

/// Returns an `i64` or `i32` index tensor as `i64`. Declines bytes and bools: they are masks, whose results have data-dependent sizes.
pub(super) fn as_index(c: &Call, index: Value) -> Option<Value> {
    let element = index.ty().element();
    (element.is_int() && !element.is_bool() && element.width() >= 32).then(|| c.e.convert(index, index_type(c)))
}

pub(super) fn index_type(c: &Call) -> Type {
    Type::int(c.e.ctx(), 64)
}

/// Returns the index, checked to be in `0..size`. Negative indices count from the end if `wraps`; otherwise they are out of range.
pub(super) fn checked(c: &Call, index: Value, size: &Dim, wraps: bool) -> Value {
    if index.ty().shape().contains(&0) {
        return index;
    }
    // Checks the elements before a broadcast repeats them.
    if let Some(spread) = BroadcastOp::defining(index) {
        return c.e.broadcast(checked(c, spread.operand(), size, wraps), &index.ty().dims(), &spread.dims());
    }
    let low = if wraps { Dim::from(0).sub(size).expect("minus a size") } else { Dim::from(0) };
    let known = known_range(index);
    let within = |(least, most): &(Dim, Dim)| c.surely(least, Relation::Ge, low.clone()) && c.surely(most, Relation::Lt, size.clone());
    let index = match &known {
        Some(range) if within(range) => index,
        _ => c.e.check_range(index, low, size.clone(), &format!("{}: index out of range", c.schema())),
    };
    if !wraps || known.is_some_and(|(least, _)| c.surely(&least, Relation::Ge, 0)) {
        return index;
    }
    let from_end = c.e.add(index, c.e.size_like(index, size));
    c.e.select(c.e.lt(index, c.e.full_like(index, 0i64)), from_end, index)
}

/// Reads the table at `index` along one dimension. `index` has the result's shape; along other dimensions table and result have the same
/// coordinates.
fn along(c: &Call, table: Value, dim: usize, index: Value) -> Value {
    let shape = index.ty().dims();
    let at = |d: usize| if d == dim { index } else { c.e.iota(&shape, d) };
    let indices: Vec<Value> = (0..shape.len()).map(at).collect();
    c.e.gather(table, &indices)
}

fn embedding(c: &Call) -> Option<Vec<Value>> {
    let (table, index) = (c.tensor(0)?, as_index(c, c.tensor(1)?)?);
    let [rows, width] = &table.ty().dims()[..] else { return None };
    let mut shape = index.ty().dims();
    let dims: Vec<i64> = (0..shape.len() as i64).collect();
    shape.push(width.clone());
    let row = c.e.broadcast(checked(c, index, rows, false), &shape, &dims);
    Some(vec![c.e.gather(table, &[row, c.e.iota(&shape, dims.len())])])
}

fn index_select(c: &Call) -> Option<Vec<Value>> {
    let (table, index) = (c.tensor(0)?, as_index(c, c.tensor(2)?)?);
    let sizes = table.ty().dims();
    let dim = c.dim(1, sizes.len())?;
    (index.ty().rank() <= 1).then_some(())?;
    let count = index.ty().count()?;
    if sizes.is_empty() && !count.is(1) {
        return None;
    }
    let index = c.e.reshape(index, std::slice::from_ref(&count));
    // A 0-d table is read like one with a single element.
    let table = if sizes.is_empty() { c.e.reshape(table, &[1]) } else { table };
    let mut shape = table.ty().dims();
    let size = std::mem::replace(shape.get_mut(dim as usize)?, count);
    let index = c.e.broadcast(checked(c, index, &size, false), &shape, &[dim]);
    Some(vec![c.e.reshape(along(c, table, dim as usize, index), &c.result_dims(0))])
}

fn gather(c: &Call) -> Option<Vec<Value>> {
    // If the result is empty, the index may have any type and shape.
    if c.result_type(0).shape().contains(&0) {
        return Some(vec![c.e.full(&c.result_dims(0), c.result_type(0).element(), 0i64)]);
    }
    let (table, index) = (c.tensor(0)?, as_index(c, c.tensor(2)?)?);
    let one_d = |x: Value| if x.ty().rank() == 0 { c.e.reshape(x, &[1]) } else { x };
    let (table, index) = (one_d(table), one_d(index));
    let dim = c.dim(1, table.ty().rank())?;
    let (sizes, shape) = (table.ty().dims(), index.ty().dims());
    let inside = |d: usize| d == dim as usize || shape[d] == sizes[d] || c.surely(&shape[d], Relation::Le, sizes[d].clone());
    if sizes.len() != shape.len() || (!index.ty().shape().contains(&0) && !(0..shape.len()).all(inside)) {
        return None;
    }
    let index = checked(c, index, &sizes[dim as usize], false);
    Some(vec![c.e.reshape(along(c, table, dim as usize, index), &c.result_dims(0))])
}

/// 1 where the index along the last dimension equals the class. A class outside the range raises.
fn one_hot(c: &Call) -> Option<Vec<Value>> {
    let (classes, count, shape) = (c.tensor(0)?, c.int(1)?, c.result_dims(0));
    let rank = classes.ty().rank();
    if classes.ty().element() != index_type(c) || count < 1 || shape.len() != rank + 1 || !shape[rank].is(count) {
        return None;
    }
    let dims: Vec<i64> = (0..rank as i64).collect();
    let class = c.e.broadcast(checked(c, classes, &count.into(), false), &shape, &dims);
    Some(vec![c.e.convert(c.e.eq(class, c.e.iota(&shape, rank)), index_type(c))])
}

/// Reads from the flattened table.
fn take(c: &Call) -> Option<Vec<Value>> {
    let (table, index) = (c.tensor(0)?, c.tensor(1)?);
    if index.ty().element() != index_type(c) {
        return None;
    }
    let count = table.ty().count()?;
    let flat = c.e.reshape(table, std::slice::from_ref(&count));
    Some(vec![c.e.gather(flat, &[checked(c, index, &count, true)])])
}

/// `x[i, :, j, …]`: index tensors broadcast against each other. Their dimensions replace the indexed ones if those are adjacent, and come
/// first otherwise.
fn index(c: &Call) -> Option<Vec<Value>> {
    let (table, given) = (c.tensor(0)?, c.opt_tensors(1)?);
    let sizes = table.ty().dims();
    let places: Vec<usize> = (0..given.len()).filter(|&d| given[d].is_some()).collect();
    let (&first, &last) = (places.first()?, places.last()?);
    if last >= sizes.len() {
        return None;
    }
    let indices: Vec<Value> = given.iter().flatten().map(|&index| as_index(c, index)).collect::<Option<_>>()?;
    let common = indices.iter().try_fold(Vec::new(), |shape, index| broadcast_shapes(shape, index.ty().dims()))?;
    let before = if last - first + 1 == places.len() { first } else { 0 };
    let rest: Vec<usize> = (0..sizes.len()).filter(|d| !places.contains(d)).collect();
    let (front, back) = rest.split_at(before);
    let kept = |dims: &[usize]| dims.iter().map(|&d| sizes[d].clone()).collect::<Vec<_>>();
    let shape = [kept(front), common.clone(), kept(back)].concat();
    if shape != c.result_dims(0) {
        return None;
    }
    let mut at: Vec<Option<Value>> = vec![None; sizes.len()];
    for (&place, &index) in places.iter().zip(&indices) {
        let index = checked(c, index, &sizes[place], true);
        let rank = index.ty().rank();
        let dims: Vec<i64> = (before + common.len() - rank..before + common.len()).map(|d| d as i64).collect();
        at[place] = Some(c.e.broadcast(index, &shape, &dims));
    }
    for (i, &d) in rest.iter().enumerate() {
        let dim = if i < before { i } else { i + common.len() };
        at[d] = Some(c.e.iota(&shape, dim));
    }
    Some(vec![c.e.gather(table, &at.into_iter().collect::<Option<Vec<_>>>()?)])
}

/// Returns the shape that two shapes broadcast to.
pub(super) fn broadcast_shapes<D: Dimension>(mut a: Vec<D>, mut b: Vec<D>) -> Option<Vec<D>> {
    let rank = a.len().max(b.len());
    for list in [&mut a, &mut b] {
        list.splice(0..0, std::iter::repeat_n(D::from(1), rank - list.len()));
    }
    a.into_iter().zip(b).map(|(a, b)| (a == b || a.is(1) || b.is(1)).then(|| if a.is(1) { b } else { a })).collect()
}

/// Returns minus the log-probability of each target, weighted by its class, and the sum of those weights. Targets equal to `ignore_index`
/// contribute nothing, and only they may be out of range.
fn nll_loss(c: &Call) -> Option<Vec<Value>> {
    let (x, target) = (c.tensor(0)?, c.tensor(1)?);
    let (element, reduction, ignored) = (x.ty().element(), c.int(3)?, c.int(4)?);
    if !element.is_float() || !target.ty().element().is_int() || target.ty().element().is_bool() {
        return None;
    }
    let single = x.ty().rank() == 1;
    let x = if single { c.e.unsqueeze(x, &[0]) } else { x };
    let target = if target.ty().rank() == 0 { c.e.unsqueeze(target, &[0]) } else { target };
    let (sizes, shape) = (x.ty().dims(), target.ty().dims());
    let [batch, classes, space @ ..] = &sizes[..] else { return None };
    if shape != [std::slice::from_ref(batch), space].concat() {
        return None;
    }
    let target = c.e.convert(target, index_type(c));
    let is_ignored = c.e.eq(target, c.e.full_like(target, ignored));
    let class = c.e.select(is_ignored, c.e.full_like(target, 0i64), target);
    let class = checked(c, class, classes, false);
    let at = |d: usize| match d {
        0 => c.e.iota(&shape, 0),
        1 => class,
        _ => c.e.iota(&shape, d - 1),
    };
    let indices: Vec<Value> = (0..sizes.len()).map(at).collect();
    let compute = wide(element);
    let zero = c.e.full(&shape, compute, 0.0);
    let weight = match c.tensor(2) {
        Some(weight) => c.e.convert(c.e.gather(weight, &[class]), compute),
        None => c.e.full(&shape, compute, 1.0),
    };
    let weight = c.e.select(is_ignored, zero, weight);
    let loss = c.e.mul(c.e.neg(c.e.convert(c.e.gather(x, &indices), compute)), weight);
    // A zero weight does not suffice: an ignored loss may be infinite.
    let loss = c.e.select(is_ignored, zero, loss);
    let dims: Vec<i64> = (0..shape.len() as i64).collect();
    let mut total = c.e.sum(weight, &dims, false);
    let output = match reduction {
        0 => {
            if !single {
                total = c.e.full_like(total, 0.0);
            }
            loss
        }
        1 => c.e.div(c.e.sum(loss, &dims, false), total),
        2 => c.e.sum(loss, &dims, false),
        _ => return None,
    };
    let done = |value: Value, i: usize| c.e.convert(c.e.reshape(value, &c.result_dims(i)), c.result_type(i).element());
    let fits = c.result_type(0).count() == output.ty().count() && c.result_type(1).is_single();
    fits.then(|| vec![done(output, 0), done(total, 1)])
}
