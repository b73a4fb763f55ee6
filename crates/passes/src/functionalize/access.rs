//! Reads and writes a window of a value, with the simplest primitives that suffice.
//!
//! Most windows come from `select`, `slice`, `view` and `transpose`. They are recovered from the strides alone: the value is reshaped so
//! that each stride of the window is a stride of one dimension, then sliced and permuted. Only a window of another kind (a diagonal,
//! overlapping rows) becomes `dynamo.as_strided`; so does one that cannot be classified because its sizes are expressions.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Type, Value},
    ops::AtenOp,
};
use dynamlir_shapes::{Dim, Dimension, Relation, Scope, row_major, row_major_in};

use super::coordinates::{Window, canonical, is_empty};
use crate::{emit::Emit, extent::numbers};

/// A window as a slice and a permutation of the reshaped value.
struct Rectangle {
    /// The shape to reshape the value to.
    shape: Vec<Dim>,
    starts: Vec<Dim>,
    steps: Vec<i64>,
    counts: Vec<Dim>,
    /// For each dimension of the window with a nonzero step in memory: the dimension of `shape` that it follows.
    walks: Vec<usize>,
}

/// Returns the part of `value` that `window` shows, in row-major coordinates of the value.
pub fn read(b: &Builder, value: Value, window: &Window, scope: &Scope) -> Value {
    let (element, e) = (value.ty().element(), Emit::new(*b));
    if element.is_complex() {
        let result = Type::tensor_of(&window.sizes, element);
        return if is_whole(value, window, scope) {
            value
        } else {
            by_torch(b, "aten.as_strided_copy.default", &[value], window, result, scope)
        };
    }
    if is_empty(window) {
        return e.full(&window.sizes, element, 0.0);
    }
    let Some(found) = rectangle(&value.ty().dims(), window, scope) else {
        return e.as_strided(value, &window.sizes, &window.strides, window.offset.clone());
    };
    let mut part = e.reshape(value, &found.shape);
    if !found.is_whole() {
        part = e.slice(part, &found.starts, &found.steps, &found.counts);
    }
    if let Some(order) = found.order() {
        let kept: Vec<_> = found.walked().iter().map(|&d| found.counts[d].clone()).collect();
        part = permute(b, e.reshape(part, &kept), &order);
    }
    let moving = moving(window);
    if window.sizes.iter().enumerate().all(|(i, n)| n.is(1) || moving.contains(&i)) {
        return e.reshape(part, &window.sizes);
    }
    let sizes: Vec<_> = moving.iter().map(|&i| window.sizes[i].clone()).collect();
    let dims: Vec<_> = moving.iter().map(|&i| i as i64).collect();
    e.broadcast(e.reshape(part, &sizes), &window.sizes, &dims)
}

/// Returns `value` with the elements of `window` replaced by `source`. The window must not show any element twice.
pub fn write(b: &Builder, value: Value, window: &Window, source: Value, scope: &Scope) -> Value {
    if is_empty(window) {
        return value;
    }
    let e = Emit::new(*b);
    if value.ty().element().is_complex() {
        if is_whole(value, window, scope) {
            return source;
        }
        return by_torch(b, "aten.as_strided_scatter.default", &[value, source], window, value.ty(), scope);
    }
    if let Some(found) = all_elements(value, window, scope) {
        let mut whole = source;
        if let Some(order) = found.order() {
            let sizes: Vec<_> = found.walks.iter().map(|&d| found.counts[d].clone()).collect();
            let mut inverse = vec![0; order.len()];
            for (i, &d) in order.iter().enumerate() {
                inverse[d] = i;
            }
            whole = permute(b, e.reshape(whole, &sizes), &inverse);
        }
        return e.reshape(whole, &value.ty().dims());
    }
    e.as_strided_scatter(value, source, &window.strides, window.offset.clone())
}

/// Returns true if [`write`] replaces the whole value.
pub fn replaces(value: Value, window: &Window, scope: &Scope) -> bool {
    let is_complex = value.ty().element().is_complex();
    !is_empty(window) && if is_complex { is_whole(value, window, scope) } else { all_elements(value, window, scope).is_some() }
}

/// The window as a rectangle, if it shows each element of the value.
fn all_elements(value: Value, window: &Window, scope: &Scope) -> Option<Rectangle> {
    let same = |(a, b): (Dim, Dim)| a == b || a.compare(Relation::Eq, &b, scope).unwrap_or(false);
    window.element_count().ok().zip(value.ty().count()).filter(|counts| same(counts.clone()))?;
    rectangle(&value.ty().dims(), window, scope)
}

/// Returns true if the window equals the whole value, index by index.
fn is_whole(value: Value, window: &Window, scope: &Scope) -> bool {
    Window::row_major_in(&value.ty().dims(), scope).is_ok_and(|whole| canonical(&whole) == canonical(window))
}

