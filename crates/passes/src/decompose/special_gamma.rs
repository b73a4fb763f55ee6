//! Logarithmic derivatives of the gamma function, and the Hurwitz zeta function.

use dynamlir_dialect::ir::Value;
use std::f64::consts::PI;

use super::{Call, Lowering, formula::Num, promote::Domain, special_bessel::lower};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.digamma.default", |c| lower(c, digamma)),
    ("aten.polygamma.default", polygamma),
    ("aten.special_zeta.default", zeta_op),
    ("aten.special_zeta.other_scalar", zeta_op),
    ("aten.special_zeta.self_scalar", zeta_op),
];

/// Coefficients of the asymptotic series of digamma in x⁻².
const PSI: [f64; 7] = [1.0 / 12.0, -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0];

/// Up to ten recurrence steps move a positive number beyond 10, where the asymptotic series is accurate; negative ones are reflected.
fn digamma(x: Num) -> Num {
    let reflect = x.lt(0.0);
    let mut y = reflect.pick(1.0 - x, x);
    let mut sum = y.constant(0.0);
    for _ in 0..10 {
        let small = y.lt(10.0);
        sum = small.pick(sum - 1.0 / y, sum);
        y = small.pick(y + 1.0, y);
    }
    let z = 1.0 / (y * y);
    let series = y.lt(1e17).pick(z * z.polynomial(&PSI), y.constant(0.0));
    let value = sum + y.log() - 0.5 / y - series;
    // The tangent of the fraction alone, in doubles: in π·x the fraction would lose its digits.
    let fraction = (x - x.trunc()).double();
    let turn = (PI / (PI * fraction).tan()).to(x.element());
    let whole = x.eq(x.trunc());
    let below = whole.pick(f64::NAN, value - turn);
    let pole = x.constant(f64::INFINITY).copysign(-x);
    x.eq(0.0).pick(pole, reflect.pick(below, value))
}

/// The sum of (x + k)⁻² over k ≥ 0: six terms and the asymptotic series; below 1/2 by reflection.
fn trigamma(x: Num) -> Num {
    let reflect = x.lt(0.5);
    let sine = (PI * x).sin();
    let zero = x.constant(0.0);
    let mut sum = reflect.pick(zero - PI * PI / (sine * sine), zero);
    let mut y = reflect.pick(1.0 - x, x);
    for _ in 0..6 {
        sum = sum + 1.0 / (y * y);
        y = y + 1.0;
    }
    let z = 1.0 / (y * y);
    sum = sum + (1.0 + 1.0 / (2.0 * y) + z * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0)))) / y;
    reflect.pick(-sum, sum)
}

fn polygamma(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[1])?;
    let n = call.int(0).filter(|n| (0..=20).contains(n))?;
    let x = Num { e: d.e, v: d.get(1)? };
    let value = match n {
        0 => digamma(x),
        1 => trigamma(x),
        _ => {
            let factorial: f64 = (1..=n).map(|k| k as f64).product();
            let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
            let q = x.double();
            zeta(q.constant((n + 1) as f64), q).to(x.element()) * (sign * factorial)
        }
    };
    d.done(value.v)
}

/// ζ(s, q); eager does not have a kernel for 16-bit floats, and computes in doubles.
fn zeta_op(call: &Call) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0, 1]).filter(|d| d.compute == d.element)?;
    let (s, q) = (Num { e: d.e, v: d.get(0)? }, Num { e: d.e, v: d.get(1)? });
    d.done(zeta(s.double(), q.double()).to(s.element()).v)
}

/// For q < 0 only whole s have a value. It is the sum over all positive q + k plus the sum over the negative ones; both are expressed by
/// zetas of positive numbers.
fn zeta(s: Num, q: Num) -> Num {
    let below = q.lt(0.0);
    // The distance from q up to the next whole number: exact, however small it is.
    let distance = q.abs() - q.abs().floor();
    let first = zeta_above(s, below.pick(1.0 - distance, q));
    let rest = zeta_above(s, distance) - zeta_above(s, 1.0 - q);
    let value = below.pick(first + s.is_odd().pick(-rest, rest), first);
    // In these cases eager multiplies an infinite factor by terms that have become 0.
    let value = (value.eq(0.0) & (s.gt(2.5e13) | q.eq(f64::INFINITY))).pick(f64::NAN, value);
    let pole = q.le(0.0) & q.eq(q.floor());
    let value = (below & s.ne(s.floor())).pick(f64::NAN, value);
    let value = pole.pick(f64::INFINITY, value);
    s.eq(1.0).pick(f64::INFINITY, s.lt(1.0).pick(f64::NAN, value))
}

/// Divisors of the terms of the Euler-Maclaurin series: (2k)!/B₂ₖ for k from 1 on.
const EULER: [f64; 12] = [
    12.0,
    -720.0,
    30240.0,
    -1_209_600.0,
    47_900_160.0,
    -1.307_674_368e12 / 691.0,
    74_724_249_600.0,
    -1.067_062_284_288e16 / 3617.0,
    5.109_094_217_170_944e18 / 43867.0,
    -8.028_576_626_982_912e20 / 174_611.0,
    1.551_121_004_333_098_6e23 / 854_513.0,
    -1.693_824_136_731_743_7e27 / 236_364_091.0,
];

/// ζ(s, q) for q > 0: ten terms, and the Euler-Maclaurin series for the rest unless the last term is negligible.
fn zeta_above(s: Num, q: Num) -> Num {
    let mut sum = q.pow(-s);
    let (mut w, mut term) = (q, sum);
    for _ in 0..9 {
        w = w + 1.0;
        term = w.pow(-s);
        sum = sum + term;
    }
    let mut rest = sum + term * w / (s - 1.0) - 0.5 * term;
    // Multiplies by the factors s, s + 1, … and 1/w alternately, so that no intermediate product overflows or underflows.
    let mut factor = term;
    for (k, &divisor) in EULER.iter().enumerate() {
        let k = 2.0 * k as f64;
        factor = factor * ((s + k) / w);
        rest = rest + factor / divisor;
        factor = factor * ((s + (k + 1.0)) / w);
    }
    (term.lt(sum * (f64::EPSILON / 2.0)) | term.eq(0.0)).pick(sum, rest)
}
