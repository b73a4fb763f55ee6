//! Resampling of images: nearest and linear. The source of each sample is known at compile time.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, Lowering, promote::wide};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._upsample_nearest_exact1d.default", nearest),
    ("aten._upsample_nearest_exact2d.default", nearest),
    ("aten._upsample_nearest_exact3d.default", nearest),
    ("aten.upsample_bilinear2d.default", linear),
    ("aten.upsample_linear1d.default", linear),
    ("aten.upsample_nearest1d.default", nearest),
    ("aten.upsample_nearest2d.default", nearest),
    ("aten.upsample_nearest3d.default", nearest),
    ("aten.upsample_trilinear3d.default", linear),
];

/// The sizes of input and output along a spatial dimension, and the scale if one was passed.
struct Axis {
    /// The dimension of the tensor.
    dim: usize,
    from: i64,
    to: i64,
    scale: Option<f64>,
}

/// Returns the spatial dimensions; their scales are the arguments from `scales` on.
fn axes(c: &Call, scales: usize) -> Option<(Value, Vec<Axis>)> {
    let x = c.tensor(0)?;
    let (sizes, shape) = (x.ty().shape(), c.result_shape(0));
    if sizes.len() != shape.len() || shape.len() < 3 || sizes.contains(&0) || shape.contains(&0) {
        return None;
    }
    let axis = |dim: usize| Axis { dim, from: sizes[dim], to: shape[dim], scale: c.float(scales + dim - 2).filter(|&s| s > 0.0) };
    Some((x, (2..shape.len()).map(axis).collect()))
}

/// Reads at the index along each dimension of the result, with the indices of the spatial dimensions replaced by `at`.
fn read(c: &Call, x: Value, axes: &[Axis], at: &[Value]) -> Value {
    let shape = c.result_shape(0);
    let spread = |index: Value, dim: usize| c.e.broadcast(index, &shape, &[dim as i64]);
    let mut indices: Vec<Value> = (0..shape.len()).map(|dim| c.e.iota(&shape, dim)).collect();
    for (axis, &index) in axes.iter().zip(at) {
        indices[axis.dim] = spread(index, axis.dim);
    }
    c.e.gather(x, &indices)
}

/// Eager computes the source of output element `i` in single precision, in one of several ways depending on layout and type. If these
/// differ, the call is left to eager.
fn nearest(c: &Call) -> Option<Vec<Value>> {
    let (x, axes) = axes(c, 2)?;
    let half = if c.schema().contains("exact") { 0.5 } else { 0.0 };
    let at = axes.iter().map(|axis| nearest_index(c, axis, half)).collect::<Option<Vec<_>>>()?;
    Some(vec![read(c, x, &axes, &at)])
}

fn nearest_index(c: &Call, axis: &Axis, half: f64) -> Option<Value> {
    let &Axis { from, to, scale, .. } = axis;
    let wide = scale.map_or(from as f64 / to as f64, |s| 1.0 / s);
    #[expect(clippy::cast_possible_truncation, reason = "eager's scale is a float")]
    let single = if scale.is_some() { wide as f32 } else { from as f32 / to as f32 };
    let exact = |i: i64| ((i as f64 + half) * wide).floor() as i64;
    let rounded = |i: i64| ((i as f32 + half as f32) * single).floor() as i64;
    let source: Vec<i64> = (0..to).map(|i| rounded(i).min(from - 1)).collect();
    let agrees = |f: &dyn Fn(i64) -> i64| (0..to).zip(&source).all(|(i, &at)| f(i).min(from - 1) == at);
    // Eager ignores a passed scale if the output's size is the input's or twice it; the scale may give another source.
    let shortcut = half > 0.0 || to != from && to != 2 * from || agrees(&|i| i * from / to);
    if !agrees(&exact) || !shortcut {
        return None;
    }
    let i = c.e.iota(&[to], 0);
    let number = |v: i64| c.e.full(&[to], Type::int(c.e.ctx(), 64), v);
    // The same in integer arithmetic: to a multiple, from a multiple, any ratio.
    let twice = |i: i64| (2 * i + i64::from(half > 0.0)) * from / (2 * to);
    if source.iter().zip(0..).all(|(&at, i)| at == i) {
        return Some(i);
    }
    if to % from == 0 && agrees(&|i| i / (to / from)) {
        return Some(c.e.div(i, number(to / from)));
    }
    if from % to == 0 && agrees(&|i| i * (from / to)) {
        return Some(c.e.mul(i, number(from / to)));
    }
    if agrees(&twice) {
        let doubled = c.e.add(c.e.mul(i, number(2)), number(i64::from(half > 0.0)));
        return Some(c.e.min(c.e.div(c.e.mul(doubled, number(from)), number(2 * to)), number(from - 1)));
    }
    let f = c.e.convert(i, Type::f32(c.e.ctx()));
    let scaled = c.e.mul(c.e.add(f, c.e.full_like(f, half)), c.e.full_like(f, f64::from(single)));
    let index = c.e.convert(c.e.floor(scaled), Type::int(c.e.ctx(), 64));
    Some(c.e.min(index, number(from - 1)))
}

