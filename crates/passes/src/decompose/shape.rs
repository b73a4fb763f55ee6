//! Arithmetic on dimensions, ranges and constants that several lowerings share.

use dynamlir_dialect::{
    ir::{Attr, Op, Type},
    ops,
};
pub(super) use dynamlir_shapes::row_major;

use super::call::{Call, wrap};
use crate::emit::Scalar;

/// All of `dims` counted from the front.
pub(super) fn wrap_all(dims: &[i64], rank: usize) -> Option<Vec<i64>> {
    dims.iter().map(|&dim| wrap(dim, rank)).collect()
}

/// Whether eager saw this operand of the op row-major. Without recorded layouts the values are as they stand.
pub(super) fn is_row_major(call: &Call, operand: usize) -> bool {
    let Some(layouts) = call.op.attr("operand_strides").and_then(Attr::as_array) else { return true };
    let Some(seen) = layouts.get(operand).and_then(|strides| strides.as_i64s()) else { return false };
    let shape = call.op.operand(operand).ty().shape();
    shape.iter().zip(row_major(&shape)).zip(&seen).all(|((&size, dense), &seen)| size <= 1 || dense == seen)
}

/// Start, step and length of Python's `start:end:step` on a dimension: ends count from the back where negative and
/// are clamped.
pub(super) fn span(start: Option<i64>, end: Option<i64>, step: i64, size: i64) -> Option<(i64, i64, i64)> {
    let clamp = |at: i64| if at < 0 { at.saturating_add(size).max(0) } else { at.min(size) };
    let start = clamp(start.unwrap_or(0));
    let end = clamp(end.unwrap_or(size)).max(start);
    // Written so that the largest step does not overflow.
    let length = if end == start { 0 } else { (end - start - 1) / step.max(1) + 1 };
    (step > 0).then_some((start, step, length))
}

/// The storage offset of an argument of the function around `op`.
pub(super) fn arg_offset(op: Op, index: usize) -> i64 {
    op.parent().and_then(|function| ops::OFFSET.of_arg(function, index)).unwrap_or(0)
}

/// Whether eager would write this constant into a tensor of that type. It refuses a number that overflows; such a
/// call stays extern, for the error to be torch's own.
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
        // Exact in a double: the bounds are powers of 2. Eager lets a negative number wrap in an unsigned type.
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
