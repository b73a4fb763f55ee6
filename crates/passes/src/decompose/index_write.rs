//! Writing by index, by `dynamo.scatter`, with the indices checked as in eager.
//!
//! If several elements are written to one place, this happens in eager's serial order: the last one remains, or sums are taken in that
//! order. Calls that combine 16-bit floats or bools are left to eager: for 16-bit floats some of its code paths round after each step and
//! others do not, and bools are not combined arithmetically.

use dynamlir_dialect::ir::{Type, Value};

use super::{
    Call, Lowering,
    index::{as_index, broadcast_shapes, checked},
    max_pool::least,
    shape::fits,
};
use crate::emit::Scalar;

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._unsafe_index_put.default", index_put),
    ("aten.index_add.default", index_add),
    ("aten.index_copy.default", |c| Some(rows(c)?.done(c, c.tensor(0)?, None))),
    ("aten.index_put.default", index_put),
    ("aten.index_reduce.default", |c| reduced(c, &rows(c)?)),
    ("aten.max_pool2d_with_indices_backward.default", max_pool_backward),
    ("aten.max_unpool2d.default", |c| max_unpool(c, 2)),
    ("aten.max_unpool3d.default", |c| max_unpool(c, 3)),
    ("aten.put.default", put),
    ("aten.scatter.reduce", |c| scatter(c, true)),
    ("aten.scatter.src", |c| scatter(c, false)),
    ("aten.scatter.value", |c| scatter(c, false)),
    ("aten.scatter.value_reduce", |c| scatter(c, true)),
    ("aten.scatter_add.default", |c| Some(elements(c)?.done(c, c.tensor(0)?, Some(combining(c, "sum")?)))),
    ("aten.scatter_reduce.two", |c| reduced(c, &elements(c)?)),
];

/// Elements and their destinations, in the form of `dynamo.scatter`.
struct Writes {
    dims: Vec<i64>,
    indices: Vec<Value>,
    source: Value,
}

impl Writes {
    /// Writes into a base with the result's elements; `kind` is as for `dynamo.scatter`.
    fn done(&self, c: &Call, base: Value, kind: Option<&str>) -> Vec<Value> {
        let base = at_least_1d(c, base);
        vec![c.e.reshape(self.into(c, base, self.source, kind), &c.result_shape(0))]
    }

    fn into(&self, c: &Call, base: Value, source: Value, kind: Option<&str>) -> Value {
        if base.ty().numel() == 0 || source.ty().numel() == 0 {
            return base;
        }
        c.e.scatter(base, &self.dims, &self.indices, source, kind)
    }
}

fn at_least_1d(c: &Call, x: Value) -> Value {
    if x.ty().rank() == 0 { c.e.reshape(x, &[1]) } else { x }
}

/// Returns the kind if elements of the result's type can be combined that way.
fn combining<'k>(c: &Call, kind: &'k str) -> Option<&'k str> {
    let element = c.result_type(0).element();
    let half = element.is_float() && element.width() == 16;
    let unordered = element.is_unsigned() && (kind == "max" || kind == "min");
    (!element.is_bool() && !half && !unordered).then_some(kind)
}

/// Maps each dimension of the result to the same dimension of the source, except `dim`, which an index tensor addresses.
fn along(rank: usize, dim: i64) -> Vec<i64> {
    (0..rank as i64).map(|d| if d == dim { -1 } else { d }).collect()
}

/// Writes the rows of a source, argument 3, to the listed rows along a dimension.
fn rows(c: &Call) -> Option<Writes> {
    let (base, source) = (c.tensor(0)?, c.tensor(3)?);
    let dim = c.dim(1, base.ty().rank())?;
    let index = as_index(c, c.tensor(2)?).filter(|index| index.ty().rank() <= 1)?;
    let count = index.ty().numel();
    let mut shape = at_least_1d(c, base).ty().shape();
    let size = std::mem::replace(shape.get_mut(dim as usize)?, count);
    let given = source.ty();
    let whole = given.rank() == 0 || given.shape() == shape;
    if given.element() != base.ty().element() || given.numel() != shape.iter().product::<i64>() || !whole {
        return None;
    }
    let index = checked(c, c.e.reshape(index, &[count]), &size.into(), false);
    let source = c.e.reshape(source, &shape);
    Some(Writes { dims: along(shape.len(), dim), indices: vec![c.e.broadcast(index, &shape, &[dim])], source })
}

fn index_add(c: &Call) -> Option<Vec<Value>> {
    let (mut writes, factor) = (rows(c)?, c.scalar(4)?);
    let kind = combining(c, "sum")?;
    if factor.as_f64() != 1.0 {
        writes.source = c.e.mul(writes.source, c.e.full_like(writes.source, factor));
    }
    Some(writes.done(c, c.tensor(0)?, Some(kind)))
}

