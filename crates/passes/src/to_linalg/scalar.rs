//! The lowering of each pointwise primitive on one element: a table for those in `arith` and `math`, sequences for the rest.
//!
//! Rules that are not obvious:
//! - Float operations carry no fast-math flags: eager has none. Only the accumulation of a reduction may be reordered.
//! - `ui8` is a signless `i8` with unsigned operations. Signedness is taken from the primitive's types.
//! - 16-bit floats are computed in `f32` and rounded, as eager does.
//! - Primitives in neither dialect are calls of the C library, declared once in the module.

use std::collections::BTreeMap;

use dynamlir_dialect::{
    ir::{Attr, Builder, Op, Type, Value},
    ops::{DynamoOp as D, Predicate, ReduceKind, ReduceOp},
    upstream::{
        arith::{self, CmpF, CmpI},
        math,
    },
};

use super::{convert, philox};

/// Float primitives that map to one operation.
fn float_operation(primitive: D) -> Option<&'static str> {
    Some(match primitive {
        D::Abs(_) => math::ABSF,
        D::Neg(_) => arith::NEGF,
        D::Exp(_) => math::EXP,
        D::Exp2(_) => math::EXP2,
        D::Expm1(_) => math::EXPM1,
        D::Log(_) => math::LOG,
        D::Log2(_) => math::LOG2,
        D::Log10(_) => math::LOG10,
        D::Log1p(_) => math::LOG1P,
        D::Sqrt(_) => math::SQRT,
        D::Sin(_) => math::SIN,
        D::Cos(_) => math::COS,
        D::Tan(_) => math::TAN,
        D::Asin(_) => math::ASIN,
        D::Acos(_) => math::ACOS,
        D::Atan(_) => math::ATAN,
        D::Sinh(_) => math::SINH,
        D::Cosh(_) => math::COSH,
        D::Tanh(_) => math::TANH,
        D::Asinh(_) => math::ASINH,
        D::Acosh(_) => math::ACOSH,
        D::Atanh(_) => math::ATANH,
        D::Erf(_) => math::ERF,
        D::Erfc(_) => math::ERFC,
        D::Floor(_) => math::FLOOR,
        D::Ceil(_) => math::CEIL,
        D::Round(_) => math::ROUNDEVEN,
        D::Trunc(_) => math::TRUNC,
        D::Add(_) => arith::ADDF,
        D::Sub(_) => arith::SUBF,
        D::Mul(_) => arith::MULF,
        D::Div(_) => arith::DIVF,
        D::Rem(_) => arith::REMF,
        D::Max(_) => arith::MAXIMUMF,
        D::Min(_) => arith::MINIMUMF,
        D::Pow(_) => math::POWF,
        D::Atan2(_) => math::ATAN2,
        D::Copysign(_) => math::COPYSIGN,
        D::Fma(_) => math::FMA,
        _ => return None,
    })
}

/// The operations for signed integers, for `ui8`, and for bool.
type Three = [&'static str; 3];

const ADD: Three = [arith::ADDI, arith::ADDI, arith::ORI];
const MUL: Three = [arith::MULI, arith::MULI, arith::ANDI];
const MAX: Three = [arith::MAXSI, arith::MAXUI, arith::ORI];
const MIN: Three = [arith::MINSI, arith::MINUI, arith::ANDI];
const AND: Three = [arith::ANDI; 3];
const OR: Three = [arith::ORI; 3];
const XOR: Three = [arith::XORI; 3];

/// Binary integer primitives that map to one operation.
fn integer_operation(primitive: D) -> Option<Three> {
    Some(match primitive {
        D::Add(_) => ADD,
        D::Sub(_) => [arith::SUBI, arith::SUBI, arith::XORI],
        D::Mul(_) => MUL,
        D::Div(_) => [arith::DIVSI, arith::DIVUI, arith::DIVUI],
        D::Rem(_) => [arith::REMSI, arith::REMUI, arith::REMUI],
        D::Max(_) => MAX,
        D::Min(_) => MIN,
        D::And(_) => AND,
        D::Or(_) => OR,
        D::Xor(_) => XOR,
        _ => return None,
    })
}

/// Primitives that map to calls of the C library.
fn function(primitive: D) -> Option<&'static str> {
    Some(match primitive {
        D::Hypot(_) => "hypot",
        D::Lgamma(_) => "lgamma",
        _ => return None,
    })
}

