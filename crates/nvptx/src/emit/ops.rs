//! Short names for the operations in the code of threads: index arithmetic, constants, comparisons.

use std::ops::Deref;

use dynamlir_dialect::{
    ir::{Builder, Type, Value},
    upstream::arith::CmpI,
};

/// A builder with the types in use.
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

impl Ops {
    pub(crate) fn new(builder: Builder) -> Self {
        Self { builder }
    }
    pub(crate) fn int_type(&self, width: u32) -> Type {
        Type::int(self.ctx(), width)
    }
    /// `a + number`.
    pub(crate) fn offset(&self, a: Value, number: i64) -> Value {
        if number == 0 { a } else { self.addi(a, self.index(number)) }
    }
    /// `a * number`.
    pub(crate) fn scale(&self, a: Value, number: i64) -> Value {
        if number == 1 { a } else { self.muli(a, self.index(number)) }
    }
    /// `a < number`.
    pub(crate) fn below(&self, a: Value, number: i64) -> Value {
        self.cmpi(CmpI::Ult, a, self.index(number))
    }
    /// `a == number`.
    pub(crate) fn equals(&self, a: Value, number: i64) -> Value {
        self.cmpi(CmpI::Eq, a, self.index(number))
    }
    /// The smaller of `a` and `number`.
    pub(crate) fn at_most(&self, a: Value, number: i64) -> Value {
        self.minui(a, self.index(number))
    }
    /// The conjunction of two conditions, each of which may be absent.
    pub(crate) fn both(&self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.andi(a, b)),
            (one, other) => one.or(other),
        }
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
                indices[d] = self.remui(left, self.index(sizes[d]));
                left = self.divui(left, self.index(sizes[d]));
            }
        }
        indices
    }
    /// Runs the code that `then` builds if the condition holds, or always without a condition.
    pub(crate) fn when(&self, condition: Option<Value>, then: impl FnOnce(&Self)) {
        let Some(condition) = condition else { return then(self) };
        let inside = Self::new(Builder::at_end(self.scf_if(condition), self.loc));
        then(&inside);
        inside.scf_yield(&[]);
    }
    /// A loop from 0 to `count` that carries values; returns their final values.
    pub(crate) fn repeat(&self, count: i64, carried: &[Value], body: impl FnOnce(&Self, Value, &[Value]) -> Vec<Value>) -> Vec<Value> {
        let bounds = [self.index(0), self.index(count), self.index(1)];
        let (op, block) = self.scf_for(bounds, carried);
        let inside = Self::new(Builder::at_end(block, self.loc));
        let args = block.args();
        let results = body(&inside, args[0], &args[1..]);
        inside.scf_yield(&results);
        op.results()
    }
}
