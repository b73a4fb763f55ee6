//! `log`, `log2` and `log10` of `f64`, from the exponent and a mantissa `1 + f` between √½ and √2, with the series of the area tangent of
//! `f / (2 + f)`, as in Sun's fdlibm.

use std::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E};

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Lanes;

/// ((ln(1 + s) - ln(1 - s))/s - 2)/s² as a function of s², for s up to 0.1716, to 2e-20.
const SERIES: &[f64] = &[
    0.132_474_366_069_183_4,
    0.132_505_983_871_570_48,
    0.153_870_665_350_617_64,
    0.181_817_763_066_491_8,
    0.222_222_226_373_046_92,
    0.285_714_285_691_630_4,
    0.400_000_000_000_059_36,
    0.666_666_666_666_666_6,
];
/// The bits of √½, the smallest mantissa.
const FIRST: i64 = 0x3fe6_a09e_667f_3bcd;
/// The bit position of the exponent in an `f64`.
const EXPONENT: i64 = 52;
/// The bits of a mantissa.
const MANTISSA: i64 = (1 << EXPONENT) - 1;
/// The sum of this number and an integer has the integer in its lowest bits.
const INTEGER: f64 = 6_755_399_441_055_744.0;

/// A base of logarithms: the logarithms of e and of 2 to this base, in two parts each.
struct Base {
    e: [f64; 2],
    two: [f64; 2],
}

impl Base {
    /// The logarithm of 2 as a sum of two numbers. The first has eleven trailing zero bits, so its product with an exponent is exact.
    fn two_in_parts(&self) -> [f64; 2] {
        let high = f64::from_bits(self.two[0].to_bits() & !0x7ff);
        [high, (self.two[0] - high) + self.two[1]]
    }
}

const NATURAL: Base = Base { e: [1.0, 0.0], two: [LN_2, 2.319_046_813_846_299_6e-17] };
const BINARY: Base = Base { e: [LOG2_E, 2.035_527_374_093_103_3e-17], two: [1.0, 0.0] };
const DECIMAL: Base = Base { e: [LOG10_E, 1.098_319_650_216_765e-17], two: [LOG10_2, -2.803_728_127_785_170_4e-18] };

pub(super) fn ln(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    logarithm(lanes, operands[0], &NATURAL)
}
pub(super) fn lb(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    logarithm(lanes, operands[0], &BINARY)
}
pub(super) fn lg(lanes: &Lanes, operands: &[Value]) -> (Value, Value) {
    logarithm(lanes, operands[0], &DECIMAL)
}

fn logarithm(lanes: &Lanes, x: Value, base: &Base) -> (Value, Value) {
    let word = lanes.word();
    let bits = lanes.subi(lanes.bitcast(x, word), lanes.bits(FIRST));
    let integer = lanes.addi(lanes.shrsi(bits, lanes.bits(EXPONENT)), lanes.bits(INTEGER.to_bits().cast_signed()));
    let exponent = lanes.subf(lanes.bitcast(integer, lanes.real), lanes.number(INTEGER));
    let mantissa = lanes.addi(lanes.andi(bits, lanes.bits(MANTISSA)), lanes.bits(FIRST));
    let f = lanes.subf(lanes.bitcast(mantissa, lanes.real), lanes.number(1.0));

    let s = lanes.divf(f, lanes.addf(f, lanes.number(2.0)));
    let square = lanes.mulf(s, s);
    let half = lanes.mulf(lanes.mulf(f, f), lanes.number(0.5));
    // ln(1 + f) is f plus a small remainder.
    let rest = lanes.subf(lanes.mulf(s, lanes.fma(square, lanes.polynomial(square, SERIES), half)), half);
    let (first, rest) = lanes.times(f, rest, base.e);
    // The rounding errors of the sums are added at the end: eager's results are within 0.52 units in the last place.
    let [high, low] = base.two_in_parts();
    let of_mantissa = lanes.addf(first, rest);
    let lost = lanes.subf(rest, lanes.subf(of_mantissa, first));
    let of_exponent = lanes.mulf(exponent, lanes.number(high));
    let sum = lanes.addf(of_exponent, of_mantissa);
    let lost = lanes.addf(lost, lanes.subf(of_mantissa, lanes.subf(sum, of_exponent)));
    let value = lanes.addf(sum, lanes.fma(exponent, lanes.number(low), lost));
    // Subnormal numbers do not store an exponent of their own, so they are left to the scalar function.
    let is_common = lanes.andi(lanes.cmpf(CmpF::Oge, x, lanes.number(f64::MIN_POSITIVE)), lanes.cmpf(CmpF::Ole, x, lanes.number(f64::MAX)));
    (value, lanes.xori(is_common, lanes.int(is_common.ty(), 1)))
}

impl Lanes {
    /// `first + rest` times a factor in two parts.
    fn times(&self, first: Value, rest: Value, factor: [f64; 2]) -> (Value, Value) {
        if factor[0].to_bits() == 1f64.to_bits() {
            return (first, rest);
        }
        let [high, low] = factor.map(|factor| self.number(factor));
        let product = self.mulf(first, high);
        let lost = self.fma(first, high, self.negf(product));
        (product, self.fma(rest, high, self.fma(first, low, lost)))
    }
}