/// The predicates for floats (only `ne` is true for a NaN), for signed and for unsigned integers.
fn predicates(predicate: Predicate) -> (CmpF, CmpI, CmpI) {
    match predicate {
        Predicate::Eq => (CmpF::Oeq, CmpI::Eq, CmpI::Eq),
        Predicate::Ne => (CmpF::Une, CmpI::Ne, CmpI::Ne),
        Predicate::Lt => (CmpF::Olt, CmpI::Slt, CmpI::Ult),
        Predicate::Le => (CmpF::Ole, CmpI::Sle, CmpI::Ule),
        Predicate::Gt => (CmpF::Ogt, CmpI::Sgt, CmpI::Ugt),
        Predicate::Ge => (CmpF::Oge, CmpI::Sge, CmpI::Uge),
    }
}

/// The C functions that a module needs, with their types.
pub(super) type Library = BTreeMap<String, Type>;

/// Builds scalar operations at one insertion point.
pub(super) struct Scalars<'a> {
    /// The insertion point.
    pub(super) builder: Builder,
    /// Collects the functions that are called.
    pub(super) library: &'a mut Library,
}

/// The type of a scalar in `arith`, which does not represent signedness.
pub(super) fn signless(ty: Type) -> Type {
    if ty.is_int() { Type::int(ty.ctx(), ty.width()) } else { ty }
}

/// Returns true for `f16` and `bf16`.
pub(super) fn is_half(ty: Type) -> bool {
    ty.is_float() && ty.width() == 16
}

impl Scalars<'_> {
    /// Lowers a pointwise primitive on scalars; `None` if it has no lowering at its element type.
    pub(super) fn pointwise(&mut self, op: Op, operands: &[Value]) -> Option<Value> {
        let (primitive, result, b) = (D::of(op)?, op.result(0).ty().element(), self.builder);
        match primitive {
            D::Full(full) => return Some(self.full(result, full.value())),
            D::Select(_) => return Some(b.select(operands[0], operands[1], operands[2])),
            D::Convert(convert) => return Some(convert::lower(b, operands[0], convert.operand().ty().element(), result)),
            D::Bitcast(_) if operands[0].ty() == signless(result) => return Some(operands[0]),
            D::Bitcast(_) => return Some(b.bitcast(operands[0], signless(result))),
            _ => {}
        }
        let ty = op.operand(0).ty().element();
        if !is_half(ty) {
            return self.arithmetic(primitive, operands, ty);
        }
        if matches!(primitive, D::Nextafter(_)) {
            // The next number in `f32` would round back to the original one.
            return None;
        }
        let single = Type::f32(ty.ctx());
        let wide: Vec<_> = operands.iter().map(|&operand| convert::lower(b, operand, ty, single)).collect();
        let value = self.arithmetic(primitive, &wide, single)?;
        Some(if value.ty() == single { convert::lower(b, value, single, result) } else { value })
    }

    fn full(&self, ty: Type, value: Attr) -> Value {
        match value.as_i64() {
            // A constant of a signless `i8` is written as a signed number.
            Some(number) if ty.is_unsigned() => self.builder.int(signless(ty), i64::from(number as u8 as i8)),
            _ => self.builder.constant(ty, value),
        }
    }

    fn arithmetic(&mut self, primitive: D, operands: &[Value], ty: Type) -> Option<Value> {
        if let D::Compare(compare) = primitive {
            let (float, signed, unsigned) = predicates(compare.predicate());
            let (b, lhs, rhs) = (self.builder, operands[0], operands[1]);
            return Some(match () {
                () if ty.is_float() => b.cmpf(float, lhs, rhs),
                () if is_unsigned(ty) => b.cmpi(unsigned, lhs, rhs),
                () => b.cmpi(signed, lhs, rhs),
            });
        }
        if ty.is_float() { self.float(primitive, operands, ty) } else { integer(self.builder, primitive, operands, ty) }
    }

    fn float(&mut self, primitive: D, operands: &[Value], ty: Type) -> Option<Value> {
        let b = self.builder;
        if let Some(name) = float_operation(primitive) {
            return Some(b.value(name, operands, ty, &[]));
        }
        if let D::Rsqrt(_) = primitive {
            // Not `math.rsqrt`, which may be approximate.
            let root = b.sqrt(operands[0]);
            return Some(b.divf(b.float(ty, 1.0), root));
        }
        if let D::Nextafter(_) = primitive {
            return Some(nextafter(b, operands[0], operands[1]));
        }
        function(primitive).map(|name| self.call(name, operands, ty))
    }

    fn call(&mut self, name: &str, operands: &[Value], ty: Type) -> Value {
        let symbol = if ty.width() == 32 { format!("{name}f") } else { name.to_owned() };
        let value = self.builder.func_call(&symbol, operands, ty);
        self.library.insert(symbol, Type::function(ty.ctx(), &vec![ty; operands.len()], &[ty]));
        value
    }
}

