//! `dynamo-fork-if`: runs parallel loops of dynamic size on one thread if there is little work.
//!
//! For a kernel whose sizes are arguments, `dynamo-schedule` does not know whether waking threads pays. It records an expression that is
//! negative if it does not. A parallel region of such a kernel evaluates it when called:
//! ```mlir
//! func.func @k(…, %n: index) attributes {dynamo.parallel = #dynamo.expr<s0*256 - 32768>, …} {
//!   omp.parallel { … }                                          // before
//!
//!   %enough = arith.cmpi sge, …, %c0 : index                    // after
//!   omp.parallel if(%enough) { … }
//! ```
//! The expression is removed afterwards. A kernel without one is left unchanged.

use dynamlir_dialect::{
    ir::{Block, Builder, Op},
    ops,
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{OMP_PARALLEL, arith::CmpI, func, segments},
};

use crate::values::Sizes;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-fork-if",
    description: "Decide at each call of a kernel if its loops run in parallel",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[DECIDED],
    run,
};

const DECIDED: Statistic = Statistic { name: "decided", description: "regions that are parallel only for some sizes" };

/// The operand segment sizes of `omp.parallel`: memory and allocators, the condition, the number of threads, private values, reductions.
const CONDITION_ALONE: [i32; 6] = [0, 0, 1, 0, 0, 0];

fn run(module: Op, pass: &Run) -> PassResult {
    let mut kernels = Vec::new();
    module.walk(&mut |op| kernels.extend((op.is(func::FUNC) && ops::PARALLEL.is_on(op)).then_some(op)));
    if kernels.is_empty() {
        pass.counts_all();
    }
    for function in kernels {
        let (Some(beyond), Some(body)) = (ops::PARALLEL.dim().of(function), function.body()) else { continue };
        let mut regions = Vec::new();
        function.walk(&mut |op| regions.extend((op.is(OMP_PARALLEL) && op.num_operands() == 0).then_some(op)));
        if let Some(&first) = Block::ops(body).first().filter(|_| !regions.is_empty()) {
            let b = Builder::before(first).with_loc(function.loc());
            let sizes = Sizes::of(function, b)?;
            let enough = b.cmpi(CmpI::Sge, sizes.value(&beyond), b.index(0));
            pass.count(&DECIDED, regions.len());
            for region in regions {
                let b = Builder::before(region).with_loc(region.loc());
                let (_, body) = b.op_with_body(OMP_PARALLEL, &[enough], &[], &[segments(b.ctx(), &CONDITION_ALONE)], &[]);
                for op in region.body().map(Block::ops).unwrap_or_default() {
                    op.detach();
                    body.append(op);
                }
                region.erase();
            }
        }
        ops::PARALLEL.remove(function);
    }
    Ok(())
}
