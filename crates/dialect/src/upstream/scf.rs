//! `scf`.

use crate::ir::{Block, Builder, Op, Type, Value};

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
