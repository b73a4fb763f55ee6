//! Normalizations: layer, group, batch and root mean square.
//!
//! All compute in `f32` or wider, take the variance in a second pass over the differences from the mean, and convert only at the end. The
//! returned statistics have the types of the op's results.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::{Dim, Dimension, Relation, product};

use super::{Call, Lowering, promote::wide};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten._batch_norm_no_update.default", batch_norm_no_update),
    ("aten._batch_norm_with_update_functional.default", batch_norm_with_update),
    ("aten._fused_rms_norm.default", rms_norm),
    ("aten._native_batch_norm_legit.default", batch_norm),
    ("aten._native_batch_norm_legit.no_stats", batch_norm_no_stats),
    ("aten._native_batch_norm_legit_functional.default", batch_norm),
    ("aten._native_batch_norm_legit_no_training.default", batch_norm_inference),
    ("aten.cudnn_batch_norm.default", batch_norm_of_library),
    ("aten.native_batch_norm.default", batch_norm),
    ("aten.native_group_norm.default", group_norm),
    ("aten.native_layer_norm.default", layer_norm),
    ("aten.rms_norm.default", rms_norm),
];

/// Returns the mean, the differences from it, and the biased variance along `dims`; reduced dimensions keep size 1.
///
/// A mean computed from a sum has a rounding error, which is the mean of the differences from it and is added to correct it. So equal
/// numbers differ from their mean by exactly 0, as in eager, which computes running means.
fn moments(c: &Call, x: Value, dims: &[i64]) -> (Value, Value, Value) {
    let (e, shape) = (c.e, x.ty().dims());
    let first = e.mean(x, dims, true);
    let centered = e.sub(x, e.broadcast_to(first, &shape));
    let lost = e.mean(centered, dims, true);
    let squares = e.mean(e.mul(centered, centered), dims, true);
    let variance = e.sub(squares, e.mul(lost, lost));
    // Infinite elements make the correction NaN; it is skipped then.
    let mean = e.add(first, e.select(e.ne(lost, lost), e.full_like(lost, 0.0), lost));
    (mean, e.sub(x, e.broadcast_to(mean, &shape)), e.max(variance, e.full_like(variance, 0.0)))
}

/// `1 / sqrt(x + eps)`.
fn inverse_root(c: &Call, x: Value, eps: f64) -> Value {
    c.e.rsqrt(c.e.add(x, c.e.full_like(x, eps)))
}

/// Converts to the result's element type and shape.
fn finish(c: &Call, x: Value, result: usize) -> Value {
    let ty = c.result_type(result);
    c.e.reshape(c.e.convert(x, ty.element()), &ty.dims())
}

/// The optional parameter `i` in the compute type, broadcast to `shape` along `dims`.
fn parameter(c: &Call, i: usize, element: Type, shape: &[Dim], dims: &[i64]) -> Option<Value> {
    let wide = c.e.convert(c.tensor(i)?, element);
    Some(c.e.broadcast(wide, shape, dims))
}

/// `x * weight + bias`, each if present. Arguments `weight` and `bias` extend along `dims`.
fn affine(c: &Call, x: Value, (weight, bias): (usize, usize), dims: &[i64]) -> Value {
    let (shape, element) = (x.ty().dims(), x.ty().element());
    let scaled = parameter(c, weight, element, &shape, dims).map_or(x, |w| c.e.mul(x, w));
    parameter(c, bias, element, &shape, dims).map_or(scaled, |b| c.e.add(scaled, b))
}

/// Returns the last `count` dimensions of a tensor.
fn trailing(rank: usize, count: usize) -> Option<Vec<i64>> {
    Some((rank.checked_sub(count)? as i64..rank as i64).collect())
}

/// Returns true if there may be rows without elements. Eager leaves their means unspecified.
fn rows_of_nothing(c: &Call, shape: &[Dim], dims: &[i64]) -> bool {
    dims.iter().any(|&d| !c.surely(&shape[d as usize], Relation::Gt, 0))
        && (0..shape.len()).all(|d| dims.contains(&(d as i64)) || !shape[d].is(0))
}

