//! `dynamo-print-llvm-ir`: prints the kernels of stage 08 as LLVM IR to standard output.
//!
//! This is the optimizer's input: for the module's target, with the vector variants of math functions and the entries that the runtime
//! calls. It does not need a code generator, so dumps for other machines can be inspected here.

use dynamlir_dialect::{
    ir::{Block, Op},
    ops,
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::llvm,
};

use crate::llvm::{Options, to_llvm_ir};

/// The pass.
pub static PASS: Pass = Pass {
    name: "dynamo-print-llvm-ir",
    description: "Print the kernels of stage 08 as LLVM IR for the module's target",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[PRINTED],
    run,
};

const PRINTED: Statistic = Statistic { name: "kernels", description: "kernels printed" };

fn run(module: Op, pass: &Run) -> PassResult {
    let ops = module.body().map(Block::ops).unwrap_or_default();
    let kernels = ops.into_iter().find(|op| op.symbol().as_deref() == Some("kernels")).unwrap_or(module);
    let functions = kernels.body().map(Block::ops).unwrap_or_default();
    let names: Vec<String> =
        functions.into_iter().filter(|&op| op.is(llvm::FUNC) && ops::KERNEL.is_on(op)).filter_map(Op::symbol).collect();
    pass.count(&PRINTED, names.len());
    let text = to_llvm_ir(kernels, &Options { kernels: names, ..Options::default() });
    print!("{}", text.map_err(|error| PassError::at(kernels, error.to_string()))?);
    Ok(())
}
