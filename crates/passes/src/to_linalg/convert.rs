//! `dynamo.convert` on one element: every pair of torch's element types.
//!
//! Conversions follow eager where it has a habit beyond the rules of C:
//! - An integer or `f64` becomes a 16-bit float by way of `f32`, rounding twice. (LLVM would call a function of the
//!   compiler's own library for the direct way.)
//! - A float becomes a narrow integer by way of a wide one, so that what does not fit wraps rather than being undefined.

use dynamlir_dialect::ir::{Type, Value};

use super::scalar::{Scalars, is_half, signless};

/// Converts `value` from one dynamo element type to another.
pub(super) fn lower(scalars: &Scalars, value: Value, from: Type, to: Type) -> Value {
    let (source, target) = (signless(from), signless(to));
    if from == to {
        return value;
    }
    if to.is_bool() {
        return scalars.is_nonzero(value);
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => float_to_float(scalars, value, from, to),
        (false, false) => {
            let name = match source.width().cmp(&target.width()) {
                std::cmp::Ordering::Equal => return value,
                std::cmp::Ordering::Greater => "arith.trunci",
                std::cmp::Ordering::Less if is_unsigned(from) => "arith.extui",
                std::cmp::Ordering::Less => "arith.extsi",
            };
            scalars.op(name, &[value], target)
        }
        (false, true) => {
            let direct = if is_half(to) { Type::f32(to.ctx()) } else { to };
            let name = if is_unsigned(from) { "arith.uitofp" } else { "arith.sitofp" };
            let value = scalars.op(name, &[value], direct);
            if to.is_bf16() { round_to_bf16(scalars, value, to) } else { lower(scalars, value, direct, to) }
        }
        (true, false) => {
            if is_half(from) {
                let single = Type::f32(from.ctx());
                let value = float_to_float(scalars, value, from, single);
                return lower(scalars, value, single, to);
            }
            let width = match to.width() {
                _ if to.is_unsigned() => 64,
                width => width.max(32),
            };
            let wide = Type::int(to.ctx(), width);
            let value = scalars.op("arith.fptosi", &[value], wide);
            lower(scalars, value, wide, target)
        }
    }
}

/// Bool and `ui8` have no sign.
fn is_unsigned(ty: Type) -> bool {
    ty.is_unsigned() || ty.is_bool()
}

/// Rounds an `f32` that is not NaN to the nearest `bf16`, ties to even, on its bits. `arith.truncf` will not do after a
/// conversion from an integer: canonicalization fuses the two into one that only the compiler's own library has.
fn round_to_bf16(scalars: &Scalars, value: Value, to: Type) -> Value {
    let (bits, half) = (Type::int(to.ctx(), 32), Type::int(to.ctx(), 16));
    let value = scalars.op("arith.bitcast", &[value], bits);
    let sixteen = scalars.int(bits, 16);
    let last = scalars.op("arith.shrui", &[value, sixteen], bits);
    let odd = scalars.op("arith.andi", &[last, scalars.int(bits, 1)], bits);
    let below = scalars.op("arith.addi", &[odd, scalars.int(bits, 0x7fff)], bits);
    let rounded = scalars.op("arith.addi", &[value, below], bits);
    let upper = scalars.op("arith.shrui", &[rounded, sixteen], bits);
    let upper = scalars.op("arith.trunci", &[upper], half);
    scalars.op("arith.bitcast", &[upper], to)
}

/// Between float types; only steps from or to `f32` are one instruction for the 16-bit ones.
fn float_to_float(scalars: &Scalars, value: Value, from: Type, to: Type) -> Value {
    let single = Type::f32(from.ctx());
    if from == to {
        value
    } else if (is_half(from) || is_half(to)) && from != single && to != single {
        let value = float_to_float(scalars, value, from, single);
        float_to_float(scalars, value, single, to)
    } else if from.width() < to.width() {
        scalars.op("arith.extf", &[value], to)
    } else {
        scalars.op("arith.truncf", &[value], to)
    }
}
