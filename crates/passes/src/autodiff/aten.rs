//! Emits `ATen` operators as a recording would have them: with all arguments, and the layouts that eager would see.
//!
//! Types are computed here, for operands that have one element type already: a gradient has that of its value.

use dynamlir_dialect::{
    ir::{Attr, Builder, Op, Type, Value},
    ops::{self, AtenOp, PermuteOp},
};
use dynamlir_shapes::{Window, row_major};

use crate::emit::{Emit, Scalar};

/// An argument of an operator.
#[derive(Clone)]
pub enum Arg {
    /// A tensor, or None.
    Tensor(Option<Value>),
    /// Several tensors.
    Tensors(Vec<Value>),
    /// Several tensors, or None in their places.
    Optionals(Vec<Option<Value>>),
    /// What holds no tensor.
    Attr(Attr),
    /// A list of numbers.
    Ints(Vec<i64>),
    /// An integer.
    Int(i64),
    /// A Python float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Several bools.
    Bools(Vec<bool>),
    /// None.
    None,
}

macro_rules! from {
    ($($ty:ty => $variant:expr;)*) => { $( impl From<$ty> for Arg { fn from(given: $ty) -> Self { $variant(given) } } )* };
}
from! {
    Value => |value| Arg::Tensor(Some(value));
    Option<Value> => Arg::Tensor;
    Vec<Value> => Arg::Tensors;
    Attr => Arg::Attr;
    Vec<i64> => Arg::Ints;
    &[i64] => |list: &[i64]| Arg::Ints(list.to_vec());
    i64 => Arg::Int;
    f64 => Arg::Float;
    bool => Arg::Bool;
    Type => |ty: Type| Arg::Attr(ty.as_attr());
    Scalar => |scalar| match scalar { Scalar::Int(v) => Arg::Int(v), Scalar::Float(v) => Arg::Float(v), Scalar::Bool(v) => Arg::Bool(v) };
}

/// The arguments of a call, one after another.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { &[$( $crate::autodiff::aten::Arg::from($arg) ),*] };
}
pub(super) use args;

/// A result: its type, and its strides where they are not row-major.
pub type Made = (Type, Option<Vec<i64>>);

/// Emits at one place of a function.
#[derive(Clone, Copy)]
pub struct Aten {
    function: Op,
    /// The place.
    pub b: Builder,
    /// Primitives at the same place: for what only moves elements.
    pub e: Emit,
}

impl Aten {
    /// Emits into a function at a builder's place.
    pub fn new(function: Op, b: Builder) -> Self {
        Self { function, b, e: Emit::new(b) }
    }

    /// The strides in which eager would have a value: as recorded, else row-major or what follows from a permutation.
    pub fn layout(&self, value: Value) -> Vec<i64> {
        let dense = || row_major(&value.ty().shape());
        if let Some(call) = AtenOp::defining(value) {
            let recorded = value.result_index().and_then(|index| call.result_strides()?.get(index)?.as_i64s());
            return recorded.unwrap_or_else(dense);
        }
        if let Some(permute) = PermuteOp::defining(value) {
            let from = self.layout(permute.operand());
            return permute.dims().iter().filter_map(|&dim| from.get(usize::try_from(dim).ok()?).copied()).collect();
        }
        if value.def().is_none() && value.arg_index().is_some() {
            let recorded = value.arg_index().and_then(|index| ops::STRIDES.of_arg(self.function, index));
            return recorded.unwrap_or_else(dense);
        }
        dense()
    }

    /// The layout of a fresh tensor like this one.
    pub fn layout_like(&self, value: Value) -> Vec<i64> {
        let (sizes, strides) = (value.ty().shape(), self.layout(value));
        let window = Window { sizes: sizes.clone(), strides: strides.clone(), offset: 0 };
        let is_dense = !window.may_repeat() && (window.is_empty() || window.end() == window.numel());
        if is_dense { strides } else { row_major(&sizes) }
    }

