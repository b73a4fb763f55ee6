//! Arithmetic on dimensions, ranges and constants that several lowerings share.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Op, Type},
    ops,
};
pub(super) use dynamlir_shapes::row_major;
use dynamlir_shapes::{Dim, Window, row_major_in};

use super::call::{Call, wrap};
use crate::emit::Scalar;

/// Returns `dims` counted from the front.
pub(super) fn wrap_all(dims: &[i64], rank: usize) -> Option<Vec<i64>> {
    dims.iter().map(|&dim| wrap(dim, rank)).collect()
}

/// Returns true if this operand of the op is row-major in eager. Without recorded layouts all values are.
pub(super) fn is_row_major(call: &Call, operand: usize) -> bool {
    let Some(layouts) = call.op.attr("operand_strides").and_then(Attr::as_array) else { return true };
    let Some(seen) = layouts.get(operand).and_then(|strides| Vec::<Dim>::read(*strides)) else { return false };
    let shape = call.op.operand(operand).ty().dims();
    let dense = row_major_in(&shape, &call.scope).unwrap_or_default();
    let same = |((size, dense), seen): ((&Dim, &Dim), &Dim)| size.known().is_some_and(|size| size <= 1) || dense == seen;
    shape.len() == dense.len() && shape.iter().zip(&dense).zip(&seen).all(same)
}

/// Returns start, step and length of Python's `start:end:step` on a dimension: negative ends count from the back, and ends are clamped.
/// Returns None if the values of symbols decide whether an end is negative.
pub(super) fn span(call: &Call, (start, end): (Option<Dim>, Option<Dim>), step: i64, size: &Dim) -> Option<(Dim, i64, Dim)> {
    let part = Window { sizes: vec![size.clone()], strides: vec![Dim::from(1)], offset: Dim::from(0) };
    let part = part.slice_in(0, start.as_ref(), end.as_ref(), step, &call.scope).ok()?;
    Some((part.offset, step, part.sizes.into_iter().next()?))
}

/// Returns the storage offset of an argument of the function around `op`.
pub(super) fn arg_offset(op: Op, index: usize) -> Option<Dim> {
    Some(op.parent().and_then(|function| ops::OFFSET.dim().of_arg(function, index)).unwrap_or(Dim::from(0)))
}

/// Returns true if eager would write this constant into a tensor of that type. Eager rejects a number that overflows; such a call stays an
/// extern call, so that torch raises its own error.
pub(super) fn fits(element: Type, value: Scalar) -> bool {
    if element.is_bool() {
        return true;
    }
    let number = match value {
        Scalar::Bool(_) => return true,
        Scalar::Int(value) => value as f64,
        Scalar::Float(value) => value,
    };
    if element.is_int() {
        let bits = element.width() as i32;
        // The bounds are powers of 2, which a double represents exactly. Eager lets a negative number wrap in an unsigned type.
        let (low, high) =
            if element.is_unsigned() { (-(2f64.powi(bits) - 1.0), 2f64.powi(bits)) } else { (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)) };
        return matches!(value, Scalar::Int(v) if bits == 64 || ((v as f64) >= low && (v as f64) < high))
            || (number.fract() == 0.0 && number >= low && number < high);
    }
    let largest = match (element.width(), element.is_bf16()) {
        (64, _) => f64::MAX,
        (32, _) => f64::from(f32::MAX),
        (_, true) => 3.389_531_389_251_535_5e38,
        _ => 65504.0,
    };
    !number.is_finite() || number.abs() <= largest
}