/// The neighbour of `x` in the direction of `y`. Floats of equal sign are ordered like their bits.
fn nextafter(b: Builder, x: Value, y: Value) -> Value {
    let (ctx, real) = (b.ctx(), x.ty());
    let word = Type::int(ctx, real.width());
    let zero = b.float(real, 0.0);
    let bits = b.bitcast(x, word);
    let outward = b.xori(b.cmpf(CmpF::Olt, x, y), b.cmpf(CmpF::Olt, x, zero));
    let next = b.bitcast(b.addi(bits, b.select(outward, b.int(word, 1), b.int(word, -1))), real);
    let smallest = b.copysign(b.bitcast(b.int(word, 1), real), y);
    let next = b.select(b.cmpf(CmpF::Oeq, x, zero), smallest, next);
    let next = b.select(b.cmpf(CmpF::Oeq, x, y), y, next);
    b.select(b.cmpf(CmpF::Uno, x, y), b.addf(x, y), next)
}

/// Returns true for bool and `ui8`, which have no sign.
pub(super) fn is_unsigned(ty: Type) -> bool {
    ty.is_unsigned() || ty.is_bool()
}

/// Emits the one of three operations that applies to a type.
fn of_three(b: Builder, [on_signed, on_unsigned, on_bool]: Three, operands: &[Value], ty: Type) -> Value {
    let name = match () {
        () if ty.is_bool() => on_bool,
        () if ty.is_unsigned() => on_unsigned,
        () => on_signed,
    };
    b.value(name, operands, signless(ty), &[])
}

fn integer(b: Builder, primitive: D, operands: &[Value], ty: Type) -> Option<Value> {
    let scalar = signless(ty);
    let width = i64::from(ty.width());
    Some(match (primitive, operands) {
        (D::Neg(_), &[x]) => b.subi(b.int(scalar, 0), x),
        (D::Abs(_), &[x]) if is_unsigned(ty) => x,
        // Not `math.absi`, which `convert-math-to-libm` rejects.
        (D::Abs(_), &[x]) => b.maxsi(x, b.subi(b.int(scalar, 0), x)),
        (D::Random(random), &[key, counter]) => philox::half(b, key, counter, random.half()),
        (D::Not(_), &[x]) => b.xori(x, b.int(scalar, -1)),
        (D::Shl(_), &[x, count]) => {
            // A negative count is a large number when unsigned.
            let inside = if ty.is_bool() { b.xori(count, b.int(scalar, -1)) } else { b.cmpi(CmpI::Ult, count, b.int(scalar, width)) };
            let shifted = b.shli(x, count);
            b.select(inside, shifted, b.int(scalar, 0))
        }
        (D::Shr(_), &[x, _]) if ty.is_bool() => x,
        (D::Shr(_), &[x, count]) if ty.is_unsigned() => {
            let inside = b.cmpi(CmpI::Ult, count, b.int(scalar, width));
            let shifted = b.shrui(x, count);
            b.select(inside, shifted, b.int(scalar, 0))
        }
        (D::Shr(_), &[x, count]) => b.shrsi(x, b.minui(count, b.int(scalar, width - 1))),
        _ => of_three(b, integer_operation(primitive)?, operands, ty),
    })
}

