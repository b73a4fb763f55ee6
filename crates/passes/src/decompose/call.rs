//! One `dynamo.aten` op as seen by a lowering: arguments by their position in the schema, and emitters before the op.

use std::{cell::Cell, rc::Rc};

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Op, Type, Value},
    ops::AtenOp,
};

use dynamlir_shapes::{Dim, Dimension, Relation, Scope};

use crate::emit::{Emit, Scalar};

/// The module's properties that lowerings query.
#[derive(Clone, Copy, Default)]
pub struct World {
    /// True if the library uses 512-bit vectors.
    pub wide: bool,
    /// True if eager's operators draw the random numbers.
    pub eager_random: bool,
}

/// A call of an `ATen` operator that is being lowered.
pub struct Call {
    /// The op.
    pub op: Op,
    /// Emits before the op, at its location.
    pub e: Emit,
    /// True if the library uses 512-bit vectors, with which some of its functions have errors of their own.
    pub wide: bool,
    /// True if eager's operators draw the random numbers.
    pub eager_random: bool,
    /// The known facts about symbols in sizes.
    pub scope: Rc<Scope>,
    schema: String,
    args: Vec<Attr>,
    /// Two bit sets of arguments: the expressions that were read as numbers, and the arguments that were read as sizes.
    asked: [Cell<u64>; 2],
}