    /// A call with results of these types.
    pub fn call(&self, schema: &str, args: &[Arg], results: &[Made]) -> Vec<Value> {
        let ctx = self.b.ctx();
        let mut operands: Vec<Value> = Vec::new();
        let mut operand = |value: Value| {
            // Each operand is recorded once.
            let index = operands.iter().position(|other| *other == value).unwrap_or_else(|| {
                operands.push(value);
                operands.len() - 1
            });
            Attr::operand(ctx, index)
        };
        let numbers = |list: &[i64]| Attr::array(ctx, &list.iter().map(|&n| Attr::i64(ctx, n)).collect::<Vec<_>>());
        let written: Vec<Attr> = args
            .iter()
            .map(|arg| match arg {
                Arg::Tensor(Some(value)) => operand(*value),
                Arg::Tensors(values) => Attr::array(ctx, &values.iter().map(|&value| operand(value)).collect::<Vec<_>>()),
                Arg::Optionals(values) => {
                    let each: Vec<Attr> = values.iter().map(|value| value.map_or_else(|| Attr::unit(ctx), &mut operand)).collect();
                    Attr::array(ctx, &each)
                }
                Arg::Attr(attr) => *attr,
                Arg::Ints(list) => numbers(list),
                Arg::Int(number) => Attr::i64(ctx, *number),
                Arg::Float(number) => Attr::f64(ctx, *number),
                Arg::Bool(truth) => Attr::bool(ctx, *truth),
                Arg::Bools(list) => Attr::array(ctx, &list.iter().map(|&truth| Attr::bool(ctx, truth)).collect::<Vec<_>>()),
                Arg::Tensor(None) | Arg::None => Attr::unit(ctx),
            })
            .collect();
        let seen: Vec<Attr> = operands.iter().map(|&value| Attr::i64s(ctx, &self.layout(value))).collect();
        let strides = |(ty, strides): &Made| Attr::i64s(ctx, &strides.clone().unwrap_or_else(|| row_major(&ty.shape())));
        let made: Vec<Attr> = results.iter().map(strides).collect();
        let types: Vec<Type> = results.iter().map(|(ty, _)| *ty).collect();
        let layouts = (Some(&seen[..]), Some(&made[..]));
        AtenOp::build(&self.b, schema, &operands, &written, None, None, None, None, None, layouts.0, layouts.1, true, &types).op().results()
    }

    /// A call with one result, row-major.
    pub fn one(&self, schema: &str, args: &[Arg], ty: Type) -> Value {
        self.call(schema, args, &[(ty, None)])[0]
    }

    /// A call with one result of the type of a value, laid out as a fresh tensor like it.
    pub fn like(&self, schema: &str, args: &[Arg], value: Value) -> Value {
        self.call(schema, args, &[(value.ty(), Some(self.layout_like(value)))])[0]
    }

    /// What a backward operator gives for something that wants no gradient: nothing can use it.
    pub fn nothing(&self) -> Made {
        (Type::tensor(&[0], Type::f32(self.b.ctx())), None)
    }

    /// Zeros of the type of a value.
    pub fn zeros(&self, value: Value) -> Value {
        self.e.full_like(value, 0.0)
    }

