//! `dynamo-bools-as-bytes`: stores the bools of kernel temporaries as bytes.
//!
//! A kernel's arguments and results have a byte for each `i1`, but temporaries, such as the results of columns that are reduced by `or`,
//! are `memref<…xi1>`. LLVM also gives such an element a byte, but knows nothing about its other bits, so that it vectorizes no loop that
//! loads or stores one.
//!
//! ```mlir
//! %any = memref.alloca() : memref<64xi1>         // before
//! %0 = memref.load %any[%i] : memref<64xi1>
//! memref.store %1, %any[%i] : memref<64xi1>
//!
//! %any = memref.alloca() : memref<64xi8>         // after
//! %byte = memref.load %any[%i] : memref<64xi8>
//! %0 = arith.trunci %byte : i8 to i1
//! %wide = arith.extui %1 : i1 to i8
//! memref.store %wide, %any[%i] : memref<64xi8>
//! ```
//!
//! Runs after the lowering to loops. A function in which other operations use such memory is left unchanged.

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{func, memref},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-bools-as-bytes",
    description: "Store bools as bytes in the memory of kernels",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[CHANGED],
    run,
};

const CHANGED: Statistic = Statistic { name: "functions", description: "functions whose bools became bytes" };

/// Operations that use memory without accessing its contents.
const SEERS: &[&str] = &[
    memref::ALLOC,
    memref::ALLOCA,
    memref::COPY,
    memref::DEALLOC,
    memref::EXTRACT_STRIDED_METADATA,
    memref::LOAD,
    memref::REINTERPRET_CAST,
    memref::STORE,
    memref::SUBVIEW,
];

#[expect(clippy::unnecessary_wraps, reason = "the signature of all passes")]
fn run(module: Op, pass: &Run) -> PassResult {
    pass.counts_all();
    for function in module.body().map(Block::ops).unwrap_or_default() {
        let mut ops = Vec::new();
        function.walk(&mut |op| ops.extend(touches(op).then_some(op)));
        if function.is(func::FUNC) && !ops.is_empty() && ops.iter().all(|op| SEERS.contains(&op.name().as_str())) {
            pass.count(&CHANGED, 1);
            ops.iter()
                .flat_map(|op| op.results())
                .filter(|value| holds_truths(value.ty()))
                .for_each(|value| value.set_type(bytes(value.ty())));
            ops.into_iter().for_each(rewrite);
        }
    }
    Ok(())
}

fn holds_truths(ty: Type) -> bool {
    ty.is_memref() && ty.element().is_bool()
}

/// Returns true if memory of bools is an operand or result of the operation, or an argument of its blocks.
fn touches(op: Op) -> bool {
    let args = (0..op.num_regions()).flat_map(|i| op.region(i).blocks()).flat_map(Block::args);
    op.operands().into_iter().chain(op.results()).chain(args).any(|value: Value| holds_truths(value.ty()))
}

/// The same type with a byte for each bool.
fn bytes(ty: Type) -> Type {
    ty.with_element(Type::int(ty.ctx(), 8))
}

fn rewrite(op: Op) {
    let b = Builder::before(op);
    if op.is(memref::LOAD) {
        let byte = b.memref_load(op.operand(0), &op.operands()[1..]);
        op.result(0).replace_all_uses_with(b.trunci(byte, op.result(0).ty()));
        op.erase();
    } else if op.is(memref::STORE) {
        op.set_operand(0, b.extui(op.operand(0), Type::int(op.ctx(), 8)));
    }
}
