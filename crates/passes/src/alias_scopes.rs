//! `dynamo-alias-scopes`: carries the plan's knowledge of aliasing into the bodies of parallel loops.
//!
//! A kernel's arguments are `llvm.noalias` if the plan proved it. LLVM loses this when the loop body becomes a separate function that loads
//! its pointers from a record: loops get overlap tests, and a scalar copy in case these fail. So each load and store is annotated, by
//! scopes, with the argument that it accesses and the arguments that it does not.
//!
//! Runs last, on the LLVM dialect, while parallel regions are still part of the kernel's function.

use dynamlir_dialect::{
    ir::{Attr, Block, Op, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::llvm,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-alias-scopes",
    description: "Annotate loads and stores with the alias scopes of the kernel's arguments",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[ANNOTATED],
    run,
};

const ANNOTATED: Statistic = Statistic { name: "annotated", description: "loads and stores with an alias scope" };

fn run(module: Op, pass: &Run) -> PassResult {
    let functions = module.body().map(Block::ops).unwrap_or_default();
    functions.into_iter().filter(|op| op.is(llvm::FUNC)).for_each(|function| annotate(function, pass));
    Ok(())
}

fn annotate(function: Op, pass: &Run) {
    let Some(entry) = function.body() else { return };
    let args = entry.args();
    let name = function.symbol().unwrap_or_default();
    let scope = |index| is_noalias(function, index).then(|| llvm::alias_scope(function.ctx(), &name, index));
    let scopes: Vec<_> = (0..args.len()).map(scope).collect();
    if scopes.iter().flatten().count() < 2 {
        return;
    }

    function.walk(&mut |op| {
        let address = match () {
            () if op.is(llvm::LOAD) => op.operand(0),
            () if op.is(llvm::STORE) => op.operand(1),
            () => return,
        };
        let Some(own) = base(address).and_then(|base| args.iter().position(|&arg| arg == base)) else { return };
        let others: Vec<_> = scopes.iter().enumerate().filter(|&(index, _)| index != own).filter_map(|(_, scope)| *scope).collect();
        pass.count(&ANNOTATED, 1);
        if let Some(scope) = scopes[own] {
            op.set_attr("alias_scopes", Attr::array(op.ctx(), &[scope]));
        }
        if !others.is_empty() {
            op.set_attr("noalias_scopes", Attr::array(op.ctx(), &others));
        }
    });
}

/// Follows address arithmetic back to its base pointer.
fn base(mut address: Value) -> Option<Value> {
    while let Some(op) = address.def() {
        if !op.is(llvm::GETELEMENTPTR) {
            return None;
        }
        address = op.operand(0);
    }
    Some(address)
}

fn is_noalias(function: Op, index: usize) -> bool {
    function.optional::<Vec<Attr>>("arg_attrs").and_then(|attrs| attrs.get(index)?.get(llvm::NOALIAS)).is_some()
}
