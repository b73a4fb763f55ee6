//! `scf`.

use super::segments;
use crate::ir::{Attr, Block, Builder, DYNAMIC, Op, Type, Value};

/// The dialect.
pub const DIALECT: &str = "scf";

names! {
    CONDITION = "scf.condition";
    FOR = "scf.for";
    FORALL = "scf.forall";
    IF = "scf.if";
    IN_PARALLEL = "scf.forall.in_parallel";
    WHILE = "scf.while";
    YIELD = "scf.yield";
}

impl Builder {
    /// `scf.for` over `[lower, upper, step]` that carries values. Its body, whose first argument is the induction variable, has no
    /// terminator yet.
    pub fn scf_for(&self, bounds: [Value; 3], carried: &[Value]) -> (Op, Block) {
        let types: Vec<Type> = carried.iter().map(|value| value.ty()).collect();
        let args = [&[bounds[2].ty()], &types[..]].concat();
        self.op_with_body(FOR, &[&bounds, carried].concat(), &types, &[], &args)
    }
    /// `scf.forall` over `0..count`: returns a builder for its body, and the index.
    pub fn scf_forall(&self, count: i64) -> (Self, Value) {
        let list = |value: i64| Attr::i64s(self.ctx(), &[value]);
        let bounds = [("staticLowerBound", list(0)), ("staticUpperBound", list(count)), ("staticStep", list(1))];
        let attrs = [&bounds[..], &[segments(self.ctx(), &[0, 0, 0, 0])]].concat();
        let (_, body) = self.op_with_body(FORALL, &[], &[], &attrs, &[Type::index(self.ctx())]);
        let (end, _) = Self::at_end(body, self.loc).op_with_body(IN_PARALLEL, &[], &[], &[], &[]);
        (Self::before(end), body.args()[0])
    }
    /// The same with a count that is a value.
    pub fn scf_forall_to(&self, count: Value) -> (Self, Value) {
        let list = |value: i64| Attr::i64s(self.ctx(), &[value]);
        let bounds = [("staticLowerBound", list(0)), ("staticUpperBound", list(DYNAMIC)), ("staticStep", list(1))];
        let attrs = [&bounds[..], &[segments(self.ctx(), &[0, 1, 0, 0])]].concat();
        let (_, body) = self.op_with_body(FORALL, &[count], &[], &attrs, &[Type::index(self.ctx())]);
        let (end, _) = Self::at_end(body, self.loc).op_with_body(IN_PARALLEL, &[], &[], &[], &[]);
        (Self::before(end), body.args()[0])
    }
    /// `scf.if` with `else` and without results. Neither body has a terminator yet.
    pub fn scf_if_else(&self, condition: Value) -> [Block; 2] {
        let op = self.detached(IF, &[condition], &[], &[], 2);
        let bodies = [Block::new(&[]), Block::new(&[])];
        bodies.iter().enumerate().for_each(|(i, body)| op.region(i).append(*body));
        self.insert(op);
        bodies
    }
    /// `scf.if` with `else` and a result. Neither body has a terminator yet.
    pub fn scf_if_value(&self, condition: Value, ty: Type) -> ([Block; 2], Value) {
        let op = self.detached(IF, &[condition], &[ty], &[], 2);
        let bodies = [Block::new(&[]), Block::new(&[])];
        bodies.iter().enumerate().for_each(|(i, body)| op.region(i).append(*body));
        self.insert(op);
        (bodies, op.result(0))
    }
    /// `scf.if` without results and without `else`. Its body has no terminator yet.
    pub fn scf_if(&self, condition: Value) -> Block {
        let op = self.detached(IF, &[condition], &[], &[], 2);
        let body = Block::new(&[]);
        op.region(0).append(body);
        self.insert(op);
        body
    }
    /// `scf.while` that carries one value: `condition` builds its test and `next` its body, each in a block of its own.
    pub fn scf_while(&self, value: Value, condition: impl FnOnce(Self, Value) -> Value, next: impl FnOnce(Self, Value) -> Value) -> Value {
        let op = self.detached(WHILE, &[value], &[value.ty()], &[], 2);
        let blocks = [Block::new(&[(value.ty(), self.loc)]), Block::new(&[(value.ty(), self.loc)])];
        blocks.iter().enumerate().for_each(|(i, block)| op.region(i).append(*block));
        self.insert(op);
        let [asking, doing] = blocks.map(|block| (Self::at_end(block, self.loc), block.args()[0]));
        asking.0.op(CONDITION, &[condition(asking.0, asking.1), asking.1], &[], &[]);
        doing.0.scf_yield(&[next(doing.0, doing.1)]);
        op.result(0)
    }
    /// `scf.yield`.
    pub fn scf_yield(&self, values: &[Value]) -> Op {
        self.op(YIELD, values, &[], &[])
    }
}