impl Call {
    /// Reads a `dynamo.aten` op; returns None for any other op.
    pub fn new(op: Op, World { wide, eager_random }: World, scope: Rc<Scope>) -> Option<Self> {
        let call = AtenOp::cast(op)?;
        Some(Self {
            op,
            e: Emit::new(Builder::before(op)),
            wide,
            eager_random,
            scope,
            schema: call.schema(),
            args: call.args(),
            asked: <[Cell<u64>; 2]>::default(),
        })
    }
    /// `aten.<op>.<overload>`.
    pub fn schema(&self) -> &str {
        &self.schema
    }
    /// Returns the number of schema arguments.
    pub fn len(&self) -> usize {
        self.args.len()
    }
    /// Returns true if the schema has no arguments.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }
    /// Returns argument `i` as it is stored in `args`.
    pub fn arg(&self, i: usize) -> Option<Attr> {
        self.args.get(i).copied()
    }
    /// Returns true if argument `i` is None or missing.
    pub fn is_none(&self, i: usize) -> bool {
        self.arg(i).is_none_or(Attr::is_unit)
    }
    /// Argument `i`, if it is a tensor.
    pub fn tensor(&self, i: usize) -> Option<Value> {
        self.operand(self.arg(i)?)
    }
    /// Argument `i`, if it is a list of tensors.
    pub fn tensors(&self, i: usize) -> Option<Vec<Value>> {
        self.arg(i)?.as_array()?.into_iter().map(|attr| self.operand(attr)).collect()
    }
    /// Argument `i`, if it is a list of tensors and Nones.
    pub fn opt_tensors(&self, i: usize) -> Option<Vec<Option<Value>>> {
        let read = |attr: Attr| if attr.is_unit() { Some(None) } else { self.operand(attr).map(Some) };
        self.arg(i)?.as_array()?.into_iter().map(read).collect()
    }
    /// Argument `i`, if it is an integer.
    pub fn int(&self, i: usize) -> Option<i64> {
        self.as_number(i)?.as_i64()
    }
    /// Argument `i`, if it is an integer or an expression.
    pub fn size(&self, i: usize) -> Option<Dim> {
        self.note(1, i);
        Dim::read(self.arg(i)?)
    }
    /// Argument `i`, if it is a list of integers and expressions.
    pub fn sizes(&self, i: usize) -> Option<Vec<Dim>> {
        self.note(1, i);
        let attr = self.arg(i)?;
        Vec::<Dim>::read(attr).or_else(|| attr.as_array()?.into_iter().map(Dim::read).collect())
    }
    /// Argument `i`, if it is a list of integers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        let attr = self.as_number(i)?;
        attr.as_i64s().or_else(|| attr.as_array()?.into_iter().map(Attr::as_i64).collect())
    }
    /// Argument `i` as a double, if it is a number.
    pub fn float(&self, i: usize) -> Option<f64> {
        self.scalar(i).map(Scalar::as_f64)
    }
    /// Argument `i`, if it is a bool.
    pub fn bool(&self, i: usize) -> Option<bool> {
        self.arg(i)?.as_bool()
    }
    /// Argument `i`, if it is a string.
    pub fn str(&self, i: usize) -> Option<String> {
        self.arg(i)?.as_str()
    }
    /// Argument `i`, if it is a dtype.
    pub fn dtype(&self, i: usize) -> Option<Type> {
        self.arg(i)?.as_type()
    }
    /// Argument `i`, if it is a number.
    pub fn scalar(&self, i: usize) -> Option<Scalar> {
        let attr = self.as_number(i)?;
        attr.as_bool().map(Scalar::Bool).or_else(|| attr.as_f64().map(Scalar::Float)).or_else(|| attr.as_i64().map(Scalar::Int))
    }
    /// Returns the type of result `i`.
    pub fn result_type(&self, i: usize) -> Type {
        self.op.result(i).ty()
    }
    /// Returns the sizes of result `i`, as numbers.
    pub fn result_shape(&self, i: usize) -> Vec<i64> {
        self.result_type(i).shape()
    }
    /// Returns the sizes of result `i`, which may be expressions.
    pub fn result_dims(&self, i: usize) -> Vec<Dim> {
        self.result_type(i).dims()
    }
    /// Returns true if the relation between the sizes holds for all values of the symbols.
    pub fn surely(&self, left: &Dim, relation: Relation, right: impl Into<Dim>) -> bool {
        left.compare(relation, &right.into(), &self.scope).unwrap_or(false)
    }
    /// Argument `i` as a dimension of a tensor of this rank; a 0-d tensor has dimension 0 (and -1), as in torch.
    pub fn dim(&self, i: usize, rank: usize) -> Option<i64> {
        wrap(self.int(i)?, rank)
    }
    /// Argument `i` as a sorted list of dimensions. The argument is an integer, a list, or None or empty, which means all dimensions. For a
    /// 0-d tensor the list is empty.
    pub fn dims(&self, i: usize, rank: usize) -> Option<Vec<i64>> {
        let listed = if self.is_none(i) { Vec::new() } else { self.int(i).map(|d| vec![d]).or_else(|| self.ints(i))? };
        if listed.is_empty() {
            return Some((0..rank as i64).collect());
        }
        let mut dims = listed.into_iter().map(|d| wrap(d, rank)).collect::<Option<Vec<_>>>()?;
        if rank == 0 {
            return Some(Vec::new());
        }
        dims.sort_unstable();
        let distinct = dims.windows(2).all(|pair| pair[0] != pair[1]);
        distinct.then_some(dims)
    }

    /// Returns true if an argument that is an expression was read as a number only. The reader then took it for an argument that was not
    /// passed, so what it emitted is wrong.
    pub fn is_misread(&self) -> bool {
        self.asked[0].get() & !self.asked[1].get() != 0
    }

    /// Argument `i` for readers that handle numbers only.
    fn as_number(&self, i: usize) -> Option<Attr> {
        let attr = self.arg(i)?;
        let is_open = |attr: Attr| Dim::read(attr).is_some_and(|size| size.known().is_none());
        if is_open(attr) || Vec::<Dim>::read(attr).is_some_and(|sizes| sizes.iter().any(|size| size.known().is_none())) {
            self.note(0, i);
        }
        Some(attr)
    }

    fn note(&self, how: usize, i: usize) {
        // No schema has more than 63 arguments.
        self.asked[how].set(self.asked[how].get() | 1 << i.min(63));
    }

    fn operand(&self, attr: Attr) -> Option<Value> {
        let index = attr.as_operand()?;
        (index < self.op.num_operands()).then(|| self.op.operand(index))
    }
}

/// Resolves a dimension that may be counted from the end.
pub fn wrap(dim: i64, rank: usize) -> Option<i64> {
    let rank = (rank as i64).max(1);
    let dim = if dim < 0 { dim + rank } else { dim };
    (0..rank).contains(&dim).then_some(dim)
}
