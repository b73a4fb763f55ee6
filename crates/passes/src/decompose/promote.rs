//! Torch's type promotion, and the types in which arithmetic is done.
//!
//! A result's element type is known from the fake tensors; the type in which the operands are combined has to be found. Torch groups
//! operands in three tiers (tensors with dimensions, 0-d tensors, Python numbers), and takes the widest operand of each tier. A lower tier
//! counts only if its category (bool < integer < float) is above that of the tiers before it.

use dynamlir_dialect::{
    ir::{Ctx, Type, Value},
    ops::FullOp,
};
use dynamlir_shapes::{Dim, Dimension};

use super::call::Call;
use crate::emit::{Emit, Scalar};

/// An operand of a pointwise op.
#[derive(Clone)]
pub enum Arg {
    /// A tensor.
    Tensor(Value),
    /// A Python number.
    Scalar(Scalar),
    /// A size, used as a Python integer.
    Size(Dim),
}

/// The type in which values of `element` are computed: `f32` for 16-bit floats, else `element`.
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
        // bf16 and f16 are combined in f32.
        (2, 2) if a.width() == b.width() => Type::f32(ctx),
        // ui8 and i8 are combined in i16; of different widths the wider one wins, as below.
        (1, 1) if a.width() == b.width() => Type::int(ctx, 16),
        (x, y) if x == y => {
            if a.width() > b.width() {
                a
            } else {
                b
            }
        }
        (x, y) => {
            if x > y {
                a
            } else {
                b
            }
        }
    }
}

