//! Chebyshev polynomials whose order is a tensor: low orders use the recurrence, the others the equivalent trigonometric and hyperbolic
//! functions.
//!
//! Inside [-1, 1] these are eager's own formulas. Outside, eager runs the recurrence up to any order. Here the closed form is computed in
//! doubles instead, so that an `f32` result is as accurate.

use dynamlir_dialect::ir::Value;

use super::{Call, Lowering, formula::Num, promote::Domain};

/// The lowerings of this file.
pub const TABLE: &[(&str, Lowering)] = &[
    ("aten.special_chebyshev_polynomial_t.default", |c| lower(c, Kind::T, false)),
    ("aten.special_chebyshev_polynomial_t.x_scalar", |c| lower(c, Kind::T, false)),
    ("aten.special_chebyshev_polynomial_t.n_scalar", |c| lower(c, Kind::T, false)),
    ("aten.special_chebyshev_polynomial_u.default", |c| lower(c, Kind::U, false)),
    ("aten.special_chebyshev_polynomial_u.x_scalar", |c| lower(c, Kind::U, false)),
    ("aten.special_chebyshev_polynomial_u.n_scalar", |c| lower(c, Kind::U, false)),
    ("aten.special_chebyshev_polynomial_v.default", |c| lower(c, Kind::V, false)),
    ("aten.special_chebyshev_polynomial_v.x_scalar", |c| lower(c, Kind::V, false)),
    ("aten.special_chebyshev_polynomial_v.n_scalar", |c| lower(c, Kind::V, false)),
    ("aten.special_chebyshev_polynomial_w.default", |c| lower(c, Kind::W, false)),
    ("aten.special_chebyshev_polynomial_w.x_scalar", |c| lower(c, Kind::W, false)),
    ("aten.special_chebyshev_polynomial_w.n_scalar", |c| lower(c, Kind::W, false)),
    ("aten.special_shifted_chebyshev_polynomial_t.default", |c| lower(c, Kind::T, true)),
    ("aten.special_shifted_chebyshev_polynomial_t.x_scalar", |c| lower(c, Kind::T, true)),
    ("aten.special_shifted_chebyshev_polynomial_t.n_scalar", |c| lower(c, Kind::T, true)),
    ("aten.special_shifted_chebyshev_polynomial_u.default", |c| lower(c, Kind::U, true)),
    ("aten.special_shifted_chebyshev_polynomial_u.x_scalar", |c| lower(c, Kind::U, true)),
    ("aten.special_shifted_chebyshev_polynomial_u.n_scalar", |c| lower(c, Kind::U, true)),
    ("aten.special_shifted_chebyshev_polynomial_v.default", |c| lower(c, Kind::V, true)),
    ("aten.special_shifted_chebyshev_polynomial_v.x_scalar", |c| lower(c, Kind::V, true)),
    ("aten.special_shifted_chebyshev_polynomial_v.n_scalar", |c| lower(c, Kind::V, true)),
    ("aten.special_shifted_chebyshev_polynomial_w.default", |c| lower(c, Kind::W, true)),
    ("aten.special_shifted_chebyshev_polynomial_w.x_scalar", |c| lower(c, Kind::W, true)),
    ("aten.special_shifted_chebyshev_polynomial_w.n_scalar", |c| lower(c, Kind::W, true)),
];

/// The four kinds, first to fourth.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    T,
    U,
    V,
    W,
}

fn lower(call: &Call, kind: Kind, shifted: bool) -> Option<Vec<Value>> {
    let d = Domain::float_of(call, &[0, 1]).filter(|d| d.compute == d.element)?;
    let (x, n) = (Num { e: d.e, v: d.get(0)? }, Num { e: d.e, v: d.get(1)? }.trunc());
    let x = if shifted { x + x - 1.0 } else { x };
    // From this order on eager uses its closed form inside [-1, 1].
    let limit = if kind == Kind::T || shifted { 6 } else { 8 };
    let size = x.abs();
    let (wide, order) = (x.double(), n.double());
    let value = outside(kind, wide, order).to(x.element());
    // Two steps after the overflow the recurrence subtracts infinities, which gives NaN.
    let overflown = outside(kind, wide, order - 2.0).to(x.element()).abs().eq(f64::INFINITY);
    let value = (overflown | x.is_nan()).pick(f64::NAN, value);
    let value = size.lt(1.0).pick(inside(kind, x, n), value);
    let value = recurrence(kind, x, n, limit, value);
    let value = size.eq(1.0).pick(edge(kind, x, n), value);
    // An order too large for an integer counts as negative.
    let value = (n.ge(0.0) & n.lt(9.3e18)).pick(value, x.constant(0.0));
    d.done(n.eq(0.0).pick(1.0, value).v)
}

/// Computes the orders 1 to `limit`, each from the two before it; the others are `higher`.
fn recurrence(kind: Kind, x: Num, n: Num, limit: u32, higher: Num) -> Num {
    let double = x + x;
    let (mut before, mut last) = (
        x.constant(1.0),
        match kind {
            Kind::T => x,
            Kind::U => double,
            Kind::V => double - 1.0,
            Kind::W => double + 1.0,
        },
    );
    let mut value = n.eq(1.0).pick(last, higher);
    for k in 2..=limit {
        (before, last) = (last, double.fma(last, -before));
        value = n.eq(f64::from(k)).pick(last, value);
    }
    value
}

/// Computes from the angle whose cosine is x.
fn inside(kind: Kind, x: Num, n: Num) -> Num {
    let angle = x.acos();
    match kind {
        Kind::T => (n * angle).cos(),
        Kind::U => ((n + 1.0) * angle).sin() / angle.sin(),
        Kind::V => ((n + 0.5) * angle).cos() / (angle / 2.0).cos(),
        Kind::W => ((n + 0.5) * angle).sin() / (angle / 2.0).sin(),
    }
}

/// The same with hyperbolic functions of |x|. For negative x, V and W are swapped, and odd orders change the sign.
fn outside(kind: Kind, x: Num, n: Num) -> Num {
    let angle = x.abs().acosh();
    // Quotients of two sinh(a) or cosh(a): a factor eᵃ is taken out of both, so that they overflow only if the result does.
    let growth = (n * angle).exp();
    let even = || growth * (1.0 + (-(n + n + 1.0) * angle).exp()) / (1.0 + (-angle).exp());
    let odd = || growth * ((-(n + n + 1.0) * angle).expm1() / (-angle).expm1());
    let left = x.lt(0.0);
    let value = match kind {
        Kind::T => (n * angle).cosh(),
        Kind::U => growth * ((-2.0 * (n + 1.0) * angle).expm1() / (-2.0 * angle).expm1()),
        Kind::V => left.pick(odd(), even()),
        Kind::W => left.pick(even(), odd()),
    };
    (left & n.is_odd()).pick(-value, value)
}

/// The values at 1 and -1.
fn edge(kind: Kind, x: Num, n: Num) -> Num {
    let left = x.lt(0.0);
    let one = n.constant(1.0);
    let double = n + n + 1.0;
    let value = match kind {
        Kind::T => one,
        Kind::U => n + 1.0,
        Kind::V => left.pick(double, one),
        Kind::W => left.pick(one, double),
    };
    (left & n.is_odd()).pick(-value, value)
}
