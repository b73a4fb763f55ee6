//! Short names for the operations that threads are made of: index arithmetic, constants, comparisons.

use std::ops::Deref;

use dynamlir_dialect::ir::{Attr, Builder, Type, Value};

/// A builder that knows the types in use.
#[derive(Clone, Copy)]
pub(crate) struct Ops {
    builder: Builder,
}

impl Deref for Ops {
    type Target = Builder;
    fn deref(&self) -> &Builder {
        &self.builder
    }
}

/// `arith.cmpi` ult.
const ULT: i64 = 6;
/// `arith.cmpi` eq.
const EQ: i64 = 0;

impl Ops {
    pub(crate) fn new(builder: Builder) -> Self {
        Self { builder }
    }
    pub(crate) fn index_type(&self) -> Type {
        Type::index(self.ctx())
    }
    pub(crate) fn int_type(&self, width: u32) -> Type {
        Type::int(self.ctx(), width)
    }
    /// A number of type `index`.
    pub(crate) fn index(&self, value: i64) -> Value {
        self.constant(self.index_type(), value)
    }
    /// A number of an integer type.
    pub(crate) fn constant(&self, ty: Type, value: i64) -> Value {
        self.value("arith.constant", &[], ty, &[("value", Attr::int_of(ty, value))])
    }
    /// Any operation of two operands of one type.
    pub(crate) fn binary(&self, name: &str, a: Value, b: Value) -> Value {
        self.value(name, &[a, b], a.ty(), &[])
    }
    pub(crate) fn add(&self, a: Value, b: Value) -> Value {
        self.binary("arith.addi", a, b)
    }
    /// `a + number`.
    pub(crate) fn offset(&self, a: Value, number: i64) -> Value {
        if number == 0 { a } else { self.add(a, self.index(number)) }
    }
    /// `a * number`.
    pub(crate) fn scale(&self, a: Value, number: i64) -> Value {
        if number == 1 { a } else { self.binary("arith.muli", a, self.index(number)) }
    }
    /// `a < number`.
    pub(crate) fn below(&self, a: Value, number: i64) -> Value {
        self.compare(ULT, a, self.index(number))
    }
    /// `a == number`.
    pub(crate) fn equals(&self, a: Value, number: i64) -> Value {
        self.compare(EQ, a, self.index(number))
    }
    fn compare(&self, predicate: i64, a: Value, b: Value) -> Value {
        let predicate = Attr::i64(self.ctx(), predicate);
        self.value("arith.cmpi", &[a, b], self.int_type(1), &[("predicate", predicate)])
    }
    /// The smaller of `a` and `number`.
    pub(crate) fn at_most(&self, a: Value, number: i64) -> Value {
        self.binary("arith.minui", a, self.index(number))
    }
    /// `condition ? a : b`.
    pub(crate) fn select(&self, condition: Value, a: Value, b: Value) -> Value {
        self.value("arith.select", &[condition, a, b], a.ty(), &[])
    }
    /// Both, where one may be absent.
    pub(crate) fn both(&self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.binary("arith.andi", a, b)),
            (one, other) => one.or(other),
        }
    }
    /// `gpu.thread_id x` and its like.
    pub(crate) fn id(&self, name: &str, dimension: &str) -> Value {
        let dimension = Attr::parse(self.ctx(), &format!("#gpu<dim {dimension}>")).expect("the gpu dialect is registered");
        self.value(name, &[], self.index_type(), &[("dimension", dimension)])
    }
    /// The index in each of some dimensions, from a number that counts through all of them, innermost fastest.
    pub(crate) fn unravel(&self, linear: Value, sizes: &[i64]) -> Vec<Value> {
        let mut indices = vec![linear; sizes.len()];
        let mut left = linear;
        for d in (0..sizes.len()).rev() {
            if sizes[..d].iter().all(|&size| size == 1) {
                indices[d] = left;
                left = self.index(0);
            } else {
                indices[d] = self.binary("arith.remui", left, self.index(sizes[d]));
                left = self.binary("arith.divui", left, self.index(sizes[d]));
            }
        }
        indices
    }
    /// Runs what `then` builds where the condition holds; without one, always.
    pub(crate) fn when(&self, condition: Option<Value>, then: impl FnOnce(&Self)) {
        let Some(condition) = condition else { return then(self) };
        let op = self.detached("scf.if", &[condition], &[], &[], 2);
        let block = dynamlir_dialect::ir::Block::new(&[]);
        op.region(0).append(block);
        self.insert(op);
        let inside = Self::new(Builder::at_end(block, self.loc));
        then(&inside);
        inside.op("scf.yield", &[], &[], &[]);
    }
    /// A loop from 0 to `count` that carries values; gives what it carried last.
    pub(crate) fn repeat(&self, count: i64, carried: &[Value], body: impl FnOnce(&Self, Value, &[Value]) -> Vec<Value>) -> Vec<Value> {
        let bounds = [self.index(0), self.index(count), self.index(1)];
        let operands: Vec<_> = bounds.iter().chain(carried).copied().collect();
        let types: Vec<_> = carried.iter().map(|value| value.ty()).collect();
        let args: Vec<_> = std::iter::once(self.index_type()).chain(types.iter().copied()).collect();
        let (op, block) = self.op_with_body("scf.for", &operands, &types, &[], &args);
        let inside = Self::new(Builder::at_end(block, self.loc));
        let args = block.args();
        let results = body(&inside, args[0], &args[1..]);
        inside.op("scf.yield", &results, &[], &[]);
        op.results()
    }
    /// All threads of the block wait for each other, and see each other's writes.
    pub(crate) fn barrier(&self) {
        self.op("gpu.barrier", &[], &[], &[]);
    }
}
