//! Intervals of integers, and arithmetic on them.

/// All integers from `min` to `max`. `i64::MIN` as `min`, or `i64::MAX` as `max`, means unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    min: i64,
    max: i64,
}

/// The upper bound of sizes: anything larger does not fit into memory, and products of sizes must be representable.
pub const LARGEST_SIZE: i64 = 1 << 48;

/// Represents infinity in computations: far beyond any `i64`, and far from overflow.
const FAR: i128 = 1 << 100;

impl Interval {
    /// Every integer.
    pub const ALL: Self = Self { min: i64::MIN, max: i64::MAX };

    /// From one bound to the other; a bound at the opposite extreme of `i64` is moved by one, so that it does not read as infinity.
    pub fn new(min: i64, max: i64) -> Self {
        Self { min: min.min(i64::MAX - 1), max: max.max(i64::MIN + 1) }
    }
    /// The interval of one number.
    pub fn point(value: i64) -> Self {
        Self::new(value, value)
    }
    /// The numbers that are at least `min`.
    pub fn at_least(min: i64) -> Self {
        Self::new(min, i64::MAX)
    }
    /// The numbers that are at most `max`.
    pub fn at_most(max: i64) -> Self {
        Self::new(i64::MIN, max)
    }
    /// The lower bound, if there is one.
    pub fn lower(self) -> Option<i64> {
        (self.min != i64::MIN).then_some(self.min)
    }
    /// The upper bound, if there is one.
    pub fn upper(self) -> Option<i64> {
        (self.max != i64::MAX).then_some(self.max)
    }
    /// The number, if there is only one in it.
    pub fn as_point(self) -> Option<i64> {
        (self.min == self.max).then_some(self.min)
    }
    /// Returns true if the number is in it.
    pub fn contains(self, value: i64) -> bool {
        self.min <= value && value <= self.max
    }
    /// The same for a number that may not fit an `i64`.
    pub(crate) fn contains_wide(self, value: i128) -> bool {
        self.lower().is_none_or(|min| i128::from(min) <= value) && self.upper().is_none_or(|max| value <= max.into())
    }
    /// Returns true if it contains no number.
    pub(crate) fn is_empty(self) -> bool {
        self.min > self.max
    }
    /// The intersection.
    pub(crate) fn meet(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.min(other.max) }
    }
    fn ends(self) -> (i128, i128) {
        (self.lower().map_or(-FAR, i128::from), self.upper().map_or(FAR, i128::from))
    }
    /// An interval from wide ends; an end beyond the range of `i64` is unbounded.
    pub(crate) fn wide(min: i128, max: i128) -> Self {
        let clamp = |end: i128| end.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Self::new(clamp(min), clamp(max))
    }
    /// The smallest interval that contains the values of `f` at the corners of both.
    fn corners(self, other: Self, f: impl Fn(i128, i128) -> i128) -> Self {
        let ((a, b), (c, d)) = (self.ends(), other.ends());
        let values = [f(a, c), f(a, d), f(b, c), f(b, d)];
        Self::wide(values.into_iter().fold(i128::MAX, i128::min), values.into_iter().fold(i128::MIN, i128::max))
    }
    /// x + y
    pub(crate) fn add(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.ends(), other.ends());
        Self::wide(a + c, b + d)
    }
    /// x · y
    pub(crate) fn mul(self, other: Self) -> Self {
        let product = |x: i128, y: i128| {
            let endless = x.abs() == FAR || y.abs() == FAR;
            if endless { x.signum() * y.signum() * FAR } else { x * y }
        };
        self.corners(other, product)
    }
    /// x · factor + shift
    pub(crate) fn affine(self, factor: i64, shift: i64) -> Self {
        self.mul(Self::point(factor)).add(Self::point(shift))
    }
    /// The x with `factor · x + shift` in this interval.
    pub(crate) fn solve_affine(self, factor: i64, shift: i64) -> Self {
        if factor == 0 {
            return Self::ALL;
        }
        let (low, high) = self.ends();
        let (low, high) = if factor > 0 { (low, high) } else { (-high, -low) };
        let (factor, shift) = (i128::from(factor).abs(), if factor > 0 { shift.into() } else { -i128::from(shift) });
        let far = |end: i128, value: i128| if end.abs() == FAR { end } else { value };
        let ceil = -(-(low - shift)).div_euclid(factor);
        Self::wide(far(low, ceil), far(high, (high - shift).div_euclid(factor)))
    }
    /// x^n
    pub(crate) fn power(self, n: usize) -> Self {
        // x^(2k) = |x|^(2k) and x^(2k+1) = x · |x|^(2k)
        let (low, high) = self.ends();
        let abs = Self::wide(if low > 0 { low } else { (-high).max(0) }, high.max(-low));
        let (first, rest) = if n.is_multiple_of(2) { (Self::point(1), n) } else { (self, n - 1) };
        (0..rest).fold(first, |product, _| product.mul(abs))
    }
    /// ⌊x / y⌋
    pub(crate) fn floordiv(self, other: Self) -> Self {
        if other.min > 0 {
            // x/y is monotone in x and, for a fixed sign of x, in y, so its extremes are at corners. With both ends infinite, the value is
            // anything from 0 up, or from −1 down; the other corners bound it on the far side.
            let quotient = |x: i128, y: i128| match (x.abs() == FAR, y == FAR) {
                (true, false) => x,
                (_, true) => -i128::from(x < 0),
                (false, false) => x.div_euclid(y),
            };
            return self.corners(other, quotient);
        }
        // ⌊x / −y⌋ = ⌊−x / y⌋
        if other.max < 0 { self.negated().floordiv(other.negated()) } else { Self::ALL }
    }
    /// x mod y, with the sign of y.
    pub(crate) fn modulo(self, other: Self) -> Self {
        let (low, high) = other.ends();
        if other.min > 0 {
            // 0 ≤ x mod y < y, and at most x for x ≥ 0; an x below all y is unchanged.
            if self.min >= 0 {
                let inside = i128::from(self.max) < low && self.max != i64::MAX;
                return Self::wide(if inside { self.min.into() } else { 0 }, self.ends().1.min(high - 1));
            }
            return Self::wide(0, high - 1);
        }
        // x mod −y = −(−x mod y)
        if other.max < 0 {
            return self.negated().modulo(other.negated()).negated();
        }
        Self::wide((low + 1).min(0), (high - 1).max(0))
    }
    /// −x
    pub(crate) fn negated(self) -> Self {
        let (low, high) = self.ends();
        Self::wide(-high, -low)
    }
    /// The smaller of x and y.
    pub(crate) fn min(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.min(other.max) }
    }
    /// The larger of x and y.
    pub(crate) fn max(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.max(other.max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_side_stays_endless() {
        let sizes = Interval::at_least(2);
        assert_eq!(sizes.affine(3, -7), Interval::at_least(-1));
        assert_eq!(sizes.mul(sizes), Interval::at_least(4));
        assert_eq!(sizes.negated(), Interval::at_most(-2));
        assert_eq!(sizes.floordiv(Interval::point(4)), Interval::at_least(0));
        assert_eq!(sizes.modulo(Interval::point(4)), Interval::new(0, 3));
        assert_eq!(Interval::new(2, 3).modulo(Interval::point(4)), Interval::new(2, 3));
    }

    #[test]
    fn an_affine_function_is_solved() {
        // 3x + 1 in [0, 10]: x in [0, 3]
        assert_eq!(Interval::new(0, 10).solve_affine(3, 1), Interval::new(0, 3));
        assert_eq!(Interval::new(0, 10).solve_affine(-3, 1), Interval::new(-3, 0));
        assert_eq!(Interval::at_most(0).solve_affine(-1, 128), Interval::at_least(128));
    }

    #[test]
    fn small_intervals_are_sound() {
        let all: Vec<_> = (-3..=3).flat_map(|a| (a..=3).map(move |b| Interval::new(a, b))).collect();
        let values = |i: Interval| (-3..=3_i64).filter(move |&v| i.contains(v));
        for &a in &all {
            for (x, n) in values(a).flat_map(|x| (0..4).map(move |n| (x, n))) {
                assert!(a.power(n).contains(x.pow(n as u32)), "{x}^{n} in {a:?}");
            }
            for &b in &all {
                for (x, y) in values(a).flat_map(|x| values(b).map(move |y| (x, y))) {
                    assert!(a.add(b).contains(x + y) && a.mul(b).contains(x * y));
                    assert!(a.min(b).contains(x.min(y)) && a.max(b).contains(x.max(y)));
                    assert!(crate::number::floordiv(x, y).is_ok_and(|q| a.floordiv(b).contains(q)) || y == 0);
                    assert!(crate::number::modulo(x, y).is_ok_and(|r| a.modulo(b).contains(r)) || y == 0, "{x} mod {y}");
                }
            }
        }
    }
}
