//! Bessel functions of order 0 and 1, and the Airy function.
//!
//! Each uses a series near 0 and an asymptotic form beyond. Both are computed, and the right one is selected; series and ranges are those
//! of eager's kernels.

use std::f64::consts::{FRAC_1_PI, FRAC_2_PI, FRAC_PI_4};

use super::{Call, Lowering, formula::Num, promote::Domain, special_ratios as ratios, special_tables as tables};
use dynamlir_dialect::ir::Value;

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.i0.default", |c| lower(c, i0)),
    ("aten.special_i0e.default", |c| lower(c, |x| scaled_i(x, &I0))),
    ("aten.special_i1.default", |c| lower(c, i1)),
    ("aten.special_i1e.default", |c| lower(c, |x| odd(x, scaled_i(x, &I1)))),
    ("aten.special_modified_bessel_i0.default", |c| lower_wide(c, i0)),
    ("aten.special_modified_bessel_i1.default", |c| lower_wide(c, i1)),
    ("aten.special_modified_bessel_k0.default", |c| {
        lower_wide(c, |x| {
            // Computed in doubles, where half the smallest subnormal `f32` is not 0. Eager does so for this function only.
            let log = (0.5 * x.double()).log().to(x.element());
            k(x, k0_near(x, log), tables::K0_FAR, false)
        })
    }),
    ("aten.special_modified_bessel_k1.default", |c| lower_wide(c, |x| k(x, k1_near(x), tables::K1_FAR, false))),
    ("aten.special_scaled_modified_bessel_k0.default", |c| lower_wide(c, |x| k(x, k0_near(x, (0.5 * x).log()), tables::K0_FAR, true))),
    ("aten.special_scaled_modified_bessel_k1.default", |c| lower_wide(c, |x| k(x, k1_near(x), tables::K1_FAR, true))),
    ("aten.special_bessel_j0.default", |c| lower_wide(c, j0)),
    ("aten.special_bessel_j1.default", |c| lower_wide(c, j1)),
    ("aten.special_bessel_y0.default", |c| lower_wide(c, y0)),
    ("aten.special_bessel_y1.default", |c| lower_wide(c, y1)),
    ("aten.special_spherical_bessel_j0.default", |c| lower_wide(c, spherical_j0)),
    ("aten.special_airy_ai.default", |c| lower_wide(c, airy_ai)),
];

/// Lowers a function of a float; integers become `f32`.
pub(super) fn lower(call: &Call, f: fn(Num) -> Num) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0])?;
    d.done(f(Num { e: d.e, v: d.get(0)? }).v)
}

/// Lowers a function for which eager does not have a kernel for 16-bit floats, and raises.
pub(super) fn lower_wide(call: &Call, f: fn(Num) -> Num) -> Option<Vec<Value>> {
    Domain::float_of(call, &[0]).filter(|d| d.compute == d.element)?;
    lower(call, f)
}

/// The two series of e⁻ˣ·I(x).
struct Scaled {
    near: &'static [f64],
    far: &'static [f64],
    /// True if the near series is multiplied by x.
    odd: bool,
}
const I0: Scaled = Scaled { near: tables::I0_NEAR, far: tables::I0_FAR, odd: false };
const I1: Scaled = Scaled { near: tables::I1_NEAR, far: tables::I1_FAR, odd: true };

/// e⁻ˣ·I(x) on [0, 8].
fn near_i(x: Num, series: &Scaled) -> Num {
    let sum = (x / 2.0 - 2.0).chebyshev(series.near);
    if series.odd { sum * x } else { sum }
}

/// e⁻|ˣ|·I(|x|).
fn scaled_i(x: Num, series: &Scaled) -> Num {
    let x = x.abs();
    x.le(8.0).pick(near_i(x, series), (32.0 / x - 2.0).chebyshev(series.far) / x.sqrt())
}

/// I(|x|): multiplies by the exponential before it divides by the root, so that infinity gives NaN as in eager.
fn unscaled_i(x: Num, series: &Scaled) -> Num {
    let x = x.abs();
    let exp = x.exp();
    x.le(8.0).pick(exp * near_i(x, series), exp * (32.0 / x - 2.0).chebyshev(series.far) / x.sqrt())
}

fn odd(x: Num, magnitude: Num) -> Num {
    x.lt(0.0).pick(-magnitude, magnitude)
}
fn i0(x: Num) -> Num {
    unscaled_i(x, &I0)
}
fn i1(x: Num) -> Num {
    odd(x, unscaled_i(x, &I1))
}

/// K₀(x) near 0; `log` is log(x/2).
fn k0_near(x: Num, log: Num) -> Num {
    (x * x - 2.0).chebyshev(tables::K0_NEAR) - log * (x.exp() * near_i(x, &I0))
}
fn k1_near(x: Num) -> Num {
    (0.5 * x).log() * (x.exp() * near_i(x, &I1)) + (x * x - 2.0).chebyshev(tables::K1_NEAR) / x
}

/// K(x), or eˣ·K(x): infinite at 0 and undefined for negative x.
fn k(x: Num, near: Num, far: &[f64], scaled: bool) -> Num {
    let tail = (8.0 / x - 2.0).chebyshev(far);
    let value = if scaled { x.le(2.0).pick(near * x.exp(), tail / x.sqrt()) } else { x.le(2.0).pick(near, (-x).exp() * tail / x.sqrt()) };
    at_origin(x, value, f64::INFINITY)
}

