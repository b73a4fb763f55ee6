//! `dynamo-vector-widths` and `dynamo-annotate-branches`: tells LLVM how wide the vectors of a loop should be, where it would go by the wrong numbers.
//!
//! LLVM's vectorizer has as many elements at a time as vectors of the widest number in a loop have. A sum of `f32` that may be long is
//! taken in `f64`, and where sizes are arguments each may be: all that is summed would be computed in vectors half as long.
//! ```mlir
//! scf.for %j = %c0 to %columns step %c1 {
//!   %exp = math.exp %x : f32
//!   %wide = arith.extf %exp : f32 to f64
//!   %next = arith.addf %sum, %wide fastmath<reassoc> : f64
//!   …
//! }                                                                                             // before
//! } {llvm.loop_annotation = #llvm.loop_annotation<vectorize = <width = 16 : i32, …>, …>}       // after
//! ```
//! The loop's branch inherits what is said of it, but under a name that LLVM 22 does not look for when it translates: the second pass
//! gives it the right one.
//!
//! That is wider than the sum's own vectors, which become two. There is one such vector at a time, and the last one of a row is masked:
//! where somebody says a width, LLVM 22 leaves the rest of a row to a loop over numbers. Softmax takes 0.6 to 1.0 of the time.
//!
//! Restriction: for vectors of 512 bits, whose instructions take masks. Loops that compute with `f64` besides are left as they are, and
//! so are kernels of numbers.

use dynamlir_dialect::{
    ir::{Attr, Block, Op, Target, Type},
    ops,
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{arith, func, llvm, math, memref, scf},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-vector-widths",
    description: "Say how wide vectors of loops over f32 are that sum in f64",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[ANNOTATED],
    run,
};

/// The second pass.
pub const BRANCHES: Pass = Pass {
    name: "dynamo-annotate-branches",
    description: "Say of branches of the LLVM dialect what is said of their loops",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[ANNOTATED],
    run: branches,
};

const ANNOTATED: Statistic = Statistic { name: "annotated", description: "loops whose vectors have a width" };

/// Bits of vectors that are masked at no cost.
const MASKED_BITS: i64 = 512;

fn run(module: Op, pass: &Run) -> PassResult {
    let bits = Target::of(module).vector_bits;
    let mut loops = Vec::new();
    module.walk(&mut |op| {
        if op.is(func::FUNC) && ops::SYMBOLS.is_on(op) {
            op.walk(&mut |op| loops.extend((op.is(scf::FOR) && sums_wide(op)).then_some(op)));
        }
    });
    pass.counts_all();
    if bits >= MASKED_BITS {
        pass.count(&ANNOTATED, loops.len());
        for op in loops {
            let width = bits / 32;
            let text = format!(
                "#llvm.loop_annotation<vectorize = <predicateEnable = true, width = {width} : i32>, interleave = <count = 1 : i32>>"
            );
            op.set_attr(llvm::LOOP_ANNOTATION, Attr::known(op.ctx(), &text));
        }
    }
    Ok(())
}

fn branches(module: Op, pass: &Run) -> PassResult {
    pass.counts_all();
    module.walk(&mut |op| {
        if let Some(annotation) = op.attr(llvm::LOOP_ANNOTATION).filter(|_| op.is(llvm::BR) || op.is(llvm::COND_BR)) {
            op.remove_attr(llvm::LOOP_ANNOTATION);
            op.set_attr("loop_annotation", annotation);
            pass.count(&ANNOTATED, 1);
        }
    });
    Ok(())
}

/// Whether an innermost loop computes with `f32`, and with `f64` only to sum. What takes an instruction or two is faster as LLVM has it: it
/// waits for the sums, of which several at a time are taken then.
fn sums_wide(op: Op) -> bool {
    let body = op.body().map(Block::ops).unwrap_or_default();
    let [single, double] = [Type::f32(op.ctx()), Type::f64(op.ctx())];
    let of = |ty: Type| body.iter().filter(move |op| op.num_results() == 1 && op.result(0).ty() == ty && !op.is(arith::EXTF));
    let computes = |op: &&Op| op.is_of(math::DIALECT) || op.is(arith::DIVF);
    body.iter().all(|op| op.num_regions() == 0)
        && of(double).any(|op| op.is(arith::ADDF))
        && of(double).all(|op| op.is(arith::ADDF) || op.is(memref::LOAD))
        && of(single).any(|op| computes(&op))
}
