//! Logarithms, computed from the exponent and a mantissa between √½ and √2.

use std::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E};

use dynamlir_dialect::{ir::Value, upstream::arith::CmpF};

use super::Arithmetic;

/// (ln(1 + f) - f + f²/2)/f³, to 6e-9.
const SERIES: &[f64] = &[
    -0.076_317_159_359_974_18,
    0.127_601_499_321_834_93,
    -0.131_605_853_490_640_13,
    0.142_019_946_627_350_15,
    -0.166_233_390_098_438_13,
    0.200_012_155_108_874_8,
    -0.250_008_213_381_529_73,
    0.333_333_318_135_862_26,
];
/// The bits of √½, the smallest mantissa.
const FIRST: i64 = 0x3f35_04f3;

/// A base: the logarithms of e and of 2 to this base. The latter has two parts, the first with so few digits that a product with an
/// exponent is exact.
struct Base {
    e: f64,
    two: [f64; 2],
}

const NATURAL: Base = Base { e: 1.0, two: [0.693_359_375, LN_2 - 0.693_359_375] };
const BINARY: Base = Base { e: LOG2_E, two: [1.0, 0.0] };
const DECIMAL: Base = Base { e: LOG10_E, two: [0.300_781_25, LOG10_2 - 0.300_781_25] };

impl Arithmetic {
    pub(super) fn ln(&self, x: Value) -> Value {
        self.logarithm(x, &NATURAL)
    }
    pub(super) fn lb(&self, x: Value) -> Value {
        self.logarithm(x, &BINARY)
    }
    pub(super) fn lg(&self, x: Value) -> Value {
        self.logarithm(x, &DECIMAL)
    }

    fn logarithm(&self, x: Value, base: &Base) -> Value {
        // Subnormal numbers are scaled to normal ones.
        let small = self.cmpf(CmpF::Olt, x, self.real(f64::from(f32::MIN_POSITIVE)));
        let normal = self.select(small, self.mulf(x, self.real(8_388_608.0)), x);
        let missing = self.select(small, self.real(-23.0), self.real(0.0));
        let bits = self.subi(self.bitcast(normal, self.word), self.word(FIRST));
        let exponent = self.addf(self.sitofp(self.shrsi(bits, self.word(23)), self.real), missing);
        let mantissa = self.addi(self.andi(bits, self.word(0x7f_ffff)), self.word(FIRST));
        let f = self.subf(self.bitcast(mantissa, self.real), self.real(1.0));

        let square = self.mulf(f, f);
        let series = self.polynomial(f, SERIES);
        // ln(1 + f) is f plus a small rest.
        let rest = self.fma(self.mulf(f, square), series, self.mulf(square, self.real(-0.5)));
        let (first, rest) = self.times(f, rest, base.e);
        let rest = self.fma(exponent, self.real(base.two[1]), rest);
        let value = self.fma(exponent, self.real(base.two[0]), self.addf(first, rest));

        let zero = self.real(0.0);
        let edge = self.select(self.cmpf(CmpF::Oeq, x, zero), self.real(f64::NEG_INFINITY), self.real(f64::NAN));
        let value = self.select(self.cmpf(CmpF::Ogt, x, zero), value, edge);
        self.select(self.cmpf(CmpF::Oeq, x, self.real(f64::INFINITY)), x, value)
    }

    /// Multiplies `first + rest` by a factor that has more digits than an `f32`.
    fn times(&self, first: Value, rest: Value, factor: f64) -> (Value, Value) {
        if factor.to_bits() == 1f64.to_bits() {
            return (first, rest);
        }
        let single = f64::from(factor as f32);
        let [high, low] = [single, factor - single].map(|factor| self.real(factor));
        let product = self.mulf(first, high);
        let lost = self.fma(first, high, self.negf(product));
        (product, self.fma(rest, high, self.fma(first, low, lost)))
    }
}
