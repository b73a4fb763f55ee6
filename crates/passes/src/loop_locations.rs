//! `dynamo-loop-locations`: gives loop variables their loop's location.
//!
//! The printed form of `scf.for`, `scf.forall` and `scf.parallel` cannot express the locations of their variables, so these have the lines
//! of the dump itself when it is parsed. The LLVM dialect prints them, as block arguments. With this pass first, lowering a dumped module
//! gives the same text as the compilation itself.

use dynamlir_dialect::{
    ir::Op,
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::scf,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-loop-locations",
    description: "Give loop variables the location of their loop",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[LOCATED],
    run,
};

const LOCATED: Statistic = Statistic { name: "loops", description: "loops whose variables have a location" };

fn run(module: Op, pass: &Run) -> PassResult {
    module.walk(&mut |op| {
        if op.is_of(scf::DIALECT) {
            pass.count(&LOCATED, usize::from(op.num_regions() > 0));
            for block in (0..op.num_regions()).flat_map(|i| op.region(i).blocks()) {
                block.args().into_iter().for_each(|arg| arg.set_loc(op.loc()));
            }
        }
    });
    Ok(())
}
