//! `dynamo-legalize-arith`: takes to LLVM intrinsics what the general lowerings would spoil.
//!
//! - `arith.maximumf`, `minimumf`, `maxnumf`, `minnumf`: `arith-expand` (needed for bf16) turns them into chains of
//!   comparisons that LLVM does not recognize as reductions, so a row maximum would run one element at a time.
//! - `math.sqrt`, `floor`, `fma` and their like: `convert-math-to-libm`, which must run before `convert-math-to-llvm`
//!   for the sake of `expm1` and `log1p`, would make calls of what is one instruction.
//!
//! Before: `%2 = arith.maximumf %0, %1 fastmath<reassoc> : f32`
//! After:  `%2 = llvm.intr.maximum(%0, %1) {fastmathFlags = #llvm.fastmath<reassoc>} : (f32, f32) -> f32`
//!
//! Only `f32` and `f64` are touched; 16-bit floats are stored, never computed with.

use dynamlir_dialect::{
    ir::{Attr, Builder, Op},
    pass::{Config, Pass, PassResult},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-legalize-arith",
    description: "Turn minima, maxima and one-instruction math into LLVM intrinsics",
    run,
};

/// Operation and the intrinsic with the same operands and result.
const INTRINSICS: &[(&str, &str)] = &[
    ("arith.maximumf", "llvm.intr.maximum"),
    ("arith.minimumf", "llvm.intr.minimum"),
    ("arith.maxnumf", "llvm.intr.maxnum"),
    ("arith.minnumf", "llvm.intr.minnum"),
    ("math.absf", "llvm.intr.fabs"),
    ("math.ceil", "llvm.intr.ceil"),
    ("math.copysign", "llvm.intr.copysign"),
    ("math.floor", "llvm.intr.floor"),
    ("math.fma", "llvm.intr.fma"),
    ("math.roundeven", "llvm.intr.roundeven"),
    ("math.sqrt", "llvm.intr.sqrt"),
    ("math.trunc", "llvm.intr.trunc"),
];

fn run(module: Op, _config: &Config) -> PassResult {
    let mut found = Vec::new();
    module.walk(&mut |op| {
        if let Some(&(_, intrinsic)) = INTRINSICS.iter().find(|(name, _)| op.is(name)) {
            found.push((op, intrinsic));
        }
    });
    for (op, intrinsic) in found {
        let ty = op.result(0).ty();
        if !ty.is_float() || ty.width() < 32 {
            continue;
        }
        let flags = op
            .attr("fastmath")
            .and_then(|flags| Attr::parse(op.ctx(), &flags.to_string().replace("#arith.", "#llvm.")));
        let attrs: Vec<_> = flags.into_iter().map(|flags| ("fastmathFlags", flags)).collect();
        let value = Builder::before(op).value(intrinsic, &op.operands(), ty, &attrs);
        op.result(0).replace_all_uses_with(value);
        op.erase();
    }
    Ok(())
}
