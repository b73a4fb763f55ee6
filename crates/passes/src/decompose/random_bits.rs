//! The random bits of each element, from a key and the element's index, and the fractions and distributions computed from them.

use std::f64::consts::PI;

use dynamlir_dialect::{
    ir::{Type, Value},
    ops::RandomOp,
};
use dynamlir_shapes::{Dim, Dimension, product};

use super::{promote::wide, seeds};
use crate::emit::Emit;

/// The polynomial of `logf` in the Cephes library, for the logarithm of `1 + x`, from `x^9` down, without the first two terms.
const LOGARITHM: [f64; 9] = [
    7.037_683_629_2e-2,
    -1.151_461_031_0e-1,
    1.167_699_874_0e-1,
    -1.242_014_084_6e-1,
    1.424_932_278_7e-1,
    -1.666_805_766_5e-1,
    2.000_071_476_5e-1,
    -2.499_999_399_3e-1,
    3.333_333_117_4e-1,
];

/// The random bits of each element of a shape.
pub(super) struct Bits {
    e: Emit,
    key: Value,
    counter: Value,
}

impl Bits {
    /// Returns None if the number of elements does not fit 64 bits.
    pub(super) fn draw(e: Emit, shape: &[Dim]) -> Option<Self> {
        let strides = (0..shape.len()).map(|dim| product(&shape[dim + 1..])).collect::<Result<Vec<Dim>, _>>().ok()?;
        let key = e.broadcast_to(seeds::draw(&e.b), shape);
        let mut counter: Option<Value> = None;
        for (dim, stride) in strides.iter().enumerate().filter(|&(dim, _)| !shape[dim].is(1)) {
            let index = e.iota(shape, dim);
            let index = if stride.is(1) { index } else { e.mul(index, e.size_like(index, stride)) };
            counter = Some(counter.map_or(index, |before| e.add(before, index)));
        }
        Some(Self { e, key, counter: counter.unwrap_or_else(|| e.full_like(key, 0)) })
    }

    /// Returns `count` bits starting at bit `first`, as a nonnegative number; `half` is as in `dynamo.random`.
    pub(super) fn take(&self, half: i64, first: i64, count: u32) -> Value {
        let bits = RandomOp::build(&self.e.b, self.key, self.counter, half).result();
        let bits = if first == 0 { bits } else { self.e.shr(bits, self.e.full_like(bits, first)) };
        self.e.and(bits, self.e.full_like(bits, i64::MAX >> (63 - count)))
    }

    /// Returns true for each element with probability `p`, in `0..=1`.
    pub(super) fn hits(&self, p: f64) -> Value {
        let word = self.take(0, 0, 32);
        self.e.lt(word, self.e.full_like(word, (p * (1_u64 << 32) as f64).round() as i64))
    }

    /// `(n + shift) / 2^count` for a number `n` of `count` bits, in `f32`; exact for up to 24 bits.
    fn fraction(&self, first: i64, count: u32, shift: f64) -> Value {
        let e = self.e;
        let narrow = e.convert(self.take(0, first, count), Type::int(e.ctx(), 32));
        let number = e.convert(narrow, Type::f32(e.ctx()));
        let number = if shift == 0.0 { number } else { e.add(number, e.full_like(number, shift)) };
        e.mul(number, e.full_like(number, (-f64::from(count)).exp2()))
    }

    /// 52 bits as the fraction of a double between `from` and `from + 1`. They become the significand of a number from 1 to 2.
    fn double(&self, half: i64, from: f64) -> Value {
        let e = self.e;
        let fraction = self.take(half, 12, 52);
        let bits = e.or(fraction, e.full_like(fraction, 0x3FF0_0000_0000_0000));
        let number = e.bitcast(bits, Type::f64(e.ctx()));
        e.sub(number, e.full_like(number, 1.0 - from))
    }

    /// Uniform in `0..1`, with the precision of the element type, in the compute type.
    pub(super) fn uniform(&self, element: Type) -> Value {
        match digits(element) {
            53 => self.double(0, 0.0),
            digits => self.fraction(i64::from(32 - digits), digits, 0.0),
        }
    }

    /// Uniform between 0 and 1, both exclusive.
    pub(super) fn open(&self, element: Type) -> Value {
        if wide(element).is_f32() { self.fraction(9, 23, 0.5) } else { self.double(0, (-53.0_f64).exp2()) }
    }

    /// Normally distributed, by the Box-Muller transform.
    pub(super) fn normal(&self, element: Type) -> Value {
        let e = self.e;
        let (radius, turn) = if wide(element).is_f32() {
            // 31 bits, so that the tails reach as far as can be expected.
            (self.fraction(1, 31, 0.5), self.fraction(40, 24, 0.0))
        } else {
            (self.double(0, (-53.0_f64).exp2()), self.double(1, 0.0))
        };
        let radius = e.sqrt(e.mul(logarithm(e, radius), e.full_like(radius, -2.0)));
        e.mul(radius, cosine(e, turn))
    }
}

/// The cosine of a fraction of a turn. In `f32` it is computed as `-sin(2πq)` for `q = 1/4 - |turn - 1/2|`, which is at most a quarter of a
/// turn away from 0, where a polynomial suffices: its error is `3e-7`, which matches the argument's precision.
fn cosine(e: Emit, turn: Value) -> Value {
    if !turn.ty().element().is_f32() {
        return e.cos(e.mul(turn, e.full_like(turn, 2.0 * PI)));
    }
    let number = |value: f64| e.full_like(turn, value);
    let quarter = e.sub(number(0.25), e.abs(e.sub(turn, number(0.5))));
    let square = e.mul(quarter, quarter);
    // The coefficients of the Taylor series: (2π)^n / n!.
    let terms = [1_u32, 3, 5, 7, 9, 11].map(|n| {
        let sign = if n % 4 == 1 { -1.0 } else { 1.0 };
        sign * (1..=n).fold(1.0, |power, k| power * 2.0 * PI / f64::from(k))
    });
    let [first @ .., last] = terms;
    let sum = first.iter().rev().fold(number(last), |sum, &term| e.fma(sum, square, number(term)));
    e.mul(sum, quarter)
}

/// The logarithm of normal numbers from 0 to 1. In `f32` it is computed from the exponent and the significand, which is scaled to between
/// √½ and √2. It is accurate enough for the numbers that are computed from it, and can be vectorized.
pub(super) fn logarithm(e: Emit, x: Value) -> Value {
    if !x.ty().element().is_f32() {
        return e.log(x);
    }
    let bits = e.bitcast(x, Type::int(e.ctx(), 32));
    let width = e.full_like(bits, 23);
    let exponent = e.shr(e.sub(bits, e.full_like(bits, i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()))), width);
    let significand = e.bitcast(e.sub(bits, e.shl(exponent, width)), x.ty().element());
    let (number, exponent) = (|value: f64| e.full_like(x, value), e.convert(exponent, x.ty().element()));
    let above = e.sub(significand, number(1.0));
    let square = e.mul(above, above);
    let series = LOGARITHM[1..].iter().fold(number(LOGARITHM[0]), |sum, &term| e.fma(sum, above, number(term)));
    let rest = e.fma(square, e.sub(e.mul(series, above), number(0.5)), e.mul(exponent, number(-2.121_944_4e-4)));
    e.fma(exponent, number(0.693_359_375), e.add(above, rest))
}

/// The number of bits of a significand.
pub(super) fn digits(element: Type) -> u32 {
    match element.width() {
        64 => 53,
        32 => 24,
        _ if element.is_bf16() => 8,
        _ => 11,
    }
}
