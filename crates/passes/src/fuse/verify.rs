//! `dynamo-verify-kernels`: checks the contract of stage 03.
//!
//! - A kernel declares its domain D (sizes, no unit dims) and its reduced dims R (increasing dims of D).
//! - Every argument, value and result is a tensor of shape D or of the row shape, D without R. Exceptions are the table of a `gather`, an
//!   argument of any shape that is used only as the table of gathers, and the operands of a `matmul`.
//! - Its operations are pointwise primitives, `full`, `iota`, `reduce` over exactly R, `arg_reduce` along the only dim of R, and
//!   `broadcast` of a row over D. Or they are pointwise ones and one `scan`, whose elements, possibly converted, are the only result. Or
//!   they are pointwise ones and one `matmul`.
//! - The graph function launches kernels (with their own types, as the op's verifier checks). Besides launches it contains extern calls,
//!   views, and the primitives that copy buffers (`concatenate`, `pad`, `as_strided_scatter`).

use super::{Kind, is_table, kind, reduced_dims, row_of, tables};
use dynamlir_dialect::{
    ir::{Block, Op, Value},
    ops::{self, BroadcastOp, ConvertOp},
    pass::{Pass, PassError, PassResult, Run, Takes},
    program::kernels,
    upstream::func,
};
use dynamlir_shapes::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-verify-kernels",
    description: "Check that kernel functions and their launches are well-formed",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[],
    run,
};

fn run(module: Op, _run: &Run) -> PassResult {
    let top = module.body().map(Block::ops).unwrap_or_default();
    for function in kernels(module) {
        if !function.is(func::FUNC) || !ops::KERNEL.is_on(function) {
            return Err(PassError::at(function, "expected only functions marked dynamo.kernel in module @kernels"));
        }
        kernel(function)?;
    }
    for function in top.iter().filter(|op| op.is(func::FUNC)) {
        for op in function.body().map(Block::ops).unwrap_or_default() {
            graph_op(op)?;
        }
    }
    Ok(())
}

fn kernel(function: Op) -> PassResult {
    let missing = |name: &str| PassError::at(function, format!("a kernel needs '{name}'"));
    let domain = ops::DOMAIN.dims().of(function).ok_or_else(|| missing(ops::DOMAIN.name()))?;
    let reduced = ops::REDUCED_DIMS.of(function).ok_or_else(|| missing(ops::REDUCED_DIMS.name()))?;
    if domain.contains(&Dim::from(1)) {
        return Err(PassError::at(function, format!("expected a domain without unit dims, got {domain:?}")));
    }
    let Some(body) = function.body().filter(|_| function.region(0).blocks().len() == 1) else {
        return Err(PassError::at(function, "expected a kernel of one block"));
    };
    let shape = Shape { kept: row_of(&domain, &reduced).0, row: row_of(&domain, &reduced).1, domain, reduced };
    for arg in body.args().into_iter().filter(|&arg| !serves_as_table(arg)) {
        shape.check(function, "argument", arg)?;
    }
    let (mut scan, mut product) = (None, None);
    for op in body.ops() {
        if op.is(func::RETURN) {
            if scan.is_some_and(|scan: Op| !is_made_of(&op.operands(), scan)) {
                return Err(PassError::at(op, "expected the scan to be the only result of its kernel"));
            }
            continue;
        }
        if kind(op) == Kind::Scan && scan.replace(op).is_some() {
            return Err(PassError::at(op, "expected one scan in a kernel"));
        }
        if kind(op) == Kind::Product && product.replace(op).is_some() {
            return Err(PassError::at(op, "expected one matmul in a kernel"));
        }
        shape.operation(op)?;
    }
    Ok(())
}

/// Returns true if there is a single result, and it is the result of the scan or a conversion of it.
fn is_made_of(results: &[Value], scan: Op) -> bool {
    let [result] = results else { return false };
    let mut made = result.def();
    while let Some(op) = made.filter(|op| op.is(ConvertOp::NAME)) {
        made = op.operand(0).def();
    }
    made == Some(scan)
}

struct Shape {
    domain: Vec<Dim>,
    reduced: Vec<i64>,
    row: Vec<Dim>,
    kept: Vec<i64>,
}

impl Shape {
    fn check(&self, at: Op, what: &str, value: Value) -> PassResult {
        let ty = value.ty();
        if ty.is_tensor() && ty.sizes().is_some_and(|sizes| sizes == self.domain || sizes == self.row) {
            return Ok(());
        }
        Err(PassError::at(at, format!("expected {what} of shape {:?} (domain) or {:?} (row), got {ty}", self.domain, self.row)))
    }

    fn operation(&self, op: Op) -> PassResult {
        let name = op.name();
        match kind(op) {
            Kind::Reduce | Kind::ArgReduce => {
                let dims = reduced_dims(op);
                if dims != self.reduced || op.operand(0).ty().dims() != self.domain {
                    return Err(PassError::at(
                        op,
                        format!("expected '{name}' of the domain over {:?}, got dims {dims:?} of {}", self.reduced, op.operand(0).ty()),
                    ));
                }
            }
            Kind::Scan if !self.reduced.is_empty() => return Err(PassError::at(op, "expected no reduced dims beside a scan")),
            Kind::Pointwise | Kind::Product
                if !tables(op).into_iter().all(|table| table.arg_index().is_some() && serves_as_table(table)) =>
            {
                return Err(PassError::at(op, "expected the table to be an argument that nothing but gathers and products read"));
            }
            Kind::Product if !self.reduced.is_empty() || op.result(0).ty().dims() != self.domain => {
                return Err(PassError::at(op, "expected the product to be of the domain, and nothing reduced"));
            }
            Kind::Product | Kind::Pointwise | Kind::Full | Kind::Iota | Kind::Scan => {}
            Kind::Broadcast => {
                let spreads = op.operand(0).ty().dims() == self.row
                    && op.result(0).ty().dims() == self.domain
                    && BroadcastOp::cast(op).is_some_and(|spread| spread.dims() == self.kept);
                if !spreads || self.reduced.is_empty() {
                    return Err(PassError::at(op, format!("expected '{name}' of a row over the domain, dims {:?}", self.kept)));
                }
            }
            _ => return Err(PassError::at(op, format!("'{name}' may not stand in a kernel"))),
        }
        op.results().into_iter().try_for_each(|result| self.check(op, "a result", result))
    }
}

/// Returns true if a value is used only as the table of gathers.
fn serves_as_table(value: Value) -> bool {
    let uses = value.uses();
    !uses.is_empty() && uses.iter().all(|used| is_table(used.op, used.index))
}

fn graph_op(op: Op) -> PassResult {
    let name = op.name();
    if kind(op).is_compute() || kind(op).is_constant() {
        return Err(PassError::at(op, format!("'{name}' may not stand outside a kernel")));
    }
    Ok(())
}
