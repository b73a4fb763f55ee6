//! Emits `ATen` operators in the form of a recording: with all arguments, and with the layouts that eager would use.
//!
//! Types are computed here, for operands that already have the same element type: a gradient has the type of its value.

use std::rc::Rc;

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Op, Type, Value},
    ops::{self, AtenOp, PermuteOp},
};
use dynamlir_shapes::{Dim, Dimension, Relation, Scope};

use crate::{
    emit::{Emit, Scalar},
    layouts::{is_dense, strides_of},
};

/// An argument of an operator.
#[derive(Clone)]
pub enum Arg {
    /// A tensor, or None.
    Tensor(Option<Value>),
    /// Several tensors.
    Tensors(Vec<Value>),
    /// Several tensors, some of which may be None.
    Optionals(Vec<Option<Value>>),
    /// An attribute without tensors.
    Attr(Attr),
    /// A list of numbers.
    Ints(Vec<i64>),
    /// A list of sizes.
    Sizes(Vec<Dim>),
    /// An integer.
    Int(i64),
    /// A size.
    Size(Dim),
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
    Vec<Dim> => Arg::Sizes;
    i64 => Arg::Int;
    Dim => Arg::Size;
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

/// A result: its type, and its strides unless they are row-major.
pub type Made = (Type, Option<Vec<Dim>>);

/// Emits at one position in a function.
#[derive(Clone, Copy)]
pub struct Aten<'s> {
    function: Op,
    /// The known facts about symbols in sizes.
    pub scope: &'s Rc<Scope>,
    /// The position.
    pub b: Builder,
    /// Emits primitives at the same position, for operations that only move elements.
    pub e: Emit,
}

impl<'s> Aten<'s> {
    /// Emits into a function at a builder's position.
    pub fn new(function: Op, scope: &'s Rc<Scope>, b: Builder) -> Self {
        Self { function, scope, b, e: Emit::new(b) }
    }

    /// Returns true if the relation between the sizes holds for all values of the symbols.
    pub fn surely(&self, left: &Dim, relation: Relation, right: impl Into<Dim>) -> bool {
        left.compare(relation, &right.into(), self.scope).unwrap_or(false)
    }

    /// Reshapes the value to these sizes, which are other expressions of its own. Returns None if equality is not provable.
    pub fn fitted(&self, value: Value, sizes: &[Dim]) -> Option<Value> {
        let own = value.ty().dims();
        if own == sizes {
            return Some(value);
        }
        let is_same = |(own, size): (&Dim, &Dim)| self.surely(own, Relation::Eq, size.clone());
        (own.len() == sizes.len() && own.iter().zip(sizes).all(is_same)).then(|| self.e.reshape(value, sizes))
    }

    /// Returns the strides that a value has in eager: as recorded, else row-major or derived from a permutation.
    pub fn layout(&self, value: Value) -> Vec<Dim> {
        let dense = || self.row_major(value.ty());
        if let Some(call) = AtenOp::defining(value) {
            let recorded = value.result_index().and_then(|index| <Vec<Dim>>::read(*call.result_strides()?.get(index)?));
            return recorded.unwrap_or_else(dense);
        }
        if let Some(permute) = PermuteOp::defining(value) {
            let from = self.layout(permute.operand());
            return permute.dims().iter().filter_map(|&dim| from.get(usize::try_from(dim).ok()?).cloned()).collect();
        }
        if value.def().is_none() && value.arg_index().is_some() {
            let recorded = value.arg_index().and_then(|index| ops::STRIDES.dims().of_arg(self.function, index));
            return recorded.unwrap_or_else(dense);
        }
        dense()
    }

    /// Returns the layout of a fresh tensor like this one.
    pub fn layout_like(&self, value: Value) -> Vec<Dim> {
        let strides = self.layout(value);
        if is_dense(&value.ty().dims(), &strides, self.scope) { strides } else { self.row_major(value.ty()) }
    }

    /// Returns the row-major strides of a type.
    pub fn row_major(&self, ty: Type) -> Vec<Dim> {
        strides_of(ty, self.scope)
    }

