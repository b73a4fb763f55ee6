//! Building operations.

use mlir_sys::*;

use super::{Attr, Block, Ctx, Loc, Op, Region, Type, Value, str_ref};

/// An insertion point and the location of new operations.
#[derive(Clone, Copy)]
pub struct Builder {
    ctx: Ctx,
    block: Block,
    before: Option<Op>,
    /// The location of operations built next.
    pub loc: Loc,
}

impl Builder {
    /// Builds at the end of `block`.
    pub fn at_end(block: Block, loc: Loc) -> Self {
        Self { ctx: loc.ctx(), block, before: None, loc }
    }
    /// Builds before `op`, at its location.
    pub fn before(op: Op) -> Self {
        let block = op.block().expect("an operation inside a block");
        Self { ctx: op.ctx(), block, before: Some(op), loc: op.loc() }
    }
    /// The context.
    pub fn ctx(&self) -> Ctx {
        self.ctx
    }
    /// The block of the insertion point.
    pub fn block(&self) -> Block {
        self.block
    }
    /// The same insertion point with another location.
    #[must_use]
    pub fn with_loc(mut self, loc: Loc) -> Self {
        self.loc = loc;
        self
    }
    /// Inserts a detached operation at the insertion point.
    pub fn insert(&self, op: Op) {
        match self.before {
            Some(before) => self.block.insert_before(before, op),
            None => self.block.append(op),
        }
    }
    /// Builds any operation. The caller always gives the result types; nothing is inferred or verified here.
    pub fn op(&self, name: &str, operands: &[Value], results: &[Type], attrs: &[(&str, Attr)]) -> Op {
        let op = self.detached(name, operands, results, attrs, 0);
        self.insert(op);
        op
    }
    /// Builds an operation with one region, which has one empty block with these arguments.
    pub fn op_with_body(&self, name: &str, operands: &[Value], results: &[Type], attrs: &[(&str, Attr)], args: &[Type]) -> (Op, Block) {
        let op = self.detached(name, operands, results, attrs, 1);
        let args: Vec<_> = args.iter().map(|&ty| (ty, self.loc)).collect();
        let block = Block::new(&args);
        op.region(0).append(block);
        self.insert(op);
        (op, block)
    }
    /// Creates an operation with `regions` empty regions, outside any block.
    pub fn detached(&self, name: &str, operands: &[Value], results: &[Type], attrs: &[(&str, Attr)], regions: usize) -> Op {
        let operands: Vec<_> = operands.iter().map(|v| v.0).collect();
        let results: Vec<_> = results.iter().map(|t| t.0).collect();
        // SAFETY: arrays are passed with their own length and copied; created regions pass into the operation.
        unsafe {
            let named: Vec<_> =
                attrs.iter().map(|(name, attr)| mlirNamedAttributeGet(mlirIdentifierGet(self.ctx.0, str_ref(name)), attr.0)).collect();
            let mut state = mlirOperationStateGet(str_ref(name), self.loc.0);
            mlirOperationStateAddOperands(&raw mut state, operands.len() as isize, operands.as_ptr());
            mlirOperationStateAddResults(&raw mut state, results.len() as isize, results.as_ptr());
            mlirOperationStateAddAttributes(&raw mut state, named.len() as isize, named.as_ptr());
            let regions: Vec<_> = (0..regions).map(|_| mlirRegionCreate()).collect();
            mlirOperationStateAddOwnedRegions(&raw mut state, regions.len() as isize, regions.as_ptr());
            let raw = mlirOperationCreate(&raw mut state);
            assert!(!raw.ptr.is_null(), "cannot build {name}: is its dialect loaded?");
            Op(raw)
        }
    }
    /// Builds a single-result operation and returns the result.
    pub fn value(&self, name: &str, operands: &[Value], result: Type, attrs: &[(&str, Attr)]) -> Value {
        self.op(name, operands, &[result], attrs).result(0)
    }
    /// Builds `func.func @name` with an empty entry block and returns both.
    pub fn func(&self, name: &str, inputs: &[Type], results: &[Type], attrs: &[(&str, Attr)]) -> (Op, Block) {
        let mut all = vec![("sym_name", Attr::str(self.ctx, name)), ("function_type", Type::function(self.ctx, inputs, results).as_attr())];
        all.extend_from_slice(attrs);
        self.op_with_body("func.func", &[], &[], &all, inputs)
    }
    /// Region 0 of an operation, for appending blocks.
    pub fn region(op: Op) -> Region {
        op.region(0)
    }
}
