//! Histograms: the number of elements in each of several bins of equal width.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, Lowering};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[("aten.histc.default", histc)];

/// The maximum number of elements that single precision counts exactly.
const MOST_ELEMENTS: i64 = 1 << 24;

/// Without bounds, the elements' minimum and maximum are used; eager raises if these are not finite. Elements outside fall into an extra
/// bin, which is dropped.
fn histc(c: &Call) -> Option<Vec<Value>> {
    let (x, e, ty) = (c.tensor(0)?, c.e, c.result_type(0));
    let (bins, low, high) = (c.int(1)?, c.float(2)?, c.float(3)?);
    let (count, element) = (x.ty().numel(), x.ty().element());
    let bounds = low.is_finite() && high.is_finite() && low <= high;
    if !element.is_float() || element.width() == 16 || element != ty.element() || bins <= 0 || !bounds || count > MOST_ELEMENTS {
        return None;
    }
    if count == 0 {
        return Some(vec![e.full(&[bins], element, 0.0)]);
    }
    let x = e.reshape(x, &[count]);
    let constant = |v: f64| e.scalar(element, v);
    let (low, high) = if low == high { extremes(c, x) } else { (constant(low), constant(high)) };
    // Equal bounds are moved apart.
    let equal = e.eq(low, high);
    let low = e.select(equal, e.sub(low, constant(1.0)), low);
    let high = e.select(equal, e.add(high, constant(1.0)), high);
    let each = |v: Value| e.broadcast(v, &[count], &[]);
    let (low, high) = (each(low), each(high));
    let scaled = e.mul(e.sub(x, low), e.full_like(x, bins as f64));
    // The last bin includes its upper bound.
    let place = e.min(e.div(scaled, e.sub(high, low)), e.full_like(x, (bins - 1) as f64));
    let inside = e.and(e.ge(x, low), e.le(x, high));
    let index = Type::int(e.ctx(), 64);
    let place = e.convert(e.select(inside, place, e.full_like(place, 0.0)), index);
    let place = e.select(inside, place, e.full_like(place, bins));
    let counts = e.scatter(e.full(&[bins + 1], element, 0.0), &[-1], &[place], e.full_like(x, 1.0), Some("sum"));
    Some(vec![e.slice(counts, &[0], &[1], &[bins])])
}

fn extremes(c: &Call, x: Value) -> (Value, Value) {
    let e = &c.e;
    let bound = |kind: &str| {
        let value = e.reduce(kind, x, &[0], false);
        let finite = e.convert(e.lt(e.abs(value), e.full_like(value, f64::INFINITY)), Type::int(e.ctx(), 64));
        let finite = e.check_range(finite, 1, 2, "aten.histc.default: a bound is not finite");
        // The checked value must be used, since a check only guards its users.
        let zero = e.convert(e.sub(finite, e.full_like(finite, 1i64)), value.ty().element());
        e.add(value, zero)
    };
    (bound("min"), bound("max"))
}