fn layer_norm(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dims = trailing(x.ty().rank(), c.sizes(1)?.len())?;
    if rows_of_nothing(c, &x.ty().dims(), &dims) {
        return None;
    }
    let x = c.e.convert(x, wide(x.ty().element()));
    let (mean, centered, variance) = moments(c, x, &dims);
    let scale = inverse_root(c, variance, c.float(4)?);
    let normal = c.e.mul(centered, c.e.broadcast_to(scale, &x.ty().dims()));
    let out = affine(c, normal, (2, 3), &dims);
    Some(vec![finish(c, out, 0), finish(c, mean, 1), finish(c, scale, 2)])
}

/// Takes statistics over all elements of a group of channels; weight and bias are per channel.
fn group_norm(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let (n, channels, area, groups) = (c.size(3)?, c.int(4)?, c.size(5)?, c.int(6)?);
    let grouped = [n.clone(), groups.into(), area.mul(&Dim::from(channels / groups.max(1))).ok()?];
    if rows_of_nothing(c, &grouped, &[2]) {
        return None;
    }
    let x = c.e.reshape(c.e.convert(x, wide(x.ty().element())), &grouped);
    let (mean, centered, variance) = moments(c, x, &[2]);
    let scale = inverse_root(c, variance, c.float(7)?);
    let normal = c.e.mul(centered, c.e.broadcast_to(scale, &grouped));
    let out = affine(c, c.e.reshape(normal, &[n, channels.into(), area]), (1, 2), &[1]);
    Some(vec![finish(c, out, 0), finish(c, mean, 1), finish(c, scale, 2)])
}

/// `x / sqrt(mean(x²) + eps)`, multiplied by the weight before rounding.
fn rms_norm(c: &Call) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let dims = trailing(x.ty().rank(), c.sizes(1)?.len())?;
    let x = c.e.convert(x, wide(x.ty().element()));
    let epsilon = if x.ty().element().width() == 64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let squares = c.e.mean(c.e.mul(x, x), &dims, true);
    let scale = inverse_root(c, squares, if c.is_none(3) { epsilon } else { c.float(3)? });
    let normal = c.e.mul(x, c.e.broadcast_to(scale, &x.ty().dims()));
    let out = parameter(c, 2, x.ty().element(), &x.ty().dims(), &dims).map_or(normal, |w| c.e.mul(normal, w));
    // The public op returns only the first.
    let all = [out, scale].into_iter().take(c.op.num_results());
    Some(all.enumerate().map(|(i, value)| finish(c, value, i)).collect())
}

/// The positions of a batch norm's arguments.
struct BatchNorm {
    training: bool,
    /// The arguments of the running mean and variance.
    running: Option<(usize, usize)>,
    /// The arguments of momentum and epsilon.
    momentum: usize,
    eps: usize,
}

fn batch_norm(c: &Call) -> Option<Vec<Value>> {
    normalize_batch(c, &BatchNorm { training: c.bool(5)?, running: Some((3, 4)), momentum: 6, eps: 7 })
}

fn batch_norm_no_stats(c: &Call) -> Option<Vec<Value>> {
    normalize_batch(c, &BatchNorm { training: c.bool(3)?, running: None, momentum: 4, eps: 5 })
}

fn batch_norm_inference(c: &Call) -> Option<Vec<Value>> {
    normalize_batch(c, &BatchNorm { training: false, running: Some((3, 4)), momentum: 5, eps: 6 })
}

/// The operator that eager calls on a GPU. Training is left to eager: it saves more than the op's results show.
fn batch_norm_of_library(c: &Call) -> Option<Vec<Value>> {
    let norm = BatchNorm { training: false, running: Some((3, 4)), momentum: 6, eps: 7 };
    (!c.bool(5)?).then(|| normalize_batch(c, &norm)).flatten()
}

fn batch_norm_with_update(c: &Call) -> Option<Vec<Value>> {
    normalize_batch(c, &BatchNorm { training: true, running: Some((3, 4)), momentum: 5, eps: 6 })
}

fn batch_norm_no_update(c: &Call) -> Option<Vec<Value>> {
    let running = (!c.is_none(3) && !c.is_none(4)).then_some((3, 4));
    normalize_batch(c, &BatchNorm { training: running.is_none(), running, momentum: 5, eps: 6 })
}

