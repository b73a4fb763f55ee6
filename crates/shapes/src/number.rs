//! Checked arithmetic on numbers; division rounds as in Python and MLIR's affine maps.

use crate::error::{Result, ShapeError};

/// Converts the result of a checked operation of the standard library. `ok_or` would create and drop the error each time.
#[inline]
pub(crate) fn checked(value: Option<i64>) -> Result<i64> {
    match value {
        Some(value) => Ok(value),
        None => Err(ShapeError::Overflow),
    }
}

/// ⌊a / b⌋.
pub(crate) fn wide_floordiv(a: i128, b: i128) -> Result<i128> {
    if b == 0 {
        return Err(ShapeError::DivisionByZero);
    }
    let quotient = a.checked_div(b).ok_or(ShapeError::Overflow)?;
    Ok(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// a − b · ⌊a / b⌋, which has the sign of `b`.
pub(crate) fn wide_modulo(a: i128, b: i128) -> Result<i128> {
    if b == 0 {
        return Err(ShapeError::DivisionByZero);
    }
    // a mod −1 is 0, even if the quotient overflows.
    let rest = a.checked_rem(b).unwrap_or(0);
    Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// ⌊a / b⌋.
pub fn floordiv(a: i64, b: i64) -> Result<i64> {
    wide_floordiv(a.into(), b.into()).and_then(|value| i64::try_from(value).map_err(|_| ShapeError::Overflow))
}

/// a − b · ⌊a / b⌋, which has the sign of `b`.
pub fn modulo(a: i64, b: i64) -> Result<i64> {
    // Not larger than b in absolute value.
    wide_modulo(a.into(), b.into()).map(|value| value as i64)
}

/// The greatest common divisor; gcd(0, b) = b.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The (q, r) with `a = q·d + r` and r closest to 0 (the positive one in a tie), for d > 0.
pub(crate) fn nearest(a: i64, d: i64) -> (i64, i64) {
    let (quotient, rest) = (a.div_euclid(d), a.rem_euclid(d));
    // The quotient is incremented only for d ≥ 3, where it is small enough.
    if rest > d - rest { (quotient + 1, rest - d) } else { (quotient, rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_down() {
        assert_eq!((floordiv(7, 2), floordiv(-7, 2), floordiv(7, -2), floordiv(-7, -2)), (Ok(3), Ok(-4), Ok(-4), Ok(3)));
        assert_eq!((modulo(7, 2), modulo(-7, 2), modulo(7, -2), modulo(-7, -2)), (Ok(1), Ok(1), Ok(-1), Ok(-1)));
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        assert_eq!(floordiv(1, 0), Err(ShapeError::DivisionByZero));
        assert_eq!(modulo(1, 0), Err(ShapeError::DivisionByZero));
        assert_eq!(floordiv(i64::MIN, -1), Err(ShapeError::Overflow));
        assert_eq!(modulo(i64::MIN, -1), Ok(0));
    }

    #[test]
    fn nearest_multiples() {
        assert_eq!((nearest(11, 8), nearest(13, 8), nearest(-1, 8), nearest(12, 8)), ((1, 3), (2, -3), (0, -1), (1, 4)));
        assert_eq!(nearest(i64::MIN, i64::MAX), (-1, -1));
    }
}
