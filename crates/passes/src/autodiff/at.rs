//! One operation as seen by its rule: arguments, results and their gradients, and methods to add the gradients of operands.

use std::rc::Rc;

use dynamlir_dialect::ir::{Op, Type, Value};

use super::{
    aten::{Aten, Made},
    walk::Walk,
};
use crate::decompose::{Call, World};

/// A rule; it returns None if it does not know the derivative of this call.
pub type Rule = fn(&mut At) -> Option<()>;

/// An operation that a gradient has reached.
pub struct At<'a, 's> {
    walk: &'a mut Walk<'s>,
    /// The operation.
    pub op: Op,
    /// The arguments of an `ATen` operator, by position in the schema. New ops are emitted through `a`.
    call: Option<Call>,
    /// Emits at the end of the function.
    pub a: Aten<'s>,
}

impl<'a, 's> At<'a, 's> {
    /// Prepares an operation for its rule.
    pub fn new(walk: &'a mut Walk<'s>, op: Op, a: Aten<'s>) -> Self {
        Self { walk, op, call: Call::new(op, World::default(), Rc::clone(a.scope)), a }
    }
    /// Returns true if the operation has complex operands or results; few rules handle their conjugates.
    pub fn has_complex(&self) -> bool {
        let is_complex = |value: &Value| value.ty().element().is_complex();
        self.op.operands().iter().chain(&self.op.results()).any(is_complex)
    }
    /// The arguments of an `ATen` operator.
    pub fn c(&self) -> Option<&Call> {
        self.call.as_ref()
    }
    /// The gradient of result 0.
    pub fn g(&self) -> Option<Value> {
        self.gradient(0)
    }
    /// The gradient of a result, if one has reached it.
    pub fn gradient(&self, result: usize) -> Option<Value> {
        self.walk.gradient(self.op.result(result))
    }
    /// A result.
    pub fn out(&self, result: usize) -> Value {
        self.op.result(result)
    }
    /// Argument `i` of the schema, if it is a tensor.
    pub fn tensor(&self, i: usize) -> Option<Value> {
        self.call.as_ref()?.tensor(i)
    }
    /// Returns true if argument `i` of the schema is a tensor that needs a gradient.
    pub fn needs(&self, i: usize) -> bool {
        self.tensor(i).is_some_and(|value| self.walk.needs(value))
    }
    /// Returns true if a value needs a gradient.
    pub fn wants(&self, value: Value) -> bool {
        self.walk.needs(value)
    }
    /// Adds the gradient of argument `i`.
    pub fn give(&mut self, i: usize, gradient: Value) -> Option<()> {
        let value = self.tensor(i)?;
        self.give_to(value, gradient);
        Some(())
    }
    /// Adds the gradient of an operand.
    pub fn give_to(&mut self, value: Value, gradient: Value) {
        self.walk.add(value, gradient);
    }
    /// Adds the gradient of argument `i`, which was broadcast and promoted: sums it, and converts it to the argument's element type.
    pub fn give_broadcast(&mut self, i: usize, gradient: Value) -> Option<()> {
        let value = self.tensor(i)?;
        let gradient = self.a.sum_to(gradient, &value.ty().dims())?;
        self.give_to(value, self.a.cast(gradient, value.ty().element()));
        Some(())
    }
    /// Calls a backward operator that returns the gradients of several arguments, and adds those that are needed; `mask` is passed as its
    /// last argument.
    pub fn give_all<const N: usize>(
        &mut self,
        wanted: [usize; N],
        call: impl FnOnce(&Aten, Vec<bool>, &[Made]) -> Vec<Value>,
    ) -> Option<()> {
        let mask: Vec<bool> = wanted.iter().map(|&i| self.needs(i)).collect();
        let made = |i: usize| match self.tensor(i).filter(|_| self.needs(i)) {
            Some(value) => (value.ty(), Some(self.a.layout_like(value))),
            None => self.a.nothing(),
        };
        let results = call(&self.a, mask.clone(), &wanted.map(made));
        for ((i, is_wanted), gradient) in wanted.into_iter().zip(mask).zip(results) {
            if is_wanted {
                self.give(i, gradient)?;
            }
        }
        Some(())
    }
    /// The element type of argument `i`.
    pub fn element(&self, i: usize) -> Option<Type> {
        self.tensor(i).map(|value| value.ty().element())
    }
}
