//! `dynamo.convert` on one element, for every pair of torch's element types.
//!
//! Conversions follow eager where it goes beyond the rules of C:
//! - An integer or `f64` is converted to a 16-bit float via `f32`, rounding twice. (A direct conversion would make LLVM call a function of
//!   the compiler's runtime library.)
//! - A float is converted to a narrow integer via a wide one, so that a value out of range wraps rather than being undefined.

use dynamlir_dialect::{
    ir::{Builder, Type, Value},
    upstream::arith::{CmpF, CmpI},
};

use super::scalar::{is_half, is_unsigned, signless};

/// Converts `value` from one dynamo element type to another.
pub(super) fn lower(b: Builder, value: Value, from: Type, to: Type) -> Value {
    let (source, target) = (signless(from), signless(to));
    if from == to {
        return value;
    }
    if to.is_bool() {
        return is_nonzero(b, value);
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => float_to_float(b, value, from, to),
        (false, false) => match source.width().cmp(&target.width()) {
            std::cmp::Ordering::Equal => value,
            std::cmp::Ordering::Greater => b.trunci(value, target),
            std::cmp::Ordering::Less if is_unsigned(from) => b.extui(value, target),
            std::cmp::Ordering::Less => b.extsi(value, target),
        },
        (false, true) => {
            let direct = if is_half(to) { Type::f32(to.ctx()) } else { to };
            let value = if is_unsigned(from) { b.uitofp(value, direct) } else { b.sitofp(value, direct) };
            if to.is_bf16() { round_to_bf16(b, value, to) } else { lower(b, value, direct, to) }
        }
        (true, false) => {
            if is_half(from) {
                let single = Type::f32(from.ctx());
                let value = float_to_float(b, value, from, single);
                return lower(b, value, single, to);
            }
            let width = match to.width() {
                _ if to.is_unsigned() => 64,
                width => width.max(32),
            };
            let wide = Type::int(to.ctx(), width);
            let value = b.fptosi(value, wide);
            lower(b, value, wide, target)
        }
    }
}

/// Returns true if a number is not zero, as an emitted value.
fn is_nonzero(b: Builder, value: Value) -> Value {
    let ty = value.ty();
    if ty.is_float() { b.cmpf(CmpF::Une, value, b.float(ty, 0.0)) } else { b.cmpi(CmpI::Ne, value, b.int(ty, 0)) }
}

/// Rounds an `f32` that is not NaN to the nearest `bf16`, ties to even, on its bits. `arith.truncf` cannot be used after a conversion from
/// an integer: canonicalization fuses the two into a conversion that exists only in the compiler's runtime library.
fn round_to_bf16(b: Builder, value: Value, to: Type) -> Value {
    let (bits, half) = (Type::int(to.ctx(), 32), Type::int(to.ctx(), 16));
    let value = b.bitcast(value, bits);
    let sixteen = b.int(bits, 16);
    let last = b.shrui(value, sixteen);
    let odd = b.andi(last, b.int(bits, 1));
    let below = b.addi(odd, b.int(bits, 0x7fff));
    let rounded = b.addi(value, below);
    b.bitcast(b.trunci(b.shrui(rounded, sixteen), half), to)
}

/// Converts between float types; for the 16-bit ones, only conversions from or to `f32` are a single instruction.
fn float_to_float(b: Builder, value: Value, from: Type, to: Type) -> Value {
    let single = Type::f32(from.ctx());
    if from == to {
        value
    } else if (is_half(from) || is_half(to)) && from != single && to != single {
        let value = float_to_float(b, value, from, single);
        float_to_float(b, value, single, to)
    } else if from.width() < to.width() {
        b.extf(value, to)
    } else {
        b.truncf(value, to)
    }
}