    /// Emits a call with results of these types.
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
                // A list of arguments is an array attribute, even a list of sizes.
                Arg::Sizes(list) => Attr::array(ctx, &list.iter().map(|size| Dim::write(ctx, size)).collect::<Vec<_>>()),
                Arg::Int(number) => Attr::i64(ctx, *number),
                Arg::Size(size) => Dim::write(ctx, size),
                Arg::Float(number) => Attr::f64(ctx, *number),
                Arg::Bool(truth) => Attr::bool(ctx, *truth),
                Arg::Bools(list) => Attr::array(ctx, &list.iter().map(|&truth| Attr::bool(ctx, truth)).collect::<Vec<_>>()),
                Arg::Tensor(None) | Arg::None => Attr::unit(ctx),
            })
            .collect();
        let seen: Vec<Attr> = operands.iter().map(|&value| <Vec<Dim>>::write(ctx, &self.layout(value))).collect();
        let strides = |(ty, strides): &Made| <Vec<Dim>>::write(ctx, &strides.clone().unwrap_or_else(|| self.row_major(*ty)));
        let made: Vec<Attr> = results.iter().map(strides).collect();
        let types: Vec<Type> = results.iter().map(|(ty, _)| *ty).collect();
        let layouts = (Some(&seen[..]), Some(&made[..]));
        AtenOp::build(&self.b, schema, &operands, &written, None, None, None, None, None, layouts.0, layouts.1, true, &types).op().results()
    }

    /// Emits a call with one row-major result.
    pub fn one(&self, schema: &str, args: &[Arg], ty: Type) -> Value {
        self.call(schema, args, &[(ty, None)])[0]
    }

    /// Emits a call with one result, which has the type of a value and the layout of a fresh tensor like it.
    pub fn like(&self, schema: &str, args: &[Arg], value: Value) -> Value {
        self.call(schema, args, &[(value.ty(), Some(self.layout_like(value)))])[0]
    }

    /// The result of a backward operator for an argument that does not need a gradient; it is never used.
    pub fn nothing(&self) -> Made {
        (Type::tensor(&[0], Type::f32(self.b.ctx())), None)
    }

    /// Returns zeros of the type of a value.
    pub fn zeros(&self, value: Value) -> Value {
        if value.ty().element().is_complex() {
            let same = [Arg::None, Arg::None, Arg::None, Arg::None, Arg::None];
            return self.like("aten.zeros_like.default", &[&[Arg::from(value)][..], &same].concat(), value);
        }
        self.e.full_like(value, 0.0)
    }

    /// Returns zeros of a type. The dialect does not have complex constants, so complex zeros are cast from real ones.
    pub fn zeros_of(&self, ty: Type) -> Value {
        let element = ty.element();
        let real = if element.is_complex() { ty.with_element(Type::f32(self.e.ctx())) } else { ty };
        self.cast(self.e.full(&real.dims(), real.element(), 0.0), element)
    }

    /// A pointwise operator of a tensor and a number; the result has the tensor's type.
    pub fn scalar(&self, schema: &str, x: Value, number: impl Into<Scalar>) -> Value {
        self.like(schema, args![x, number.into()], x)
    }
    /// `x · number`.
    pub fn scale(&self, x: Value, number: impl Into<Scalar>) -> Value {
        let number = number.into();
        // Multiplication by 1 is exact, and eager omits it.
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
    /// A pointwise operator of two operands, which are broadcast; the result has the element type of the first.
    pub fn binary(&self, schema: &str, x: Value, y: Value) -> Value {
        let (ty, last) = (broadcast_type(x, y), Arg::Int(1));
        let arguments = [Arg::from(x), Arg::from(y), last];
        let count = if schema.starts_with("aten.add.") || schema.starts_with("aten.sub.") { 3 } else { 2 };
        let wide = if ty == x.ty() { Some(x) } else { Some(y).filter(|y| y.ty().dims() == ty.dims()) };
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
        let ty = x.ty().with_element(self.e.bool_type());
        self.call(schema, args![x, number.into()], &[(ty, Some(self.layout_like(x)))])[0]
    }
    /// A comparison of tensors, which are broadcast.
    pub fn compare_with(&self, schema: &str, x: Value, y: Value) -> Value {
        let ty = broadcast_type(x, y).with_element(self.e.bool_type());
        self.one(schema, args![x, y], ty)
    }
    /// Selects `yes` where the condition holds, `no` elsewhere; both have the same element type, and are broadcast.
    pub fn choose(&self, condition: Value, yes: Value, no: Value) -> Value {
        let shape = broadcast(&condition.ty().dims(), &broadcast(&yes.ty().dims(), &no.ty().dims()));
        self.one("aten.where.self", args![condition, yes, no], Type::tensor_of(&shape, yes.ty().element()))
    }
    /// Replaces elements by zero where the condition holds.
    pub fn zero_where(&self, x: Value, condition: Value) -> Value {
        self.one("aten.masked_fill.Scalar", args![x, condition, 0_i64], broadcast_type(x, condition))
    }
    /// Replaces elements by zero where the condition does not hold.
    pub fn zero_unless(&self, x: Value, condition: Value) -> Value {
        let zero = self.e.scalar(x.ty().element(), 0.0);
        self.choose(condition, x, zero)
    }
    /// Converts to another element type.
    pub fn cast(&self, x: Value, element: Type) -> Value {
        if x.ty().element() == element {
            return x;
        }
        let ty = x.ty().with_element(element);
        let arguments = args![x, element, Arg::None, Arg::None, Arg::None, false, Arg::None];
        self.call("aten._to_copy.default", arguments, &[(ty, Some(self.layout_like(x)))])[0]
    }
    /// The sum along dimensions.
    pub fn sum(&self, x: Value, dims: &[i64], keepdim: bool) -> Value {
        if dims.is_empty() {
            return x;
        }
        let shape = reduced(&x.ty().dims(), dims, keepdim);
        self.one("aten.sum.dim_IntList", args![x, dims, keepdim, Arg::None], Type::tensor_of(&shape, x.ty().element()))
    }
    /// The gradient of a value that was broadcast to the shape of `x`: the sum along the broadcast dimensions. Returns None if it is not
    /// known which dimensions these are.
    pub fn sum_to(&self, x: Value, shape: &[Dim]) -> Option<Value> {
        let sizes = x.ty().dims();
        let lead = sizes.len().checked_sub(shape.len())?;
        let mut dims: Vec<i64> = (0..lead as i64).collect();
        for (dim, (from, to)) in sizes[lead..].iter().zip(shape).enumerate() {
            if to.is(1) && !from.is(1) {
                dims.push((lead + dim) as i64);
            } else if from != to && !self.surely(from, Relation::Eq, to.clone()) {
                return None;
            }
        }
        Some(self.e.reshape(self.sum(x, &dims, true), shape))
    }
    /// The matrix product `x · y`.
    pub fn mm(&self, x: Value, y: Value) -> Value {
        let shape = [x.ty().dims().swap_remove(0), y.ty().dims().swap_remove(1)];
        self.one("aten.mm.default", args![x, y], Type::tensor_of(&shape, x.ty().element()))
    }
    /// The batched matrix product `x · y`.
    pub fn bmm(&self, x: Value, y: Value) -> Value {
        let (left, right) = (x.ty().dims(), y.ty().dims());
        let shape = [&left[..2], &right[2..]].concat();
        self.one("aten.bmm.default", args![x, y], Type::tensor_of(&shape, x.ty().element()))
    }
    /// Swaps two dimensions.
    pub fn transpose(&self, x: Value, a: usize, b: usize) -> Value {
        self.e.transpose(x, a as i64, b as i64)
    }
}

/// Returns the shape to which two shapes broadcast.
pub fn broadcast(a: &[Dim], b: &[Dim]) -> Vec<Dim> {
    let rank = a.len().max(b.len());
    let at = |shape: &[Dim], dim: usize| (dim + shape.len()).checked_sub(rank).map_or(Dim::from(1), |dim| shape[dim].clone());
    (0..rank).map(|dim| if at(a, dim).is(1) { at(b, dim) } else { at(a, dim) }).collect()
}

/// Returns the sizes with those along `dims` removed or, with `keepdim`, replaced by 1.
pub fn reduced(sizes: &[Dim], dims: &[i64], keepdim: bool) -> Vec<Dim> {
    let is_reduced = |dim: usize| dims.contains(&(dim as i64));
    let kept = sizes.iter().enumerate().filter(|&(dim, _)| keepdim || !is_reduced(dim));
    kept.map(|(dim, size)| if is_reduced(dim) { Dim::from(1) } else { size.clone() }).collect()
}

/// Returns the type with the shape to which both broadcast and the element type of the first.
fn broadcast_type(x: Value, y: Value) -> Type {
    Type::tensor_of(&broadcast(&x.ty().dims(), &y.ty().dims()), x.ty().element())
}