/// Normalizes by channel, which is dimension 1. As in eager, the statistics and the parameters are combined to one factor and one term per
/// channel, so that the large tensor takes one multiplication and one addition.
///
/// The results are the output, the saved mean and inverse root (empty in inference), for some ops an empty reserve, and for the functional
/// forms the new running statistics. An op that would *write* its running statistics has been functionalized before; an op in training mode
/// that does not return them is declined.
fn normalize_batch(c: &Call, norm: &BatchNorm) -> Option<Vec<Value>> {
    let x = c.tensor(0)?;
    let shape = x.ty().dims();
    let rest: Vec<Dim> = shape.iter().enumerate().filter(|&(d, _)| d != 1).map(|(_, size)| size.clone()).collect();
    let count = product(&rest).ok().filter(|_| rest.len() < shape.len())?;
    let results = c.op.num_results();
    let has_reserve = ["aten._batch_norm_", "aten.cudnn_batch_norm."].iter().any(|schema| c.schema().starts_with(schema));
    let returns_running = results == if has_reserve { 6 } else { 5 };
    let running = match norm.running {
        Some((mean, var)) if !c.is_none(mean) && !c.is_none(var) => Some((c.tensor(mean)?, c.tensor(var)?)),
        _ => None,
    };
    if (norm.training && running.is_some() && !returns_running) || (!norm.training && running.is_none()) || x.ty().shape().contains(&0) {
        return None;
    }
    let x = c.e.convert(x, wide(x.ty().element()));
    let element = x.ty().element();
    let eps = c.float(norm.eps)?;
    let mut out_running = running;
    let (mean, scale) = if norm.training {
        let dims: Vec<i64> = (0..shape.len() as i64).filter(|&d| d != 1).collect();
        let (mean, _, variance) = moments(c, x, &dims);
        let [mean, variance] = [mean, variance].map(|v| c.e.reshape(v, &[shape[1].clone()]));
        if let Some((old_mean, old_var)) = running {
            // The running variance is unbiased; for a single element it is 0 / 0, as in eager.
            let squares = c.e.mul(variance, c.e.size_like(variance, &count));
            let unbiased = c.e.div(squares, c.e.size_like(squares, &count.sub(&Dim::from(1)).ok()?));
            let momentum = c.float(norm.momentum)?;
            out_running = Some((blend(c, old_mean, mean, momentum), blend(c, old_var, unbiased, momentum)));
        }
        // Eager normalizes with the saved statistics, after rounding them.
        let saved = |v: Value, result: usize| c.e.convert(c.e.convert(v, c.result_type(result).element()), element);
        (saved(mean, 1), saved(inverse_root(c, variance, eps), 2))
    } else {
        let (mean, var) = running?;
        (c.e.convert(mean, element), inverse_root(c, c.e.convert(var, element), eps))
    };
    let factor = c.tensor(1).map_or(scale, |w| c.e.mul(scale, c.e.convert(w, element)));
    let shift = c.e.mul(mean, factor);
    let term = c.tensor(2).map_or_else(|| c.e.neg(shift), |b| c.e.sub(c.e.convert(b, element), shift));
    let wide = |v: Value| c.e.broadcast(v, &shape, &[1]);
    let out = c.e.add(c.e.mul(x, wide(factor)), wide(term));

    let mut values = vec![finish(c, out, 0)];
    for (i, saved) in [(1, mean), (2, scale)] {
        // Inference saves empty vectors. An unused result may be any value of its type.
        let ty = c.result_type(i);
        let matches = ty.count() == saved.ty().count() && norm.training;
        if !matches && !ty.shape().contains(&0) && c.op.result(i).has_uses() {
            return None;
        }
        values.push(if matches { finish(c, saved, i) } else { c.e.full(&ty.dims(), ty.element(), 0i64) });
    }
    if has_reserve {
        let ty = c.result_type(3);
        values.push(c.e.full(&ty.dims(), ty.element(), 0i64));
    }
    if returns_running {
        let (mean, var) = out_running?;
        values.extend([mean, var]);
    }
    (values.len() == results).then_some(values)
}

/// `(1 - momentum) * old + momentum * new`, in the type of `old`.
fn blend(c: &Call, old: Value, new: Value, momentum: f64) -> Value {
    let (element, stored) = (new.ty().element(), old.ty().element());
    let kept = c.e.mul(c.e.convert(old, element), c.e.full_like(new, 1.0 - momentum));
    c.e.convert(c.e.add(c.e.mul(new, c.e.full_like(new, momentum)), kept), stored)
}
