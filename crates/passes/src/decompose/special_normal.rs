//! Inverses and logarithms of the error function and of the normal distribution.
#![expect(clippy::unreadable_literal, reason = "a table of digits")]

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

use super::{
    Lowering,
    formula::Num,
    special_bessel::{lower, lower_wide},
    special_tables as tables,
};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.erfinv.default", |c| lower(c, |y| if y.v.ty().element().is_f32() { erfinv_single(y) } else { erfinv(y) })),
    ("aten.special_erfcx.default", |c| lower_wide(c, erfcx)),
    ("aten.special_ndtri.default", |c| lower_wide(c, ndtri)),
    ("aten.special_log_ndtr.default", |c| lower_wide(c, log_ndtr)),
];

/// (1 + 2x)·eˣ²·erfc(x) on [0, ∞), Chebyshev in 2(x - 3.75)/(x + 3.75); fitted to 40 digits.
const ERFCX: &[f64] = &[
    5.068148904796111e-17,
    7.418235256624044e-17,
    -1.2507950530688648e-15,
    -1.864562880419313e-15,
    3.3478119482868056e-14,
    3.25254814814874e-14,
    -9.65469674843344e-13,
    1.9455868545777347e-13,
    2.86879501093067e-11,
    -6.318088340886684e-11,
    -7.754400208831351e-10,
    4.521959811218287e-09,
    1.076499946567091e-08,
    -2.1886401049234397e-07,
    7.74038306619849e-07,
    4.13902798607301e-06,
    -6.916973302501207e-05,
    0.0004907758365258086,
    -0.002413163540417608,
    0.009074997670705265,
    -0.026658668435305753,
    0.05920993999819189,
    -0.08424913336651792,
    -0.004590054580646478,
    2.3551578691348034,
];

/// erfinv(y)/y with `w = -ln(1 - y²)`: as a polynomial in w - 2.5 for w up to 5, to 6e-9, and in √w - 3 beyond, to 8e-8.
const ERFINV: [&[f64]; 2] = [
    &[
        -8.79315115279511e-09,
        2.323152529236839e-08,
        4.6620086395971346e-07,
        -3.4626891083616955e-06,
        -4.963495037108302e-06,
        0.0002183443685967176,
        -0.0012527416050105416,
        -0.004177386672664561,
        0.24664028600609142,
        1.5014093592539643,
    ],
    &[
        -0.00015960102782000893,
        8.229795381791915e-05,
        0.0012920642721377452,
        -0.0036563010252100106,
        0.0057656021057383485,
        -0.007626318726916154,
        0.009435030516873806,
        1.0016742380899308,
        2.8329770043404285,
    ],
];

/// √π/2 in two parts.
const HALF_ROOT_PI: [f64; 2] = [0.886226925452758, -3.8332932499128993e-17];
/// Numerators and denominators for [`erfinv`], by interpolation at Chebyshev's nodes with 40 digits.
const ERFINV_DOUBLE: [[&[f64]; 2]; 3] = [
    [
        &[
            2.6256764270847862e-05,
            -0.007311969903822889,
            0.09199155862013263,
            -0.39827999989120616,
            0.7724607360078144,
            -0.6906268856535329,
            0.2320136665346545,
        ],
        &[0.011023030149992409, -0.19594312832025668, 1.1887774900950097, -3.3722911923159065, 4.895091979319958, -3.526443390941041, 1.0],
    ],
    [
        &[
            8.068914682249351e-09,
            -1.0136090309677937e-06,
            -0.0003119761818338625,
            -0.007609127855698732,
            -0.06838450831960882,
            -0.31230455115410793,
            -0.7997061484205914,
            -1.0828668441320555,
            -0.5934779663963121,
        ],
        &[
            0.00011216220817869514,
            0.0038359638130907136,
            0.04588682907003232,
            0.27625526600983796,
            0.9598807050459212,
            1.9613097545933396,
            2.1743478207762896,
            1.0,
        ],
    ],
    [
        &[
            -3.625221674734711e-08,
            -4.38558755520746e-05,
            -0.002502346149068304,
            -0.03960231388911094,
            -0.22168005644210026,
            -0.39173531895846536,
        ],
        &[1.3386448360473137e-05, 0.0010678378948774288, 0.023704806520899856, 0.20714743283496787, 0.7647477587670594, 1.0],
    ],
];