    /// A pointwise operator of a number and a tensor, whose type wins.
    pub fn scalar(&self, schema: &str, x: Value, number: impl Into<Scalar>) -> Value {
        self.like(schema, args![x, number.into()], x)
    }
    /// `x · number`.
    pub fn scale(&self, x: Value, number: impl Into<Scalar>) -> Value {
        let number = number.into();
        // Exact, and what eager leaves out.
        if number.as_f64() == 1.0 { x } else { self.scalar("aten.mul.Scalar", x, number) }
    }
    /// `x + number`.
    pub fn scalar_add(&self, x: Value, number: f64) -> Value {
        self.like("aten.add.Scalar", args![x, number, 1_i64], x)
    }
    /// A pointwise operator of one operand.
    pub fn unary(&self, schema: &str, x: Value) -> Value {
        self.like(schema, args![x], x)
    }
    /// `-x`.
    pub fn neg(&self, x: Value) -> Value {
        self.unary("aten.neg.default", x)
    }
    /// A pointwise operator of two operands that are broadcast, in the element type of the first.
    pub fn binary(&self, schema: &str, x: Value, y: Value) -> Value {
        let (ty, last) = (broadcast_type(x, y), Arg::Int(1));
        let arguments = [Arg::from(x), Arg::from(y), last];
        let count = if schema.starts_with("aten.add.") || schema.starts_with("aten.sub.") { 3 } else { 2 };
        let wide = if ty == x.ty() { Some(x) } else { Some(y).filter(|y| y.ty().shape() == ty.shape()) };
        self.call(schema, &arguments[..count], &[(ty, wide.map(|value| self.layout_like(value)))])[0]
    }
    /// `x + y`.
    pub fn add(&self, x: Value, y: Value) -> Value {
        self.binary("aten.add.Tensor", x, y)
    }
    /// `x - y`.
    pub fn sub(&self, x: Value, y: Value) -> Value {
        self.binary("aten.sub.Tensor", x, y)
    }
    /// `x · y`.
    pub fn mul(&self, x: Value, y: Value) -> Value {
        self.binary("aten.mul.Tensor", x, y)
    }
    /// `x / y`.
    pub fn div(&self, x: Value, y: Value) -> Value {
        self.binary("aten.div.Tensor", x, y)
    }
    /// A comparison with a number.
    pub fn compare(&self, schema: &str, x: Value, number: impl Into<Scalar>) -> Value {
        let ty = Type::tensor(&x.ty().shape(), self.e.bool_type());
        self.call(schema, args![x, number.into()], &[(ty, Some(self.layout_like(x)))])[0]
    }
    /// A comparison of tensors that are broadcast.
    pub fn compare_with(&self, schema: &str, x: Value, y: Value) -> Value {
        let ty = Type::tensor(&broadcast(&x.ty().shape(), &y.ty().shape()), self.e.bool_type());
        self.one(schema, args![x, y], ty)
    }
    /// One value where the condition holds, the other elsewhere; both of one element type, and broadcast.
    pub fn choose(&self, condition: Value, yes: Value, no: Value) -> Value {
        let shape = broadcast(&condition.ty().shape(), &broadcast(&yes.ty().shape(), &no.ty().shape()));
        self.one("aten.where.self", args![condition, yes, no], Type::tensor(&shape, yes.ty().element()))
    }
    /// Zero where the condition holds.
    pub fn zero_where(&self, x: Value, condition: Value) -> Value {
        let shape = broadcast(&x.ty().shape(), &condition.ty().shape());
        let ty = Type::tensor(&shape, x.ty().element());
        self.one("aten.masked_fill.Scalar", args![x, condition, 0_i64], ty)
    }
    /// Zero where the condition does not hold.
    pub fn zero_unless(&self, x: Value, condition: Value) -> Value {
        let zero = self.e.scalar(x.ty().element(), 0.0);
        self.choose(condition, x, zero)
    }
    /// In another element type.
    pub fn cast(&self, x: Value, element: Type) -> Value {
        if x.ty().element() == element {
            return x;
        }
        let ty = Type::tensor(&x.ty().shape(), element);
        let arguments = args![x, element, Arg::None, Arg::None, Arg::None, false, Arg::None];
        self.call("aten._to_copy.default", arguments, &[(ty, Some(self.layout_like(x)))])[0]
    }
    /// The sum along dimensions.
    pub fn sum(&self, x: Value, dims: &[i64], keepdim: bool) -> Value {
        let sizes = x.ty().shape();
        if dims.is_empty() {
            return x;
        }
        let shape = reduced(&sizes, dims, keepdim);
        self.one("aten.sum.dim_IntList", args![x, dims, keepdim, Arg::None], Type::tensor(&shape, x.ty().element()))
    }
    /// The gradient of what was broadcast to the shape of `x`: sums along the dimensions in which it was.
    pub fn sum_to(&self, x: Value, shape: &[i64]) -> Value {
        let sizes = x.ty().shape();
        let lead = sizes.len().saturating_sub(shape.len());
        let is_summed = |(dim, &size): (usize, &i64)| (dim < lead || (shape[dim - lead] == 1 && size != 1)).then_some(dim as i64);
        let dims: Vec<i64> = sizes.iter().enumerate().filter_map(is_summed).collect();
        self.e.reshape(self.sum(x, &dims, true), shape)
    }
    /// `x · y` of matrices.
    pub fn mm(&self, x: Value, y: Value) -> Value {
        let shape = [x.ty().shape()[0], y.ty().shape()[1]];
        self.one("aten.mm.default", args![x, y], Type::tensor(&shape, x.ty().element()))
    }
    /// `x · y` of matrices, for each of a batch.
    pub fn bmm(&self, x: Value, y: Value) -> Value {
        let (left, right) = (x.ty().shape(), y.ty().shape());
        self.one("aten.bmm.default", args![x, y], Type::tensor(&[left[0], left[1], right[2]], x.ty().element()))
    }
    /// Dimensions exchanged.
    pub fn transpose(&self, x: Value, a: usize, b: usize) -> Value {
        self.e.transpose(x, a as i64, b as i64)
    }
}

/// The shape to which two shapes are broadcast.
pub fn broadcast(a: &[i64], b: &[i64]) -> Vec<i64> {
    let rank = a.len().max(b.len());
    let at = |shape: &[i64], dim: usize| (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim]);
    (0..rank).map(|dim| if at(a, dim) == 1 { at(b, dim) } else { at(a, dim) }).collect()
}

/// The sizes without those along `dims`, or with 1 in their place.
pub fn reduced(sizes: &[i64], dims: &[i64], keepdim: bool) -> Vec<i64> {
    let is_reduced = |dim: usize| dims.contains(&(dim as i64));
    let kept = sizes.iter().enumerate().filter(|&(dim, _)| keepdim || !is_reduced(dim));
    kept.map(|(dim, &size)| if is_reduced(dim) { 1 } else { size }).collect()
}

/// Of the shape that both are broadcast to, in the element type of the first.
fn broadcast_type(x: Value, y: Value) -> Type {
    Type::tensor(&broadcast(&x.ty().shape(), &y.ty().shape()), x.ty().element())
}
