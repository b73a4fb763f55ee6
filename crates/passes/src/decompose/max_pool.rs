//! Max pooling, including the places of the maxima if they are used.
//!
//! If only the maxima of float32 images are used, there is a primitive. Otherwise each tap of the windows is a strided slice of the padded
//! image, and a running maximum over them is one pointwise kernel. As in eager, a tap is taken if it is greater or NaN: so the first of
//! equal ones and the last of several NaNs.

use dynamlir_dialect::ir::{Attr, Type, Value};

use super::{
    Call, Lowering,
    adaptive_pool::Adaptive,
    window::{Axis, Windows},
};
use crate::emit::Scalar;

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.max_pool2d_with_indices.default", |c| max_pool(c, 2)),
    ("aten.max_pool3d_with_indices.default", |c| max_pool(c, 3)),
    ("aten.adaptive_max_pool2d.default", |c| adaptive(c, 2)),
    ("aten.adaptive_max_pool3d.default", |c| adaptive(c, 3)),
];

/// Returns a bound that is at most every number of the type.
pub(super) fn least(element: Type) -> Scalar {
    match (element.is_float(), element.is_unsigned()) {
        (true, _) => Scalar::Float(f64::NEG_INFINITY),
        (_, true) => Scalar::Int(0),
        _ => Scalar::Int(i64::MIN >> (64 - element.width())),
    }
}

fn max_pool(c: &Call, rank: usize) -> Option<Vec<Value>> {
    let x = c.tensor(0).filter(|x| !x.ty().element().is_bool())?;
    let windows = Windows::read(c, rank, Some(4))?;
    let taps = windows.taps();
    let indexed = c.op.result(1).has_uses();
    if let Some(largest) = (!indexed).then(|| in_windows(c, x, &windows)).flatten() {
        return Some(vec![largest, places_of_nothing(c)]);
    }
    let padded = windows.padded(c, x, least(x.ty().element()));
    if !indexed {
        return largest(c, taps.iter().map(|tap| windows.tap(c, padded, tap)));
    }
    let axes = |place: fn(&Windows, &Call, usize) -> Value| (0..rank).map(|i| place(&windows, c, i)).collect::<Vec<_>>();
    let first = windows.flat(c, &axes(Windows::first_inside))?;
    let start = windows.flat(c, &axes(Windows::starts))?;
    let candidate = |tap: &Vec<i64>| {
        let distance = tap.iter().zip(&windows.axes).fold(0, |sum, (k, axis)| sum * axis.size + k * axis.dilation);
        (windows.tap(c, padded, tap), c.e.add(start, c.e.full_like(start, distance)))
    };
    let candidates: Vec<_> = taps.iter().map(candidate).collect();
    Some(first_largest(c, first, &candidates))
}

fn adaptive(c: &Call, rank: usize) -> Option<Vec<Value>> {
    let x = c.tensor(0).filter(|x| !x.ty().element().is_bool())?;
    let indexed = c.op.result(1).has_uses();
    let (first, candidates) = Adaptive::new(c, x, rank)?.candidates(indexed)?;
    if !indexed {
        return largest(c, candidates.into_iter().map(|(value, _)| value));
    }
    Some(first_largest(c, first, &candidates))
}

/// Returns the maximum alone; the places are unused.
fn largest(c: &Call, values: impl Iterator<Item = Value>) -> Option<Vec<Value>> {
    let value = values.reduce(|a, b| c.e.max(a, b))?;
    Some(vec![value, places_of_nothing(c)])
}

fn places_of_nothing(c: &Call) -> Value {
    c.e.full(&c.result_shape(1), c.result_type(1).element(), 0i64)
}

/// Emits the max pooling primitive if it applies. It needs neither a padded copy of the image nor slices.
fn in_windows(c: &Call, x: Value, windows: &Windows) -> Option<Value> {
    let (ty, result) = (x.ty(), c.result_type(0));
    let [height, width] = windows.axes[..] else { return None };
    // With `ceil_mode` there may be more windows than the primitive produces.
    let reach = |axis: Axis| axis.size + 2 * axis.padding - axis.dilation * (axis.kernel - 1) - 1;
    let counted = [height, width].into_iter().all(|axis| reach(axis) >= 0 && reach(axis) / axis.stride + 1 == axis.count);
    let single = ty.element().is_float() && ty.element().width() == 32 && ty.rank() == 4;
    (counted && single && in_order(c)).then_some(())?;
    let pair = |of: fn(Axis) -> i64| [of(height), of(width)];
    let sizes = [pair(|axis| axis.kernel), pair(|axis| axis.stride), pair(|axis| axis.padding), pair(|axis| axis.dilation)];
    Some(c.e.max_pool(x, sizes, result))
}

/// Takes the running maximum over values and their places. It starts with the type's smallest number at the place `first`.
fn first_largest(c: &Call, first: Value, candidates: &[(Value, Value)]) -> Vec<Value> {
    let element = c.result_type(0).element();
    let start = (c.e.full(&c.result_shape(0), element, least(element)), first);
    let (value, place) = candidates.iter().fold(start, |(largest, place), &(value, at)| {
        let greater = c.e.gt(value, largest);
        let taken = if element.is_float() { c.e.or(greater, c.e.ne(value, value)) } else { greater };
        (c.e.select(taken, value, largest), c.e.select(taken, at, place))
    });
    vec![value, place]
}

/// Returns true if the result and the images are in row-major order in eager.
fn in_order(c: &Call) -> bool {
    let strides = |name: &str| c.op.attr(name).and_then(Attr::as_array)?.first()?.as_i64s();
    let row_major = |ty: Type, given: Option<Vec<i64>>| {
        given.is_none_or(|given| ty.shape().iter().zip(ty.strides().iter().zip(&given)).all(|(&size, (a, b))| size == 1 || a == b))
    };
    row_major(c.result_type(0), strides("result_strides"))
        && c.tensor(0).is_some_and(|input| row_major(input.ty(), strides("operand_strides")))
}