/// Evaluates two polynomials, which have the precision of an `f32`.
fn erfinv_single(y: Num) -> Num {
    let size = y.abs();
    let w = -((1.0 - size) * (1.0 + size)).log();
    let [near, far] = ERFINV;
    let value = y * w.lt(5.0).pick((w - 2.5).polynomial(near), (w.sqrt() - 3.0).polynomial(far));
    let edge = y.constant(f64::INFINITY).copysign(y);
    size.eq(1.0).pick(edge, value)
}

/// Rational approximations, accurate to 1e-17. Up to 0.7 they approximate the remainder after `y·√π/2`, divided by `y³`, in y². Beyond 0.7
/// they approximate the remainder after `t = √(-ln((1 - y)/2))`, in t - 1.6 and t - 3.2. The range is split as in Wichura's AS 241. The
/// approximated functions differ from his: they are chosen so that the largest part of the result is exact.
fn erfinv(y: Num) -> Num {
    let size = y.abs();
    let square = y * y;
    let polynomial = |x: Num, coefficients: &[f64]| {
        let first = x.constant(coefficients[0]);
        coefficients[1..].iter().fold(first, |sum, &coefficient| sum.fma(x, x.constant(coefficient)))
    };
    let t = (-((1.0 - size) / 2.0).log()).sqrt();
    let (is_centre, is_near) = (size.le(0.7), t.lt(3.2));
    let [centre, near, far] = ERFINV_DOUBLE;
    // A single division for all ranges.
    let [top, bottom] = [0, 1].map(|part| {
        let tail = is_near.pick(polynomial(t - 1.6, near[part]), polynomial(t - 3.2, far[part]));
        is_centre.pick(polynomial(square, centre[part]), tail)
    });
    let ratio = top / bottom;
    let centre = y * HALF_ROOT_PI[0] + (y * HALF_ROOT_PI[1] + y * square * ratio);
    let value = is_centre.pick(centre, t + ratio);
    size.eq(1.0).pick(f64::INFINITY, size.gt(1.0).pick(f64::NAN, value)).copysign(y)
}

/// eˣ²·erfc(x) for nonnegative x.
fn erfcx_above(x: Num) -> Num {
    let series = (2.0 * (x - 3.75) / (x + 3.75)).chebyshev(ERFCX) / (1.0 + 2.0 * x);
    // Large x use the first term of the asymptotic series, since the series' denominator could overflow.
    x.gt(5e7).pick(FRAC_2_SQRT_PI / 2.0 / x, series)
}

fn erfcx(x: Num) -> Num {
    let above = erfcx_above(x.abs());
    let below = 2.0 * (x * x).exp() - x.lt(-6.1).pick(0.0, above);
    x.lt(-26.7).pick(f64::INFINITY, x.lt(0.0).pick(below, above))
}

fn log_ndtr(x: Num) -> Num {
    let t = x * FRAC_1_SQRT_2;
    let tail = (erfcx_above(t.abs()) / 2.0).log() - t * t;
    x.lt(-1.0).pick(tail, (-t.erfc() / 2.0).log1p())
}

/// The quantile function: one approximation around 1/2, and two for the tails by the size of √(-2·ln p).
fn ndtri(p: Num) -> Num {
    let edge = (-2f64).exp();
    let upper = p.gt(1.0 - edge);
    let y = upper.pick(1.0 - p, p);
    let t = y - 0.5;
    let square = t * t;
    let ratio = |z: Num, top: &[f64], bottom: &[f64]| z.polynomial(top) / z.polynomial(bottom);
    let centre = (t + t * (square * ratio(square, tables::NDTRI_P0, tables::NDTRI_Q0))) * (2.0 * PI).sqrt();
    let x = (-2.0 * y.log()).sqrt();
    let z = 1.0 / x;
    let correction = z * x.lt(8.0).pick(ratio(z, tables::NDTRI_P1, tables::NDTRI_Q1), ratio(z, tables::NDTRI_P2, tables::NDTRI_Q2));
    let tail = x - x.log() / x - correction;
    let tail = upper.pick(tail, -tail);
    let value = y.gt(edge).pick(centre, tail);
    let value = (p.lt(0.0) | p.gt(1.0)).pick(f64::NAN, value);
    p.eq(0.0).pick(f64::NEG_INFINITY, p.eq(1.0).pick(f64::INFINITY, value))
}
