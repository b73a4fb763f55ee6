//! `dynamo-narrow`: removes rounding of numbers that already are 16-bit floats.
//!
//! Arithmetic on 16-bit floats is emitted as converts around `f32` operations. The results of some operations never need rounding:
//! - magnitudes, signs and selections can be computed on the bits of the 16-bit numbers, without any conversion;
//! - for maxima, minima and whole numbers, the upper half of the `f32` is the `bf16`.
//!
//! ```mlir
//! %1 = arith.extf %0 : bf16 to f32          // before
//! %2 = math.absf %1 : f32
//! %3 = arith.truncf %2 : f32 to bf16
//!
//! %1 = arith.bitcast %0 : bf16 to i16       // after
//! %2 = arith.andi %1, %c32767 : i16
//! %3 = arith.bitcast %2 : i16 to bf16
//! ```
//!
//! Operations on bits preserve the payload of a NaN, as eager's do. Runs before `dynamo-legalize-arith`, which replaces these operations.

use dynamlir_dialect::{
    ir::{Builder, Op, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{arith, math},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-narrow",
    description: "Remove the rounding of numbers that already are 16-bit floats",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[NARROWED],
    run,
};

const NARROWED: Statistic = Statistic { name: "narrowed", description: "roundings removed" };

/// The longest chain of operations that is followed.
const DEPTH: usize = 8;

#[expect(clippy::unnecessary_wraps, reason = "the signature of all passes")]
fn run(module: Op, pass: &Run) -> PassResult {
    pass.counts_all();
    let mut roundings = Vec::new();
    module.walk(&mut |op| {
        let is_rounding = op.is(arith::TRUNCF) && op.operand(0).ty().element().is_f32();
        let to = is_rounding.then(|| op.result(0).ty().element());
        roundings.extend(to.is_some_and(|to| to.is_bf16() || to.is_f16()).then_some(op));
    });
    for op in roundings {
        let (wide, narrow) = (op.operand(0), Narrow { b: Builder::before(op), ty: op.result(0).ty() });
        let value = if narrow.computes(wide, DEPTH) {
            narrow.value(wide)
        } else if narrow.ty.element().is_bf16() && narrow.holds(wide, DEPTH) {
            narrow.upper_half(wide)
        } else {
            continue;
        };
        op.result(0).replace_all_uses_with(value);
        op.erase();
        pass.count(&NARROWED, 1);
    }
    Ok(())
}

/// Rewrites numbers of a 16-bit type.
struct Narrow {
    b: Builder,
    ty: Type,
}

impl Narrow {
    /// The number that this one was widened from.
    fn widened(&self, op: Op) -> Option<Value> {
        (op.is(arith::EXTF) && op.operand(0).ty() == self.ty).then(|| op.operand(0))
    }

    /// Returns true if a number can be computed without conversions.
    fn computes(&self, wide: Value, depth: usize) -> bool {
        let (Some(op), Some(depth)) = (wide.def(), depth.checked_sub(1)) else { return false };
        let operands = |from: usize| op.operands()[from..].iter().all(|&operand| self.computes(operand, depth));
        match op.name().as_str() {
            arith::EXTF => self.widened(op).is_some(),
            arith::CONSTANT => self.constant(op).is_some(),
            math::ABSF | math::COPYSIGN | arith::NEGF => operands(0),
            arith::SELECT => operands(1),
            _ => false,
        }
    }

    /// The number, computed without conversions.
    fn value(&self, wide: Value) -> Value {
        let op = wide.def().expect("it can be computed");
        let bits = |i: usize| self.b.bitcast(self.value(op.operand(i)), self.word());
        match op.name().as_str() {
            math::ABSF => self.number(self.b.andi(bits(0), self.bits(i64::from(i16::MAX)))),
            arith::NEGF => self.number(self.b.xori(bits(0), self.bits(i64::from(i16::MIN)))),
            math::COPYSIGN => {
                let size = self.b.andi(bits(0), self.bits(i64::from(i16::MAX)));
                let sign = self.b.andi(bits(1), self.bits(i64::from(i16::MIN)));
                self.number(self.b.ori(size, sign))
            }
            arith::SELECT => self.b.select(op.operand(0), self.value(op.operand(1)), self.value(op.operand(2))),
            arith::CONSTANT => self.b.float(self.ty, self.constant(op).expect("it can be computed")),
            _ => self.widened(op).expect("it can be computed"),
        }
    }

    /// Returns true if the lower half of this `f32` is zero.
    fn holds(&self, wide: Value, depth: usize) -> bool {
        let (Some(op), Some(depth)) = (wide.def(), depth.checked_sub(1)) else { return false };
        let operands = |range: std::ops::Range<usize>| op.operands()[range].iter().all(|&operand| self.holds(operand, depth));
        match op.name().as_str() {
            arith::EXTF => self.widened(op).is_some(),
            arith::CONSTANT => self.constant(op).is_some(),
            // An integer of eight bits fits the digits of the type; a number with digits after the point has fewer before it, so the next
            // whole number fits as well.
            arith::SITOFP | arith::UITOFP => op.operand(0).ty().element().width() <= 8,
            math::CEIL | math::FLOOR | math::ROUNDEVEN | math::TRUNC | math::ABSF | arith::NEGF | math::COPYSIGN => operands(0..1),
            arith::MAXIMUMF | arith::MINIMUMF | arith::MAXNUMF | arith::MINNUMF => operands(0..2),
            arith::SELECT => operands(1..3),
            _ => false,
        }
    }

    /// The `bf16` equal to an `f32`.
    fn upper_half(&self, wide: Value) -> Value {
        let word = self.ty.with_element(Type::int(self.b.ctx(), 32));
        let high = self.b.shrui(self.b.bitcast(wide, word), self.b.int(word, 16));
        self.number(self.b.trunci(high, self.word()))
    }

    /// The value of a constant that the type can represent.
    fn constant(&self, op: Op) -> Option<f64> {
        let number: f64 = op.optional("value").filter(|_| !self.ty.is_vector())?;
        let digits = if self.ty.element().is_bf16() { 7 } else { 10 };
        let rest = number.to_bits() & ((1 << (52 - digits)) - 1);
        // Exponents that both types support.
        let is_usual = (2f64.powi(-14)..2f64.powi(15)).contains(&number.abs()) || number == 0.0 || number.is_infinite();
        (rest == 0 && is_usual).then_some(number)
    }

    fn word(&self) -> Type {
        self.ty.with_element(Type::int(self.b.ctx(), 16))
    }
    fn bits(&self, pattern: i64) -> Value {
        self.b.int(self.word(), pattern)
    }
    fn number(&self, bits: Value) -> Value {
        self.b.bitcast(bits, self.ty)
    }
}
