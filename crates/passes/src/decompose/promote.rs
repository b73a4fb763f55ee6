//! Torch's type promotion, and the types that arithmetic is done in.
//!
//! A result's element type is known from the fakes; what has to be found is the type in which operands meet. Torch
//! takes operands in three tiers (tensors with dimensions, 0-d tensors, Python numbers), and in each tier the widest
//! of them; a lower tier counts only where its category (bool < integer < float) is above that of the tiers before it.

use dynamlir_dialect::ir::{Ctx, Type, Value};

use super::call::Call;
use crate::emit::{Emit, Scalar};

/// An operand of a pointwise op.
#[derive(Clone, Copy)]
pub enum Arg {
    /// A tensor.
    Tensor(Value),
    /// A Python number.
    Scalar(Scalar),
}

/// The type in which values of `element` are computed: `f32` for the 16-bit floats.
pub fn wide(element: Type) -> Type {
    if element.is_float() && element.width() == 16 { Type::f32(element.ctx()) } else { element }
}

/// `element` if it is a float, else the default dtype `f32`.
pub fn to_float(element: Type) -> Type {
    if element.is_float() { element } else { Type::f32(element.ctx()) }
}

/// The common type of two element types in one tier.
pub fn join(a: Type, b: Type) -> Type {
    if a == b {
        return a;
    }
    let ctx = a.ctx();
    match (category(a), category(b)) {
        // bf16 with f16 meets in f32.
        (2, 2) if a.width() == b.width() => Type::f32(ctx),
        // ui8 with i8 meets in i16; with wider types the wider wins, as below.
        (1, 1) if a.width() == b.width() => Type::int(ctx, 16),
        (x, y) if x == y => {
            if a.width() > b.width() { a } else { b }
        }
        (x, y) => {
            if x > y { a } else { b }
        }
    }
}

/// The type in which the operands of a pointwise op meet.
pub fn common(ctx: Ctx, args: &[Arg]) -> Type {
    let mut tiers: [Option<Type>; 3] = [None; 3];
    for arg in args {
        let (tier, element) = match *arg {
            Arg::Tensor(value) => (usize::from(value.ty().rank() == 0), value.ty().element()),
            Arg::Scalar(Scalar::Bool(_)) => (2, Type::int(ctx, 1)),
            Arg::Scalar(Scalar::Int(_)) => (2, Type::int(ctx, 64)),
            Arg::Scalar(Scalar::Float(_)) => (2, Type::f32(ctx)),
        };
        tiers[tier] = Some(tiers[tier].map_or(element, |other| join(other, element)));
    }
    let mut found: Option<Type> = None;
    for tier in tiers.into_iter().flatten() {
        found = Some(found.map_or(tier, |above| if category(tier) > category(above) { tier } else { above }));
    }
    found.unwrap_or_else(|| Type::f32(ctx))
}

/// 0 bool, 1 integer, 2 float.
pub fn category(element: Type) -> u8 {
    if element.is_float() {
        2
    } else {
        u8::from(!element.is_bool())
    }
}

/// The operand as a tensor of this element type and shape.
pub fn materialize(e: &Emit, arg: Arg, element: Type, shape: &[i64]) -> Value {
    match arg {
        Arg::Tensor(value) => e.broadcast_to(e.convert(value, element), shape),
        Arg::Scalar(value) => e.full(shape, element, value),
    }
}

impl Call {
    /// Argument `i` as an operand of a pointwise op: a tensor or a number.
    pub fn operand_arg(&self, i: usize) -> Option<Arg> {
        self.tensor(i).map(Arg::Tensor).or_else(|| self.scalar(i).map(Arg::Scalar))
    }
}