/// The common dtype of the operands of a pointwise op.
pub fn common(ctx: Ctx, args: &[Arg]) -> Type {
    let mut tiers: [Option<Type>; 3] = [None; 3];
    for arg in args {
        let (tier, element) = match arg {
            Arg::Tensor(value) => (usize::from(value.ty().rank() == 0), value.ty().element()),
            Arg::Scalar(Scalar::Bool(_)) => (2, Type::int(ctx, 1)),
            Arg::Scalar(Scalar::Int(_)) | Arg::Size(_) => (2, Type::int(ctx, 64)),
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

/// Returns 0 for bool, 1 for integers, 2 for floats.
pub fn category(element: Type) -> u8 {
    if element.is_float() { 2 } else { u8::from(!element.is_bool()) }
}

/// Returns true if a number is in an integer type's range; eager raises if `full` or `masked_fill` gets one outside.
pub fn fits(value: Scalar, element: Type) -> bool {
    element.is_float() || element.is_bool() || value.attr(element).as_i64() == Some(value.as_i64())
}

/// A number rounded as if stored in this element type.
fn rounded(value: Scalar, element: Type) -> Scalar {
    value.attr(element).as_f64().filter(|_| element.is_float()).map_or(value, Scalar::Float)
}

impl Call {
    /// Argument `i` as an operand of a pointwise op: a tensor, a number or a size.
    pub fn operand_arg(&self, i: usize) -> Option<Arg> {
        self.tensor(i).map(Arg::Tensor).or_else(|| self.scalar(i).map(Arg::Scalar)).or_else(|| self.size(i).map(Arg::Size))
    }
}

/// A pointwise computation: the common dtype of its operands, the type that it computes in, and its shape.
pub struct Domain<'a> {
    call: &'a Call,
    /// Emits before the op.
    pub e: Emit,
    /// Torch's common dtype. Operands are rounded to it before the computation, and the result after it.
    pub element: Type,
    /// The type of the arithmetic: `element`, or `f32` for 16-bit floats.
    pub compute: Type,
    /// The sizes of the result.
    pub shape: Vec<Dim>,
}

impl<'a> Domain<'a> {
    /// The domain of the arguments `args`, with promotion. Returns None if one is neither a tensor nor a number, or does not broadcast to
    /// the result.
    pub fn of(call: &'a Call, args: &[usize]) -> Option<Self> {
        let operands = args.iter().map(|&i| call.operand_arg(i)).collect::<Option<Vec<_>>>()?;
        let shape = call.result_dims(0);
        let fits = |arg: &Arg| match arg {
            Arg::Tensor(value) => broadcasts(&value.ty().dims(), &shape),
            Arg::Scalar(_) | Arg::Size(_) => true,
        };
        operands.iter().all(fits).then(|| Self::with(call, common(call.e.ctx(), &operands)))
    }
    /// The domain of `args` with integers promoted to `f32`, as for a division or a logarithm.
    pub fn float_of(call: &'a Call, args: &[usize]) -> Option<Self> {
        Self::of(call, args).map(|d| Self::with(call, to_float(d.element)))
    }
    /// The domain of `args` if it is not bool: most ops reject bool.
    pub fn number_of(call: &'a Call, args: &[usize]) -> Option<Self> {
        Self::of(call, args).filter(|d| !d.element.is_bool())
    }
    /// The domain of `args` if it is a float type.
    pub fn only_float_of(call: &'a Call, args: &[usize]) -> Option<Self> {
        Self::of(call, args).filter(|d| d.element.is_float())
    }
    /// The domain with a given common dtype.
    pub fn with(call: &'a Call, element: Type) -> Self {
        Self { call, e: call.e, element, compute: wide(element), shape: call.result_dims(0) }
    }

    /// Argument `i` in the domain, rounded to the common dtype first.
    pub fn get(&self, i: usize) -> Option<Value> {
        Some(match self.call.operand_arg(i)? {
            Arg::Tensor(x) => self.tensor(x),
            Arg::Scalar(value) => self.full(rounded(value, self.element)),
            Arg::Size(size) => self.stored(self.size(&size)),
        })
    }
    /// Argument `i` in the domain. A number or one-element tensor is not rounded to a 16-bit dtype: some of eager's kernels use it
    /// unrounded.
    pub fn exact(&self, i: usize) -> Option<Value> {
        Some(match self.call.operand_arg(i)? {
            Arg::Tensor(x) if x.ty().is_single() && self.compute != self.element => {
                self.e.broadcast_to(self.e.convert(x, self.compute), &self.shape)
            }
            Arg::Tensor(x) => self.tensor(x),
            Arg::Scalar(value) => self.full(value),
            Arg::Size(size) => self.size(&size),
        })
    }
    /// A tensor in the domain. It is converted before it is broadcast, since the smaller tensor is less work.
    pub fn tensor(&self, x: Value) -> Value {
        let common = self.e.convert(x, self.element);
        self.e.broadcast_to(self.e.convert(common, self.compute), &self.shape)
    }
    /// A constant in the domain, not rounded to a 16-bit dtype.
    pub fn full(&self, value: impl Into<Scalar>) -> Value {
        self.e.full(&self.shape, self.compute, value)
    }
    /// A size in the domain, not rounded to a 16-bit dtype.
    fn size(&self, size: &Dim) -> Value {
        self.e.size(size, Type::tensor_of(&self.shape, self.compute))
    }
    /// A number rounded to the common dtype, as in eager.
    pub fn round(&self, value: Scalar) -> Scalar {
        rounded(value, self.element)
    }
    /// Argument `i`, a number, rounded to the common dtype as in eager.
    pub fn rounded(&self, i: usize) -> Option<Value> {
        self.call.scalar(i).map(|value| self.full(self.round(value)))
    }
    /// Rounds a value to the common dtype, as if eager had stored it.
    pub fn stored(&self, value: Value) -> Value {
        self.e.convert(self.e.convert(value, self.element), self.compute)
    }
    /// Rounds to the common dtype and converts to the result's element type.
    pub fn done(&self, value: Value) -> Option<Vec<Value>> {
        let result = self.call.result_type(0);
        let value = if value.ty().element() == self.compute { self.e.convert(value, self.element) } else { value };
        (value.ty().dims() == result.dims()).then(|| vec![self.e.convert(value, result.element())])
    }
    /// Returns argument `i` as an integer of the common dtype if all its elements are the same known nonzero integer. Eager raises on a
    /// zero divisor, so only a known divisor can become a primitive.
    pub fn divisor(&self, i: usize) -> Option<i64> {
        let value = match self.call.operand_arg(i)? {
            Arg::Scalar(value) => value,
            Arg::Tensor(x) => Scalar::Int(full_value(x)?),
            Arg::Size(_) => return None,
        };
        value.attr(self.element).as_i64().filter(|&v| v != 0)
    }
}

/// Returns the integer of a `dynamo.full`.
fn full_value(x: Value) -> Option<i64> {
    FullOp::defining(x)?.value().as_i64()
}

/// Returns true if a shape broadcasts to another by torch's rule.
pub fn broadcasts<D: Dimension>(from: &[D], to: &[D]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(a, b)| a.is(1) || a == b)
}