/// Each sample is the average of its two neighbours along each dimension, weighted by distance.
fn linear(c: &Call) -> Option<Vec<Value>> {
    let (x, axes) = axes(c, 3)?;
    let (aligned, element) = (c.bool(2)?, x.ty().element());
    // For 16-bit volumes eager rounds intermediate results.
    if !element.is_float() || (element.width() == 16 && axes.len() > 2) {
        return None;
    }
    let compute = wide(element);
    let taps: Vec<[(Value, Value); 2]> = axes.iter().map(|axis| taps(c, axis, aligned, compute)).collect();
    let mut at = Vec::new();
    let sum = interpolate(c, x, &axes, &taps, &mut at);
    Some(vec![c.e.convert(sum, element)])
}

/// Returns index and weight of the neighbours before and after.
fn taps(c: &Call, axis: &Axis, aligned: bool, compute: Type) -> [(Value, Value); 2] {
    let &Axis { from, to, scale, .. } = axis;
    let index = Type::int(c.e.ctx(), 64);
    let count = c.e.iota(&[to], 0);
    let f = c.e.convert(count, compute);
    let number = |v: f64| c.e.full_like(f, v);
    let last = c.e.full_like(count, from - 1);
    // A dimension whose size does not change is copied, regardless of the passed scale: 3 · 1.3 rounds down to 3.
    if from == to {
        return [(count, number(1.0)), (count, number(0.0))];
    }
    let ratio = match scale {
        _ if aligned => (from - 1) as f64 / (to - 1).max(1) as f64,
        Some(scale) => 1.0 / scale,
        None => from as f64 / to as f64,
    };
    let ratio = if aligned && to == 1 { 0.0 } else { ratio };
    let source = if aligned {
        c.e.mul(f, number(ratio))
    } else {
        let centre = c.e.sub(c.e.mul(c.e.add(f, number(0.5)), number(ratio)), number(0.5));
        c.e.max(centre, number(0.0))
    };
    let before = c.e.min(c.e.convert(c.e.floor(source), index), last);
    let behind = c.e.min(c.e.add(before, c.e.full_like(count, 1i64)), last);
    let distance = c.e.sub(source, c.e.convert(before, compute));
    let share = c.e.min(c.e.max(distance, number(0.0)), number(1.0));
    [(before, c.e.sub(number(1.0), share)), (behind, share)]
}

/// Returns the weighted sum over the dimensions for which `at` does not have an index yet.
fn interpolate(c: &Call, x: Value, axes: &[Axis], taps: &[[(Value, Value); 2]], at: &mut Vec<Value>) -> Value {
    let Some(pair) = taps.get(at.len()) else {
        return c.e.convert(read(c, x, axes, at), wide(x.ty().element()));
    };
    let dim = axes[at.len()].dim as i64;
    let [before, behind] = pair.map(|(index, weight)| {
        at.push(index);
        let value = interpolate(c, x, axes, taps, at);
        at.pop();
        c.e.mul(value, c.e.broadcast(weight, &c.result_shape(0), &[dim]))
    });
    c.e.add(before, behind)
}
