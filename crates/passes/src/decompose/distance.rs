//! Operations on all pairs of rows of two tensors: distances, and membership in a set.

use dynamlir_dialect::ir::Value;

use super::{Call, Lowering, promote::broadcasts};

/// Lowerings by schema.
pub const TABLE: &[(&str, Lowering)] = &[("aten._cdist_forward.default", cdist), ("aten.isin.Tensor_Tensor", is_in)];

/// With more rows than this, eager computes Euclidean distances by a matrix product, unless that is forbidden.
const FEW_ROWS: i64 = 25;

/// The maximum size of a set that is searched linearly; larger ones are worth sorting.
const FEW_ELEMENTS: i64 = 64;

/// The p-norm of the difference of each pair of rows.
fn cdist(c: &Call) -> Option<Vec<Value>> {
    let (a, b, p) = (c.tensor(0)?, c.tensor(1)?, c.float(2)?);
    let (e, result) = (&c.e, c.result_shape(0));
    let element = c.result_type(0).element();
    let &[ref batch @ .., rows, columns] = result.as_slice() else { return None };
    let width = *a.ty().shape().last()?;
    if element.width() == 16 || a.ty().element() != element || b.ty().element() != element || p.is_nan() {
        return None;
    }
    if p == 2.0 && c.int(3) != Some(2) && rows.max(columns) > FEW_ROWS {
        return None;
    }
    if width == 0 || result.contains(&0) {
        return Some(vec![e.full(&result, element, 0.0)]);
    }
    let pairs = [batch, &[rows, columns, width]].concat();
    let side = |x: Value, dim: i64| {
        let wide = e.unsqueeze(x, &[x.ty().rank() as i64 + dim]);
        broadcasts(&wide.ty().shape(), &pairs).then(|| e.broadcast_to(wide, &pairs))
    };
    let distance = e.abs(e.sub(side(a, -1)?, side(b, -2)?));
    let last = &[pairs.len() as i64 - 1];
    let value = if p == 0.0 {
        let differs = e.convert(e.ne(distance, e.full_like(distance, 0.0)), element);
        e.sum(differs, last, false)
    } else if p == 1.0 {
        e.sum(distance, last, false)
    } else if p == 2.0 {
        e.sqrt(e.sum(e.mul(distance, distance), last, false))
    } else if p == f64::INFINITY {
        e.reduce("max", distance, last, false)
    } else {
        let sum = e.sum(e.pow(distance, e.full_like(distance, p)), last, false);
        e.pow(sum, e.full_like(sum, 1.0 / p))
    };
    Some(vec![value])
}

/// Returns for each element whether it belongs to a small set.
fn is_in(c: &Call) -> Option<Vec<Value>> {
    let (x, set) = (c.tensor(0)?, c.tensor(1)?);
    let (e, shape, count) = (&c.e, x.ty().shape(), set.ty().numel());
    let alike = x.ty().element() == set.ty().element();
    if !alike || !(1..=FEW_ELEMENTS).contains(&count) || c.result_shape(0) != shape {
        return None;
    }
    let pairs = [shape.as_slice(), &[count]].concat();
    let elements = e.broadcast_to(e.unsqueeze(x, &[shape.len() as i64]), &pairs);
    let set = e.broadcast_to(e.reshape(set, &[count]), &pairs);
    let found = e.reduce("or", e.eq(elements, set), &[shape.len() as i64], false);
    Some(vec![if c.bool(3)? { e.not(found) } else { found }])
}
