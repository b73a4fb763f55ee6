//! `scf`.

use super::segments;
use crate::ir::{Attr, Block, Builder, DYNAMIC, Op, Type, Value};

/// The dialect.
pub const DIALECT: &str = "scf";

names! {
    FOR = "scf.for";
    FORALL = "scf.forall";
    IF = "scf.if";
    IN_PARALLEL = "scf.forall.in_parallel";
    YIELD = "scf.yield";
}

impl Builder {
    /// `scf.for` over `[lower, upper, step]` that carries values. Its body, whose first argument is the number, has no end yet.
    pub fn scf_for(&self, bounds: [Value; 3], carried: &[Value]) -> (Op, Block) {
        let types: Vec<Type> = carried.iter().map(|value| value.ty()).collect();
        let args = [&[bounds[2].ty()], &types[..]].concat();
        self.op_with_body(FOR, &[&bounds, carried].concat(), &types, &[], &args)
    }
    /// `scf.forall` over `0..count`: a builder for its body, and the number.
    pub fn scf_forall(&self, count: i64) -> (Self, Value) {
        let list = |value: i64| Attr::i64s(self.ctx(), &[value]);
        let bounds = [("staticLowerBound", list(0)), ("staticUpperBound", list(count)), ("staticStep", list(1))];
        let attrs = [&bounds[..], &[segments(self.ctx(), &[0, 0, 0, 0])]].concat();
        let (_, body) = self.op_with_body(FORALL, &[], &[], &attrs, &[Type::index(self.ctx())]);
        let (end, _) = Self::at_end(body, self.loc).op_with_body(IN_PARALLEL, &[], &[], &[], &[]);
        (Self::before(end), body.args()[0])
    }
    /// The same where the count is a value.
    pub fn scf_forall_to(&self, count: Value) -> (Self, Value) {
        let list = |value: i64| Attr::i64s(self.ctx(), &[value]);
        let bounds = [("staticLowerBound", list(0)), ("staticUpperBound", list(DYNAMIC)), ("staticStep", list(1))];
        let attrs = [&bounds[..], &[segments(self.ctx(), &[0, 1, 0, 0])]].concat();
        let (_, body) = self.op_with_body(FORALL, &[count], &[], &attrs, &[Type::index(self.ctx())]);
        let (end, _) = Self::at_end(body, self.loc).op_with_body(IN_PARALLEL, &[], &[], &[], &[]);
        (Self::before(end), body.args()[0])
    }
    /// `scf.if` with `else` and without results. Neither body has an end yet.
    pub fn scf_if_else(&self, condition: Value) -> [Block; 2] {
        let op = self.detached(IF, &[condition], &[], &[], 2);
        let bodies = [Block::new(&[]), Block::new(&[])];
        bodies.iter().enumerate().for_each(|(i, body)| op.region(i).append(*body));
        self.insert(op);
        bodies
    }
    /// `scf.if` without results and without `else`. Its body has no end yet.
    pub fn scf_if(&self, condition: Value) -> Block {
        let op = self.detached(IF, &[condition], &[], &[], 2);
        let body = Block::new(&[]);
        op.region(0).append(body);
        self.insert(op);
        body
    }
    /// `scf.yield`.
    pub fn scf_yield(&self, values: &[Value]) -> Op {
        self.op(YIELD, values, &[], &[])
    }
}
