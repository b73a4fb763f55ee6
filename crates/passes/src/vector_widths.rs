//! `dynamo-vector-widths` and `dynamo-annotate-branches`: set the vector width of loops for which LLVM would choose badly.
//!
//! LLVM's vectorizer processes as many elements at a time as fit a vector of the widest element type in a loop. A sum of `f32` that may be
//! long is computed in `f64`, and with dynamic sizes any sum may be long: everything summed would be computed in vectors of half the
//! length.
//! ```mlir
//! scf.for %j = %c0 to %columns step %c1 {
//!   %exp = math.exp %x : f32
//!   %wide = arith.extf %exp : f32 to f64
//!   %next = arith.addf %sum, %wide fastmath<reassoc> : f64
//!   …
//! }                                                                                             // before
//! } {llvm.loop_annotation = #llvm.loop_annotation<vectorize = <width = 16 : i32, …>, …>}       // after
//! ```
//! The loop's branch inherits the annotation, but under a name that LLVM 22 does not look up when it translates: the second pass renames
//! it.
//!
//! The width exceeds that of the sum's own vectors, which are split in two. Only one such vector is processed at a time, and the last one
//! of a row is masked: with an explicit width, LLVM 22 leaves the remainder of a row to a scalar loop. Softmax takes 0.6 to 1.0 of the
//! time.
//!
//! Restriction: only for vectors of 512 bits, whose instructions support masks. Loops that also compute with `f64` are left unchanged, and
//! so are kernels whose sizes are static.

use dynamlir_dialect::{
    ir::{Attr, Block, Op, Target, Type},
    ops,
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{arith, func, llvm, math, memref, scf},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-vector-widths",
    description: "Set the vector width of loops over f32 that sum in f64",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[ANNOTATED],
    run,
};

/// The second pass.
pub const BRANCHES: Pass = Pass {
    name: "dynamo-annotate-branches",
    description: "Rename the loop annotations on branches so that LLVM's translation finds them",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[ANNOTATED],
    run: branches,
};

const ANNOTATED: Statistic = Statistic { name: "annotated", description: "loops with a vector width" };

/// The vector size in bits that supports masking at no cost.
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

/// Returns true if an innermost loop computes with `f32`, and uses `f64` only to sum. Computations of an instruction or two are faster
/// without an annotation: the sums limit them, and LLVM then interleaves several sums.
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