/// Writes element `p` of the source, or a number for all elements, to row `index[p]` along a dimension and to its own position along the
/// others.
fn elements(c: &Call) -> Option<Writes> {
    let base = at_least_1d(c, c.tensor(0)?);
    let (sizes, element) = (base.ty().shape(), base.ty().element());
    let dim = c.dim(1, sizes.len())?;
    if c.tensor(2)?.ty().numel() == 0 {
        return Some(Writes { dims: Vec::new(), indices: Vec::new(), source: c.e.full(&[0], element, 0i64) });
    }
    let index = at_least_1d(c, as_index(c, c.tensor(2)?)?);
    let shape = index.ty().shape();
    let source = match c.tensor(3) {
        Some(source) => at_least_1d(c, source),
        None => c.e.full(&shape, element, c.scalar(3).filter(|&value| fits(element, value))?),
    };
    let given = source.ty().shape();
    if shape.len() != sizes.len() || given.len() != sizes.len() || source.ty().element() != element {
        return None;
    }
    let fits = |d: usize| shape[d] <= given[d] && (d == dim as usize || shape[d] <= sizes[d]);
    if !(0..shape.len()).all(fits) {
        return None;
    }
    let index = checked(c, index, &sizes[dim as usize].into(), false);
    let source = c.e.slice(source, &vec![0; shape.len()], &vec![1; shape.len()], &shape);
    Some(Writes { dims: along(shape.len(), dim), indices: vec![index], source })
}

/// `aten.scatter`: the last element written remains; with `reduce` the elements are added or multiplied.
fn scatter(c: &Call, reduce: bool) -> Option<Vec<Value>> {
    let kind = match reduce.then(|| c.str(4)).flatten().as_deref() {
        None if !reduce => None,
        Some("add") => Some(combining(c, "sum")?),
        Some("multiply") => Some(combining(c, "prod")?),
        _ => return None,
    };
    Some(elements(c)?.done(c, c.tensor(0)?, kind))
}

/// Combines all elements for a place, and the old one only if argument 5 is true; otherwise the old one is replaced by the neutral element.
/// A mean is a sum divided by a count. Integer means, which eager rounds down, are declined.
fn reduced(c: &Call, writes: &Writes) -> Option<Vec<Value>> {
    let (e, base) = (c.e, c.tensor(0)?);
    let (element, include) = (base.ty().element(), c.bool(5)?);
    let (kind, neutral) = match c.str(4)?.as_str() {
        "sum" => ("sum", Scalar::Int(0)),
        "prod" => ("prod", Scalar::Int(1)),
        "amax" => ("max", least(element)),
        "amin" => ("min", greatest(element)),
        "mean" if element.is_float() => ("sum", Scalar::Int(0)),
        _ => return None,
    };
    let kind = combining(c, kind)?;
    if writes.source.ty().numel() == 0 || base.ty().numel() == 0 {
        return Some(vec![base]);
    }
    let base = at_least_1d(c, base);
    let all = |value: Scalar| e.full_like(writes.source, value);
    let start = if include { base } else { writes.into(c, base, all(neutral), None) };
    let mut value = writes.into(c, start, writes.source, Some(kind));
    if c.str(4)? == "mean" {
        let own = e.full_like(base, i64::from(include));
        let count = writes.into(c, own, all(Scalar::Int(1)), Some("sum"));
        value = e.div(value, e.max(count, e.full_like(count, 1i64)));
    }
    Some(vec![e.reshape(value, &c.result_shape(0))])
}

/// Returns a bound that is at least every number of the type.
fn greatest(element: Type) -> Scalar {
    match (element.is_float(), element.is_unsigned()) {
        (true, _) => Scalar::Float(f64::INFINITY),
        (_, true) => Scalar::Int((1 << element.width()) - 1),
        _ => Scalar::Int(i64::MAX >> (64 - element.width())),
    }
}

/// `x[mask] = values`, if `values` is the same for all positions that the mask selects. Values with an element for each selected position
/// are left to eager, since the number of these positions is data-dependent.
fn masked_put(c: &Call) -> Option<Vec<Value>> {
    let (e, base, given, values) = (c.e, c.tensor(0)?, c.opt_tensors(1)?, c.tensor(2)?);
    let shape = base.ty().shape();
    let [mask] = given.iter().copied().flatten().collect::<Vec<_>>()[..] else { return None };
    let first = given.iter().position(Option::is_some)?;
    let behind = first + mask.ty().rank();
    let covers = mask.ty().rank() > 0 && shape.get(first..behind)? == mask.ty().shape();
    if !mask.ty().element().is_bool() || !covers || values.ty().element() != base.ty().element() {
        return None;
    }
    // The dimensions covered by the mask are a single dimension of the values, which must have size 1.
    let mut wide = values.ty().shape();
    let own = wide.len().checked_sub(shape.len() - behind + 1);
    if let Some(own) = own {
        if wide[own] != 1 {
            return None;
        }
        wide.splice(own..=own, mask.ty().shape().iter().map(|_| 1));
    }
    if broadcast_shapes(shape.clone(), wide.clone())? != shape {
        return None;
    }
    let values = e.broadcast_to(e.reshape(values, &wide), &shape);
    let values = if c.bool(3)? {
        combining(c, "sum")?;
        e.add(base, values)
    } else {
        values
    };
    let dims: Vec<i64> = (first..behind).map(|d| d as i64).collect();
    Some(vec![e.select(e.broadcast(mask, &shape, &dims), values, base)])
}