/// One step of a reduction, a scan or a scatter. Float sums and products of a reduction may be reordered, since loops over them would not
/// vectorize otherwise; those of a scan may not, since each partial result is visible.
pub(super) fn combine(b: Builder, op: Op, kind: ReduceKind, accumulator: Value, value: Value) -> Option<Value> {
    let ty = op.result(0).ty().element();
    if !ty.is_float() {
        let three = match kind {
            ReduceKind::Sum => ADD,
            ReduceKind::Prod => MUL,
            ReduceKind::Max => MAX,
            ReduceKind::Min => MIN,
            ReduceKind::BitAnd => AND,
            ReduceKind::BitOr => OR,
            ReduceKind::BitXor => XOR,
        };
        return Some(of_three(b, three, &[accumulator, value], ty));
    }
    let name = match kind {
        ReduceKind::Sum => arith::ADDF,
        ReduceKind::Prod => arith::MULF,
        ReduceKind::Max => arith::MAXIMUMF,
        ReduceKind::Min => arith::MINIMUMF,
        ReduceKind::BitAnd | ReduceKind::BitOr | ReduceKind::BitXor => return None,
    };
    let wide = if is_half(ty) { Type::f32(ty.ctx()) } else { ty };
    // For extrema the first operand is checked for NaN; that check should not depend on the previous step.
    let operands = match kind {
        ReduceKind::Max | ReduceKind::Min => [value, accumulator],
        _ => [accumulator, value],
    };
    let operands = operands.map(|operand| convert::lower(b, operand, ty, wide));
    let reorders = op.is(ReduceOp::NAME) && matches!(kind, ReduceKind::Sum | ReduceKind::Prod);
    let attrs: &[_] = if reorders { &[("fastmath", arith::reassoc(ty.ctx()))] } else { &[] };
    Some(convert::lower(b, b.value(name, &operands, wide, attrs), wide, ty))
}

/// The result of a reduction over zero elements.
pub(super) fn neutral(b: Builder, kind: ReduceKind, ty: Type) -> Option<Value> {
    if ty.is_float() {
        let value = match kind {
            ReduceKind::Sum => 0.0,
            ReduceKind::Prod => 1.0,
            ReduceKind::Max => f64::NEG_INFINITY,
            ReduceKind::Min => f64::INFINITY,
            ReduceKind::BitAnd | ReduceKind::BitOr | ReduceKind::BitXor => return None,
        };
        return Some(b.float(ty, value));
    }
    let unsigned = is_unsigned(ty);
    let smallest = if unsigned { 0 } else { i64::MIN >> (64 - ty.width()) };
    let value = match kind {
        ReduceKind::Sum | ReduceKind::BitOr | ReduceKind::BitXor => 0,
        ReduceKind::Prod => 1,
        ReduceKind::Max => smallest,
        // All ones in the width of the type: the largest unsigned number is written as -1.
        ReduceKind::Min if unsigned => -1,
        ReduceKind::Min => !smallest,
        ReduceKind::BitAnd => -1,
    };
    Some(b.int(signless(ty), value))
}
