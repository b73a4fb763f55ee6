//! Formulas in mathematical notation: numbers with operators that emit primitives.

use dynamlir_dialect::ir::{Type, Value};
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use crate::emit::Emit;

/// A float tensor in a formula.
#[derive(Clone, Copy)]
pub struct Num {
    /// Emits the formula.
    pub e: Emit,
    /// Its value.
    pub v: Value,
}

/// A bool tensor in a formula.
#[derive(Clone, Copy)]
pub struct Cond {
    e: Emit,
    /// Its value.
    pub v: Value,
}

/// An operand that a number may be combined with: another number, or a constant.
pub trait Operand: Copy {
    /// Returns the operand as a value of the type and shape of `x`.
    fn like(self, x: Num) -> Value;
}
impl Operand for Num {
    fn like(self, _: Num) -> Value {
        self.v
    }
}
impl Operand for f64 {
    fn like(self, x: Num) -> Value {
        x.e.full_like(x.v, self)
    }
}

macro_rules! operators {
    ($($op:ident $method:ident)*) => { $(
        impl<T: Operand> $op<T> for Num {
            type Output = Num;
            fn $method(self, other: T) -> Num { self.of(self.e.$method(self.v, other.like(self))) }
        }
        impl $op<Num> for f64 {
            type Output = Num;
            fn $method(self, other: Num) -> Num { other.constant(self).$method(other) }
        }
    )* };
}
operators! { Add add Sub sub Mul mul Div div }

impl Neg for Num {
    type Output = Num;
    fn neg(self) -> Num {
        self.of(self.e.neg(self.v))
    }
}

macro_rules! functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`dynamo.", stringify!($name), "`.")]
        #[must_use]
        pub fn $name(self) -> Num { self.of(self.e.$name(self.v)) }
    )* };
}
macro_rules! comparisons {
    ($($name:ident)*) => { $(
        #[doc = concat!("`dynamo.compare ", stringify!($name), "`.")]
        pub fn $name(self, other: impl Operand) -> Cond { Cond { e: self.e, v: self.e.$name(self.v, other.like(self)) } }
    )* };
}

impl Num {
    functions! { abs exp expm1 log log1p sqrt sin cos tan acos sinh cosh acosh erf erfc floor trunc }
    comparisons! { eq ne lt le gt ge }

    /// Returns another value in the same formula.
    #[must_use]
    pub fn of(self, v: Value) -> Num {
        Num { e: self.e, v }
    }
    /// Returns a constant of the same shape and type.
    #[must_use]
    pub fn constant(self, value: f64) -> Num {
        self.of(self.e.full_like(self.v, value))
    }
    /// Converts the number to another element type.
    #[must_use]
    pub fn to(self, element: Type) -> Num {
        self.of(self.e.convert(self.v, element))
    }
    /// Converts the number to a double.
    #[must_use]
    pub fn double(self) -> Num {
        self.to(Type::f64(self.e.ctx()))
    }
    /// Its element type.
    pub fn element(self) -> Type {
        self.v.ty().element()
    }
    /// `selfᵃ`.
    #[must_use]
    pub fn pow(self, exponent: impl Operand) -> Num {
        self.of(self.e.pow(self.v, exponent.like(self)))
    }
    /// `self · factor + term`, rounded once.
    #[must_use]
    pub fn fma(self, factor: Num, term: Num) -> Num {
        self.of(self.e.fma(self.v, factor.v, term.v))
    }
    /// The number with the sign of another one.
    #[must_use]
    pub fn copysign(self, sign: Num) -> Num {
        self.of(self.e.copysign(self.v, sign.v))
    }
    /// Returns true where the number is NaN.
    pub fn is_nan(self) -> Cond {
        self.ne(self)
    }
    /// Returns true where a whole number is odd.
    pub fn is_odd(self) -> Cond {
        let half = self * 0.5;
        half.floor().ne(half)
    }
    /// The polynomial with these coefficients, the highest power first.
    #[must_use]
    pub fn polynomial(self, coefficients: &[f64]) -> Num {
        let [first, rest @ ..] = coefficients else { return self.constant(0.0) };
        rest.iter().fold(self.constant(*first), |sum, &coefficient| sum * self + coefficient)
    }
    /// The Chebyshev series at `self / 2` with these coefficients, the highest order first, by Clenshaw's recurrence.
    #[must_use]
    pub fn chebyshev(self, coefficients: &[f64]) -> Num {
        let zero = self.constant(0.0);
        let [first, rest @ ..] = coefficients else { return zero };
        let (mut last, mut before, mut previous) = (self.constant(*first), zero, zero);
        for &coefficient in rest {
            (previous, before) = (before, last);
            last = self * before - previous + coefficient;
        }
        0.5 * (last - previous)
    }
}

impl Cond {
    /// Selects `yes` where the condition holds, `no` elsewhere.
    pub fn pick(self, yes: impl Operand, no: Num) -> Num {
        no.of(self.e.select(self.v, yes.like(no), no.v))
    }
}
impl BitAnd for Cond {
    type Output = Cond;
    fn bitand(self, other: Cond) -> Cond {
        Cond { e: self.e, v: self.e.and(self.v, other.v) }
    }
}
impl BitOr for Cond {
    type Output = Cond;
    fn bitor(self, other: Cond) -> Cond {
        Cond { e: self.e, v: self.e.or(self.v, other.v) }
    }
}
impl Not for Cond {
    type Output = Cond;
    fn not(self) -> Cond {
        Cond { e: self.e, v: self.e.not(self.v) }
    }
}
