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

/// erfinv(y)/y by `w = -ln(1 - y²)`: of w - 2.5 up to 5, to 6e-9, and of √w - 3 beyond, to 8e-8.
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

/// Two polynomials, which have as many digits as an `f32`.
fn erfinv_single(y: Num) -> Num {
    let size = y.abs();
    let w = -((1.0 - size) * (1.0 + size)).log();
    let [near, far] = ERFINV;
    let value = y * w.lt(5.0).pick((w - 2.5).polynomial(near), (w.sqrt() - 3.0).polynomial(far));
    let edge = y.constant(f64::INFINITY).copysign(y);
    size.eq(1.0).pick(edge, value)
}

/// A rational guess and two steps of Halley's method.
fn erfinv(y: Num) -> Num {
    let size = y.abs();
    let square = y * y;
    let top = square.polynomial(&[-0.140_543_331, 0.914_624_893, -1.645_349_621, 0.886_226_899]);
    let bottom = square.polynomial(&[0.012_229_801, -0.329_097_515, 1.442_710_462, -2.118_377_725, 1.0]);
    let centre = y * top / bottom;
    let z = (-((1.0 - size) / 2.0).log()).sqrt();
    let top = z.polynomial(&[1.641_345_311, 3.429_567_803, -1.624_906_493, -1.970_840_454]);
    let tail = top.copysign(y) / z.polynomial(&[1.637_067_8, 3.543_889_2, 1.0]);
    let mut x = size.le(0.7).pick(centre, tail);
    for _ in 0..2 {
        // In the tail the distance from 1 is what has the digits.
        let missing = (1.0 - size) - x.abs().erfc();
        let excess = size.le(0.7).pick(x.erf() - y, y.lt(0.0).pick(-missing, missing));
        let step = excess / (FRAC_2_SQRT_PI * (-(x * x)).exp());
        x = x - step / (1.0 + x * step);
    }
    let edge = y.constant(f64::INFINITY).copysign(y);
    size.eq(1.0).pick(edge, size.gt(1.0).pick(f64::NAN, x))
}

/// eˣ²·erfc(x) of x that is not negative.
fn erfcx_above(x: Num) -> Num {
    let series = (2.0 * (x - 3.75) / (x + 3.75)).chebyshev(ERFCX) / (1.0 + 2.0 * x);
    // The first term of the asymptotic series: beyond, the denominator could overflow.
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
