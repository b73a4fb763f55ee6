//! `dynamo-legalize-arith`: rewrites operations for which the general lowerings to LLVM produce poor code.
//!
//! - `arith.maximumf`, `minimumf`, `maxnumf`, `minnumf` become intrinsics: `arith-expand` turns them into chains of comparisons that LLVM
//!   does not recognize as reductions, so a row maximum would run one element at a time. They get `nsz`: which zero wins is not specified
//!   by torch either, and ordering zeros triples the instructions.
//! - `math.sqrt`, `floor`, `fma` and the like become intrinsics: `convert-math-to-libm`, which must run before `convert-math-to-llvm`
//!   because of `expm1` and `log1p`, would make calls of single instructions.
//! - `math.rsqrt` becomes a division by the square root, as in torch; the C library has no such function.
//! - `arith.truncf` to `bf16` becomes integer arithmetic (round to nearest even, NaN kept): LLVM would call a routine for each element, and
//!   `arith-expand` ends in a selection between `bf16`s that LLVM scalarizes.
//! - `arith.fptosi` of a number out of the integer type's range gives the smallest integer, as processors do. To LLVM it is poison, from
//!   which it concludes that such numbers do not occur, and deletes earlier computations.
//!
//! Before: `%2 = arith.maximumf %0, %1 fastmath<reassoc> : f32`
//!
//! After: `%2 = llvm.intr.maximum(%0, %1) {fastmathFlags = #llvm.fastmath<nsz, reassoc>} : (f32, f32) -> f32`
//!
//! Only `f32` and `f64` arithmetic is affected, including vectors of these for operations that become intrinsics; 16-bit floats are stored,
//! never computed with.

use dynamlir_dialect::{
    ir::{Builder, Op, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{
        arith::{self, CmpF},
        llvm, math,
    },
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-legalize-arith",
    description: "Rewrite minima, maxima, one-instruction math and bf16 rounding for LLVM",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[REWRITTEN],
    run,
};

const REWRITTEN: Statistic = Statistic { name: "rewritten", description: "operations rewritten" };

/// Operations, and the intrinsics with the same operands and result.
const INTRINSICS: &[(&str, &str)] = &[
    (arith::MAXIMUMF, llvm::INTR_MAXIMUM),
    (arith::MINIMUMF, llvm::INTR_MINIMUM),
    (arith::MAXNUMF, llvm::INTR_MAXNUM),
    (arith::MINNUMF, llvm::INTR_MINNUM),
    (math::ABSF, llvm::INTR_FABS),
    (math::CEIL, llvm::INTR_CEIL),
    (math::COPYSIGN, llvm::INTR_COPYSIGN),
    (math::FLOOR, llvm::INTR_FLOOR),
    (math::FMA, llvm::INTR_FMA),
    (math::ROUNDEVEN, llvm::INTR_ROUNDEVEN),
    (math::SQRT, llvm::INTR_SQRT),
    (math::TRUNC, llvm::INTR_TRUNC),
];

fn run(module: Op, pass: &Run) -> PassResult {
    let mut ops = Vec::new();
    module.walk(&mut |op| ops.push(op));
    for op in ops {
        let value = if let Some(&(_, intrinsic)) = INTRINSICS.iter().find(|(name, _)| op.is(name)) {
            to_intrinsic(op, intrinsic, op.is_of(arith::DIALECT))
        } else if op.is(math::RSQRT) {
            reciprocal_root(op)
        } else if op.is(arith::TRUNCF) && op.result(0).ty().is_bf16() {
            Some(round_to_bf16(op))
        } else if op.is(arith::FPTOSI) && op.operand(0).ty().element().width() >= 32 {
            Some(to_integer(op))
        } else {
            None
        };
        if let Some(value) = value {
            op.result(0).replace_all_uses_with(value);
            op.erase();
            pass.count(&REWRITTEN, 1);
        }
    }
    Ok(())
}

/// The intrinsic that replaces `op`; `None` for types that it does not support.
fn to_intrinsic(op: Op, intrinsic: &str, is_extremum: bool) -> Option<Value> {
    let ty = op.result(0).ty();
    if !ty.element().is_float() || ty.element().width() < 32 {
        return None;
    }
    let flags = [("fastmathFlags", llvm::fastmath(op, is_extremum))];
    Some(Builder::before(op).value(intrinsic, &op.operands(), ty, &flags))
}

/// The integer, or the smallest one if the number is NaN or too large.
fn to_integer(op: Op) -> Value {
    let (b, number) = (Builder::before(op), op.operand(0));
    let (from, to) = (number.ty(), op.result(0).ty());
    let width = to.element().width();
    let bound = b.float(from, 2f64.powi(width.cast_signed() - 1));
    let smallest = b.int(to, i64::MIN >> (64 - width));
    let size = b.value(llvm::INTR_FABS, &[number], from, &[]);
    let fits = b.cmpf(CmpF::Olt, size, bound);
    b.select(fits, b.fptosi(number, to), smallest)
}

fn reciprocal_root(op: Op) -> Option<Value> {
    let (b, ty) = (Builder::before(op), op.result(0).ty());
    if !ty.is_float() || ty.width() < 32 {
        return None;
    }
    let root = b.value(llvm::INTR_SQRT, &op.operands(), ty, &[]);
    Some(b.divf(b.float(ty, 1.0), root))
}

/// Adds half a unit in the last kept place, less one if that place is even, and truncates.
fn round_to_bf16(op: Op) -> Value {
    let (b, ctx) = (Builder::before(op), op.ctx());
    let (single, word, half) = (Type::f32(ctx), Type::int(ctx, 32), Type::int(ctx, 16));
    let mut number = op.operand(0);
    if number.ty() != single {
        number = b.truncf(number, single);
    }
    // NaN becomes the one that rounds to itself: others might carry into infinity. Selecting here and not at the end keeps LLVM from
    // selecting between `bf16`s.
    let is_nan = b.cmpf(CmpF::Uno, number, number);
    let number = b.select(is_nan, b.float(single, f64::NAN), number);

    let bits = b.bitcast(number, word);
    let high = b.shrui(bits, b.int(word, 16));
    let odd = b.andi(high, b.int(word, 1));
    let bias = b.addi(odd, b.int(word, 0x7fff));
    let rounded = b.addi(bits, bias);
    let top = b.shrui(rounded, b.int(word, 16));
    b.bitcast(b.trunci(top, half), op.result(0).ty())
}