/// `x[i, :, j, …] = values`: index tensors broadcast against each other, and their dimensions are placed as in `x[i, :, j, …]`.
fn index_put(c: &Call) -> Option<Vec<Value>> {
    let (base, given, values) = (c.tensor(0)?, c.opt_tensors(1)?, c.tensor(2)?);
    let sizes = base.ty().shape();
    let places: Vec<usize> = (0..given.len()).filter(|&d| given[d].is_some()).collect();
    let (&first, &last) = (places.first()?, places.last()?);
    if last >= sizes.len() || values.ty().element() != base.ty().element() {
        return None;
    }
    if let Some(done) = masked_put(c) {
        return Some(done);
    }
    let indices: Vec<Value> = given.iter().flatten().map(|&index| as_index(c, index)).collect::<Option<_>>()?;
    let common = indices.iter().try_fold(Vec::new(), |shape, index| broadcast_shapes(shape, index.ty().shape()))?;
    let before = if last - first + 1 == places.len() { first } else { 0 };
    let rest: Vec<usize> = (0..sizes.len()).filter(|d| !places.contains(d)).collect();
    let size_of = |dims: &[usize]| dims.iter().map(|&d| sizes[d]).collect::<Vec<_>>();
    let shape = [size_of(&rest[..before]), common.clone(), size_of(&rest[before..])].concat();
    if broadcast_shapes(shape.clone(), values.ty().shape())? != shape {
        return None;
    }
    let kind = if c.bool(3)? { Some(combining(c, "sum")?) } else { None };
    let mut dims = vec![-1; sizes.len()];
    for (i, &d) in rest.iter().enumerate() {
        dims[d] = (if i < before { i } else { i + common.len() }) as i64;
    }
    let spread = |(&place, &index): (&usize, &Value)| {
        let index = checked(c, index, &sizes[place].into(), true);
        let rank = index.ty().rank();
        let own: Vec<i64> = (before + common.len() - rank..before + common.len()).map(|d| d as i64).collect();
        c.e.broadcast(index, &shape, &own)
    };
    let indices = places.iter().zip(&indices).map(spread).collect();
    Some(Writes { dims, indices, source: c.e.broadcast_to(values, &shape) }.done(c, base, kind))
}

/// Writes into the flattened tensor.
fn put(c: &Call) -> Option<Vec<Value>> {
    let (base, index, source) = (c.tensor(0)?, as_index(c, c.tensor(1)?)?, c.tensor(2)?);
    let (places, sources) = (base.ty().numel(), index.ty().numel());
    if source.ty().element() != base.ty().element() || source.ty().numel() != sources {
        return None;
    }
    let kind = if c.bool(3)? { Some(combining(c, "sum")?) } else { None };
    let index = checked(c, c.e.reshape(index, &[sources]), &places.into(), true);
    let writes = Writes { dims: vec![-1], indices: vec![index], source: c.e.reshape(source, &[sources]) };
    Some(writes.done(c, c.e.reshape(base, &[places]), kind))
}

/// Adds each gradient at the place of the maximum in its plane; windows overlap.
fn max_pool_backward(c: &Call) -> Option<Vec<Value>> {
    planes(c, 2, c.tensor(7)?, Some(combining(c, "sum")?))
}

/// Writes the maxima of a pooling back to their places in their planes.
fn max_unpool(c: &Call, rank: usize) -> Option<Vec<Value>> {
    planes(c, rank, c.tensor(1)?, None)
}

/// Writes the elements of argument 0 into planes of zeros; `rank` is the rank of a plane.
fn planes(c: &Call, rank: usize, index: Value, kind: Option<&str>) -> Option<Vec<Value>> {
    let (source, ty) = (c.tensor(0)?, c.result_type(0));
    let shape = ty.shape();
    let front = shape.len().checked_sub(rank)?;
    let (planes, places): (i64, i64) = (shape[..front].iter().product(), shape[front..].iter().product());
    let count = source.ty().numel();
    if source.ty().element() != ty.element() || index.ty().shape() != source.ty().shape() || planes * places * count == 0 {
        return None;
    }
    let flat = |x: Value| c.e.reshape(x, &[planes, count / planes]);
    let index = flat(checked(c, as_index(c, index)?, &places.into(), false));
    let writes = Writes { dims: vec![0, -1], indices: vec![index], source: flat(source) };
    Some(writes.done(c, c.e.full(&[planes, places], ty.element(), 0i64), kind))
}
