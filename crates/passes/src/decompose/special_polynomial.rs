//! Chebyshev polynomials of an order that is a tensor: by the trigonometric and hyperbolic functions that they are.
//!
//! Eager runs the recurrence for low orders and for |x| > 1. The closed form is taken in doubles there, so that an
//! `f32` result is as good; inside, for higher orders, eager's own formula is taken in its own type.

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

/// First to fourth kind.
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
    // From here on eager's closed form takes over inside.
    let limit = if kind == Kind::T || shifted { 6.0 } else { 8.0 };
    let size = x.abs();
    let high = inside(kind, x, n);
    let (wide, order) = (x.double(), n.double());
    let low = inside(kind, wide, order).to(x.element());
    let value = outside(kind, wide, order).to(x.element());
    // The recurrence subtracts infinities two steps after the overflow.
    let overflown = outside(kind, wide, order - 2.0).to(x.element()).abs().eq(f64::INFINITY) & n.ge(2.0);
    let value = (overflown | x.is_nan() & n.ge(1.0)).pick(f64::NAN, value);
    let value = size.lt(1.0).pick(n.gt(limit).pick(high, low), value);
    let value = size.eq(1.0).pick(edge(kind, x, n), value);
    // An order that no integer holds counts as negative.
    let value = (n.ge(0.0) & n.lt(9.3e18)).pick(value, x.constant(0.0));
    d.done(n.eq(0.0).pick(1.0, value).v)
}

/// By the angle whose cosine x is.
fn inside(kind: Kind, x: Num, n: Num) -> Num {
    let angle = x.acos();
    match kind {
        Kind::T => (n * angle).cos(),
        Kind::U => ((n + 1.0) * angle).sin() / angle.sin(),
        Kind::V => ((n + 0.5) * angle).cos() / (angle / 2.0).cos(),
        Kind::W => ((n + 0.5) * angle).sin() / (angle / 2.0).sin(),
    }
}

/// The same with hyperbolic functions of |x|; mirrored, V and W are each other, and odd orders change the sign.
fn outside(kind: Kind, x: Num, n: Num) -> Num {
    let angle = x.abs().acosh();
    let even = || ((n + 0.5) * angle).cosh() / (angle / 2.0).cosh();
    let odd = || ((n + 0.5) * angle).sinh() / (angle / 2.0).sinh();
    let left = x.lt(0.0);
    let value = match kind {
        Kind::T => (n * angle).cosh(),
        Kind::U => ((n + 1.0) * angle).sinh() / angle.sinh(),
        Kind::V => left.pick(odd(), even()),
        Kind::W => left.pick(even(), odd()),
    };
    (left & n.is_odd()).pick(-value, value)
}

/// At 1 and -1.
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
