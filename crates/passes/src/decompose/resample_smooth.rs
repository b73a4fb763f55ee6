//! Resampling of images with antialiasing when shrinking: each element is the mean of all elements weighted by a hat function around its
//! place. Places and weights are known at compile time, and computed as in eager.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, Lowering};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[("aten._upsample_bilinear2d_aa.default", bilinear)];

/// The maximum number of elements under a hat. Wider hats are left to eager: each element is an operand of the kernel.
const MOST_TAPS: i64 = 16;

/// Resamples the width first, as eager does.
fn bilinear(c: &Call) -> Option<Vec<Value>> {
    let (x, shape) = (c.tensor(0)?, c.result_shape(0));
    let element = x.ty().element();
    if !element.is_float() || element.width() == 16 || x.ty().rank() != 4 || shape.contains(&0) || x.ty().numel() == 0 {
        return None;
    }
    let wide = along(c, x, 3, shape[3])?;
    Some(vec![along(c, wide, 2, shape[2])?])
}

/// Resamples one dimension to `to` elements.
fn along(c: &Call, x: Value, dim: usize, to: i64) -> Option<Value> {
    let (e, from, element) = (c.e, x.ty().shape()[dim], x.ty().element());
    // A dimension whose size does not change is copied, regardless of the passed scale.
    if from == to {
        return Some(x);
    }
    let given = c.float(1 + dim).filter(|&scale| scale > 0.0);
    let scale = match given {
        _ if c.bool(2)? && to > 1 => (from - 1) as f64 / (to - 1) as f64,
        _ if c.bool(2)? => 0.0,
        Some(scale) => 1.0 / scale,
        None => from as f64 / to as f64,
    };
    let reach = scale.max(1.0);
    let taps = (reach.ceil() as i64 * 2 + 1).min(from);
    if taps > MOST_TAPS {
        return None;
    }
    let index = Type::int(e.ctx(), 64);
    let order = e.convert(e.iota(&[to], 0), element);
    let number = |v: f64| e.full_like(order, v);
    let centre = e.mul(number(scale), e.add(order, number(0.5)));
    let edge = |offset: f64| e.convert(e.add(e.add(centre, number(offset)), number(0.5)), index);
    let whole = |v: i64| e.full(&[to], index, v);
    let first = e.max(edge(-reach), whole(0));
    let end = e.min(edge(reach), whole(from));
    let mut shape = x.ty().shape();
    shape[dim] = to;
    let spread = |v: Value| e.broadcast(v, &shape, &[dim as i64]);
    // Returns the place of each tap, whether it counts, and its weight; taps beyond the end have weight 0.
    let tap = |j: i64| {
        let at = e.add(first, whole(j));
        let place = e.add(e.sub(e.convert(at, element), centre), number(0.5));
        let far = e.abs(e.div(place, number(reach)));
        let hat = e.max(e.sub(number(1.0), far), number(0.0));
        let counts = e.lt(at, end);
        (e.min(at, whole(from - 1)), counts, e.select(counts, hat, number(0.0)))
    };
    let taps: Vec<(Value, Value, Value)> = (0..taps).map(tap).collect();
    let total = taps.iter().map(|&(.., weight)| weight).reduce(|a, b| e.add(a, b))?;
    let term = |&(at, counts, weight): &(Value, Value, Value)| {
        let indices: Vec<Value> = (0..shape.len()).map(|d| if d == dim { spread(at) } else { e.iota(&shape, d) }).collect();
        let weighed = e.mul(e.gather(x, &indices), spread(e.div(weight, total)));
        e.select(spread(counts), weighed, e.full_like(weighed, 0.0))
    };
    taps.iter().map(term).reduce(|a, b| e.add(a, b))
}