/// A function with a pole at 0 that is undefined for negative x.
fn at_origin(x: Num, value: Num, pole: f64) -> Num {
    x.eq(0.0).pick(pole, x.lt(0.0).pick(f64::NAN, value))
}

/// Returns amplitude, quadrature and phase of J and Y of one order, for x beyond 5.
fn hankel(x: Num, ratios: [&[f64]; 4], shift: f64) -> (Num, Num, Num) {
    let inverse = 5.0 / x;
    let z = inverse * inverse;
    let [pp, pq, qp, qq] = ratios.map(|coefficients| z.polynomial(coefficients));
    (pp / pq, inverse * (qp / qq), x - shift)
}
fn hankel0(x: Num) -> (Num, Num, Num) {
    hankel(x, [ratios::PP0, ratios::PQ0, ratios::QP0, ratios::QQ0], FRAC_PI_4)
}
fn hankel1(x: Num) -> (Num, Num, Num) {
    hankel(x, [ratios::PP1, ratios::PQ1, ratios::QP1, ratios::QQ1], 3.0 * FRAC_PI_4)
}
fn far_j(x: Num, (p, q, angle): (Num, Num, Num)) -> Num {
    (p * angle.cos() - q * angle.sin()) * FRAC_2_PI.sqrt() / x.sqrt()
}
fn far_y(x: Num, (p, q, angle): (Num, Num, Num)) -> Num {
    (p * angle.sin() + q * angle.cos()) * FRAC_2_PI.sqrt() / x.sqrt()
}

/// A ratio of polynomials in z.
fn ratio(z: Num, top: &[f64], bottom: &[f64]) -> Num {
    z.polynomial(top) / z.polynomial(bottom)
}

fn j0_near(x: Num) -> Num {
    let z = x * x;
    let series =
        (z - 5.783_185_962_946_784) * (z - 30.471_262_343_662_087) * z.polynomial(ratios::J0_TOP) / z.polynomial(ratios::J0_BOTTOM);
    x.lt(0.00001).pick(1.0 - z / 4.0, series)
}
fn j1_near(x: Num) -> Num {
    let z = x * x;
    ratio(z, ratios::J1_TOP, ratios::J1_BOTTOM) * x * (z - 14.681_970_642_123_893) * (z - 49.218_456_321_694_6)
}
fn j0(x: Num) -> Num {
    let x = x.abs();
    x.le(5.0).pick(j0_near(x), far_j(x, hankel0(x)))
}
fn j1(x: Num) -> Num {
    let size = x.abs();
    size.le(5.0).pick(j1_near(x), odd(x, far_j(size, hankel1(size))))
}
fn y0(x: Num) -> Num {
    let near = ratio(x * x, ratios::Y0_TOP, ratios::Y0_BOTTOM) + FRAC_2_PI * x.log() * j0_near(x);
    at_origin(x, x.le(5.0).pick(near, far_y(x, hankel0(x))), f64::NEG_INFINITY)
}
fn y1(x: Num) -> Num {
    let near = x * ratio(x * x, ratios::Y1_TOP, ratios::Y1_BOTTOM) + FRAC_2_PI * (j1_near(x) * x.log() - 1.0 / x);
    at_origin(x, x.le(5.0).pick(near, far_y(x, hankel1(x))), f64::NEG_INFINITY)
}

/// sin(x)/x; near 0 its Taylor series.
fn spherical_j0(x: Num) -> Num {
    let (mut term, mut taylor) = (1.0, vec![1.0]);
    for k in 1..=6 {
        term /= -f64::from(2 * k * (2 * k + 1));
        taylor.insert(0, term);
    }
    let quotient = x.abs().lt(0.5).pick((x * x).polynomial(&taylor), x.sin() / x);
    x.abs().eq(f64::INFINITY).pick(0.0, quotient)
}

/// Ai(x): its two Taylor series near 0, an oscillation far below and an exponential far above.
fn airy_ai(x: Num) -> Num {
    // The two series differ in the first order; 16 coefficients reach a double's precision at 2.09.
    let series = |first: i32| {
        let (mut term, mut list) = (1.0, vec![1.0]);
        for k in 0..15 {
            term /= f64::from((3 * k + first) * (3 * k + first + 1));
            list.insert(0, term);
        }
        (x * x * x).polynomial(&list)
    };
    let near = 0.355_028_053_887_817_2 * series(2) - 0.258_819_403_792_806_8 * (x * series(3));
    let size = x.abs();
    let (root, zeta) = (size.sqrt(), 2.0 * size * size.sqrt() / 3.0);
    let z = 1.0 / zeta;
    let scale = FRAC_1_PI.sqrt();
    let above = scale * ratio(z, ratios::AIRY_AN, ratios::AIRY_AD) / (2.0 * root.sqrt() * zeta.exp());
    let (angle, square) = (zeta + FRAC_PI_4, z * z);
    let sine = angle.sin() * (1.0 + square * ratio(square, ratios::AIRY_AFN, ratios::AIRY_AFD));
    let cosine = angle.cos() * (z * ratio(square, ratios::AIRY_AGN, ratios::AIRY_AGD));
    let below = scale / root.sqrt() * (sine - cosine);
    let value = x.ge(2.09).pick(above, x.lt(-2.09).pick(below, near));
    let value = x.gt(103.892).pick(0.0, value);
    size.eq(f64::INFINITY).pick(f64::NAN, value)
}
