//! `dynamo-legalize-arith`: rewrites what the general lowerings to LLVM would spoil.
//!
//! - `arith.maximumf`, `minimumf`, `maxnumf`, `minnumf` become intrinsics: `arith-expand` turns them into chains of
//!   comparisons that LLVM does not recognize as reductions, so a row maximum would run one element at a time. They
//!   get `nsz`: which zero wins is not specified by torch either, and ordering zeros triples the instructions.
//! - `math.sqrt`, `floor`, `fma` and their like become intrinsics: `convert-math-to-libm`, which must run before
//!   `convert-math-to-llvm` for the sake of `expm1` and `log1p`, would make calls of what is one instruction.
//! - `math.rsqrt` becomes a division by the square root, as in torch; the C library has no such function.
//! - `arith.truncf` to `bf16` becomes integer arithmetic (round to nearest even, NaN kept): LLVM would call a routine
//!   for each element, and `arith-expand` ends in a selection between `bf16`s that LLVM takes apart into scalars.
//!
//! - `arith.fptosi` of what no integer of the type is gives the smallest one, which is what processors answer. To LLVM it is
//!   poison, of which it concludes that such numbers do not occur, and drops what was computed before.
//!
//! Before: `%2 = arith.maximumf %0, %1 fastmath<reassoc> : f32`
//! After:  `%2 = llvm.intr.maximum(%0, %1) {fastmathFlags = #llvm.fastmath<nsz, reassoc>} : (f32, f32) -> f32`
//!
//! Only `f32` and `f64` arithmetic is touched, vectors of these included where an operation becomes an intrinsic; 16-bit
//! floats are stored, never computed with.

use dynamlir_dialect::{
    ir::{Attr, Builder, Op, Type, Value},
    pass::{Pass, PassError, PassResult, Run, Statistic},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-legalize-arith",
    description: "Rewrite minima, maxima, one-instruction math and bf16 rounding for LLVM",
    options: &[],
    statistics: &[REWRITTEN],
    run,
};

const REWRITTEN: Statistic = Statistic { name: "rewritten", description: "operations rewritten" };

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

fn run(module: Op, pass: &Run) -> PassResult {
    let mut ops = Vec::new();
    module.walk(&mut |op| ops.push(op));
    for op in ops {
        let value = if let Some(&(name, intrinsic)) = INTRINSICS.iter().find(|(name, _)| op.is(name)) {
            to_intrinsic(op, intrinsic, name.starts_with("arith."))?
        } else if op.is("math.rsqrt") {
            reciprocal_root(op)
        } else if op.is("arith.truncf") && op.result(0).ty().is_bf16() {
            Some(round_to_bf16(op))
        } else if op.is("arith.fptosi") && op.operand(0).ty().element().width() >= 32 {
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

/// The intrinsic in place of `op`; None for types that it is not meant for.
fn to_intrinsic(op: Op, intrinsic: &str, is_extremum: bool) -> Result<Option<Value>, PassError> {
    let ty = op.result(0).ty();
    if !ty.element().is_float() || ty.element().width() < 32 {
        return Ok(None);
    }
    // `#arith.fastmath<reassoc,nnan>` and `#llvm.fastmath<…>` differ in their dialect only; `none` is a flag there too.
    let old = op.attr("fastmath").map(|flags| flags.to_string()).unwrap_or_default();
    let listed = old.split_once('<').map_or("none", |(_, rest)| rest.trim_end_matches('>')).to_owned();
    let flags = match (is_extremum, listed.as_str()) {
        (false, _) => listed,
        (true, "none") => "nsz".into(),
        (true, "fast") => "fast".into(),
        (true, others) => format!("nsz, {others}"),
    };
    let flags = Attr::parse(op.ctx(), &format!("#llvm.fastmath<{flags}>"))
        .ok_or_else(|| PassError::at(op, format!("cannot translate the fast-math flags `{old}`")))?;
    Ok(Some(Builder::before(op).value(intrinsic, &op.operands(), ty, &[("fastmathFlags", flags)])))
}

/// The integer, or the smallest one where the number is NaN or too large. 4 is `olt`.
fn to_integer(op: Op) -> Value {
    let (builder, ctx) = (Builder::before(op), op.ctx());
    let (from, to) = (op.operand(0).ty(), op.result(0).ty());
    let constant = |ty: Type, element: Attr| {
        let value = if ty.is_vector() { Attr::splat(ty, element) } else { element };
        builder.value("arith.constant", &[], ty, &[("value", value)])
    };
    let width = to.element().width();
    let bound = constant(from, Attr::float_of(from.element(), 2f64.powi(width.cast_signed() - 1)));
    let smallest = constant(to, Attr::int_of(to.element(), i64::MIN >> (64 - width)));
    let size = builder.value("llvm.intr.fabs", &[op.operand(0)], from, &[]);
    let fits = builder.value("arith.cmpf", &[size, bound], from.with_element(Type::int(ctx, 1)), &[("predicate", Attr::i64(ctx, 4))]);
    let integer = builder.value("arith.fptosi", &[op.operand(0)], to, &[]);
    builder.value("arith.select", &[fits, integer, smallest], to, &[])
}

fn reciprocal_root(op: Op) -> Option<Value> {
    let (builder, ty) = (Builder::before(op), op.result(0).ty());
    if !ty.is_float() || ty.width() < 32 {
        return None;
    }
    let root = builder.value("llvm.intr.sqrt", &op.operands(), ty, &[]);
    let one = builder.value("arith.constant", &[], ty, &[("value", Attr::float_of(ty, 1.0))]);
    Some(builder.value("arith.divf", &[one, root], ty, &[]))
}

/// Adds half a unit in the last place that stays, less one where that place is even, and cuts off the rest.
fn round_to_bf16(op: Op) -> Value {
    let builder = Builder::before(op);
    let ctx = op.ctx();
    let (single, word, half) = (Type::f32(ctx), Type::int(ctx, 32), Type::int(ctx, 16));
    let constant = |value| builder.value("arith.constant", &[], word, &[("value", Attr::int_of(word, value))]);

    let mut number = op.operand(0);
    if number.ty() != single {
        number = builder.value("arith.truncf", &[number], single, &[]);
    }
    // NaN becomes the one that rounds to itself: others might carry into infinity. Selecting here and not at the end
    // keeps LLVM from selecting between `bf16`s. 14 is `uno`: true for NaN.
    let unordered = [("predicate", Attr::i64(ctx, 14))];
    let is_nan = builder.value("arith.cmpf", &[number, number], Type::int(ctx, 1), &unordered);
    let nan = builder.value("arith.constant", &[], single, &[("value", Attr::float_of(single, f64::NAN))]);
    let number = builder.value("arith.select", &[is_nan, nan, number], single, &[]);

    let bits = builder.value("arith.bitcast", &[number], word, &[]);
    let high = builder.value("arith.shrui", &[bits, constant(16)], word, &[]);
    let odd = builder.value("arith.andi", &[high, constant(1)], word, &[]);
    let bias = builder.value("arith.addi", &[odd, constant(0x7fff)], word, &[]);
    let rounded = builder.value("arith.addi", &[bits, bias], word, &[]);
    let top = builder.value("arith.shrui", &[rounded, constant(16)], word, &[]);
    let short = builder.value("arith.trunci", &[top], half, &[]);
    builder.value("arith.bitcast", &[short], op.result(0).ty(), &[])
}