/// Calls torch's operator that takes a window after its operands, for element types without primitives. As with a primitive, the result has
/// a history if an operand has one; a result that must not have one goes through `dynamo.detach`.
fn by_torch(b: &Builder, schema: &str, operands: &[Value], window: &Window, result: Type, scope: &Scope) -> Value {
    let ctx = b.ctx();
    let mut args: Vec<_> = (0..operands.len()).map(|i| Attr::operand(ctx, i)).collect();
    let list = |dims: &[Dim]| Attr::array(ctx, &dims.iter().map(|dim| Dim::write(ctx, dim)).collect::<Vec<_>>());
    args.extend([list(&window.sizes), list(&window.strides), Dim::write(ctx, &window.offset)]);
    let dense = |ty: Type| Vec::<Dim>::write(ctx, &row_major_in(&ty.dims(), scope).unwrap_or_default());
    let layouts: Vec<_> = operands.iter().map(|value| dense(value.ty())).collect();
    let layouts = (Some(&layouts[..]), Some(&[dense(result)][..]));
    let call = AtenOp::build(b, schema, operands, &args, None, None, None, None, None, layouts.0, layouts.1, true, &[result]);
    call.op().result(0)
}

/// `dynamo.permute`, unless the dimensions already have this order.
pub fn permute(b: &Builder, value: Value, order: &[usize]) -> Value {
    let dims: Vec<_> = order.iter().map(|&i| i as i64).collect();
    Emit::new(*b).permute(value, &dims)
}

/// The dimensions of the window that step through memory.
fn moving(window: &Window) -> Vec<usize> {
    let stands = |i: usize| window.sizes[i].is(1) || window.strides[i].known().is_some_and(|stride| stride <= 0);
    (0..window.sizes.len()).filter(|&i| !stands(i)).collect()
}

fn rectangle(shape: &[Dim], window: &Window, scope: &Scope) -> Option<Rectangle> {
    // Tries the shape as it is, then with its dimensions split at the window's boundaries, then a shape derived from the window's strides
    // alone.
    if let Some(found) = in_shape(shape, window, scope) {
        return Some(found);
    }
    let (shape, strides) = (numbers(shape)?, moving(window).iter().map(|&i| window.strides[i].known()).collect::<Option<Vec<_>>>()?);
    let both: Vec<_> = strides.iter().copied().chain(row_major(&shape)).collect();
    let total = shape.iter().product();
    in_shape(&cut(total, both)?, window, scope).or_else(|| in_shape(&cut(total, strides)?, window, scope))
}

/// The shape of `total` elements whose row-major strides are these and 1, if it exists.
fn cut(total: i64, mut strides: Vec<i64>) -> Option<Vec<Dim>> {
    strides.push(1);
    strides.sort_unstable_by(|a, b| b.cmp(a));
    strides.dedup();
    let mut around = total;
    let mut shape = Vec::new();
    for stride in strides {
        if around % stride != 0 {
            return None;
        }
        shape.push(around / stride);
        around = stride;
    }
    if shape.len() > 1 {
        shape.retain(|&n| n != 1);
    }
    Some(shape.into_iter().map(Dim::from).collect())
}

fn in_shape(shape: &[Dim], window: &Window, scope: &Scope) -> Option<Rectangle> {
    let unit = row_major_in(shape, scope).ok()?;
    let mut found = Rectangle {
        shape: shape.to_vec(),
        starts: Vec::new(),
        steps: vec![1; shape.len()],
        counts: vec![Dim::from(1); shape.len()],
        walks: Vec::new(),
    };
    let mut rest = window.offset.clone();
    for stride in &unit {
        found.starts.push(rest.floordiv(stride).ok()?.simplify(scope).ok()?);
        rest = rest.modulo(stride).ok()?.simplify(scope).ok()?;
    }
    for i in moving(window) {
        let (n, stride) = (&window.sizes[i], &window.strides[i]);
        // If divisibility depends on symbols, it is taken as not divisible.
        let step = |d: usize| stride.modulo(&unit[d]).ok().filter(|rest| rest.is(0)).and_then(|_| stride.floordiv(&unit[d]).ok());
        let d = (0..shape.len()).find(|&d| !shape[d].is(1) && !shape[d].is(0) && step(d).is_some())?;
        let step = step(d)?.known()?;
        let end = n.sub(&Dim::from(1)).ok()?.mul(&Dim::from(step)).ok()?.add(&found.starts[d]).ok()?;
        if found.walks.contains(&d) || !end.compare(Relation::Lt, &shape[d], scope).unwrap_or(false) {
            return None;
        }
        (found.steps[d], found.counts[d]) = (step, n.clone());
        found.walks.push(d);
    }
    Some(found)
}

impl Rectangle {
    fn is_whole(&self) -> bool {
        self.shape == self.counts
    }
    /// The dimensions of `shape` that the window follows, in their own order.
    fn walked(&self) -> Vec<usize> {
        let mut walked = self.walks.clone();
        walked.sort_unstable();
        walked
    }
    /// The permutation from the order of `shape` to the window's order, if they differ.
    fn order(&self) -> Option<Vec<usize>> {
        if self.walks.is_sorted() {
            return None;
        }
        let walked = self.walked();
        Some(self.walks.iter().filter_map(|d| walked.binary_search(d).ok()).collect())
    }
}
