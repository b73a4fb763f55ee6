//! What each pointwise primitive is on one element: a table for what `arith` and `math` have, sequences for the rest.
//!
//! Rules that are not plain to see:
//! - Float operations carry no fast-math flags: eager has none. Only the accumulation of a reduction may be reordered.
//! - `ui8` is a signless `i8` with unsigned operations. Signedness is read off the primitive's types.
//! - 16-bit floats are computed in `f32` and rounded, as eager does.
//! - What neither dialect has is a call of the C library, declared once in the module.

use std::collections::BTreeMap;

use dynamlir_dialect::ir::{Attr, Builder, Op, Type, Value};

use super::convert;

/// Unary float primitives that are one operation.
const FLOAT_UNARY: &[(&str, &str)] = &[
    ("abs", "math.absf"),
    ("neg", "arith.negf"),
    ("exp", "math.exp"),
    ("exp2", "math.exp2"),
    ("expm1", "math.expm1"),
    ("log", "math.log"),
    ("log2", "math.log2"),
    ("log10", "math.log10"),
    ("log1p", "math.log1p"),
    ("sqrt", "math.sqrt"),
    ("sin", "math.sin"),
    ("cos", "math.cos"),
    ("tan", "math.tan"),
    ("asin", "math.asin"),
    ("acos", "math.acos"),
    ("atan", "math.atan"),
    ("sinh", "math.sinh"),
    ("cosh", "math.cosh"),
    ("tanh", "math.tanh"),
    ("asinh", "math.asinh"),
    ("acosh", "math.acosh"),
    ("atanh", "math.atanh"),
    ("erf", "math.erf"),
    ("erfc", "math.erfc"),
    ("floor", "math.floor"),
    ("ceil", "math.ceil"),
    ("round", "math.roundeven"),
    ("trunc", "math.trunc"),
];

/// Binary float primitives that are one operation.
const FLOAT_BINARY: &[(&str, &str)] = &[
    ("add", "arith.addf"),
    ("sub", "arith.subf"),
    ("mul", "arith.mulf"),
    ("div", "arith.divf"),
    ("rem", "arith.remf"),
    ("max", "arith.maximumf"),
    ("min", "arith.minimumf"),
    ("pow", "math.powf"),
    ("atan2", "math.atan2"),
    ("copysign", "math.copysign"),
];

/// Float primitives of three operands that are one operation.
const FLOAT_TERNARY: &[(&str, &str)] = &[("fma", "math.fma")];

/// Binary integer primitives: on signed types, on `ui8`, on bool.
const INT_BINARY: &[(&str, &str, &str, &str)] = &[
    ("add", "arith.addi", "arith.addi", "arith.ori"),
    ("sub", "arith.subi", "arith.subi", "arith.xori"),
    ("mul", "arith.muli", "arith.muli", "arith.andi"),
    ("div", "arith.divsi", "arith.divui", "arith.divui"),
    ("rem", "arith.remsi", "arith.remui", "arith.remui"),
    ("max", "arith.maxsi", "arith.maxui", "arith.ori"),
    ("min", "arith.minsi", "arith.minui", "arith.andi"),
    ("and", "arith.andi", "arith.andi", "arith.andi"),
    ("or", "arith.ori", "arith.ori", "arith.ori"),
    ("xor", "arith.xori", "arith.xori", "arith.xori"),
];

/// Primitives that are calls of the C library.
const LIBRARY: &[&str] = &["hypot", "nextafter", "lgamma"];

/// Predicates of `dynamo.compare` as numbers of `arith.cmpf` (with a NaN only `ne` holds) and of `arith.cmpi`, signed
/// and unsigned.
const PREDICATES: &[(&str, i64, i64, i64)] =
    &[("eq", 1, 0, 0), ("ne", 13, 1, 1), ("lt", 4, 2, 6), ("le", 5, 3, 7), ("gt", 2, 4, 8), ("ge", 3, 5, 9)];

/// `arith.cmpf` une.
pub(super) const FLOAT_NE: i64 = 13;
/// `arith.cmpi` ne.
pub(super) const INT_NE: i64 = 1;
/// `arith.cmpi` ult.
const INT_ULT: i64 = 6;

/// The C functions that a module needs, with their types.
pub(super) type Library = BTreeMap<String, Type>;

/// Builds scalar operations at one place.
pub(super) struct Scalars<'a> {
    /// The place.
    pub(super) builder: Builder,
    /// Collects what is called.
    pub(super) library: &'a mut Library,
}

/// The type of a scalar in `arith`, which knows no signedness.
pub(super) fn signless(ty: Type) -> Type {
    if ty.is_int() { Type::int(ty.ctx(), ty.width()) } else { ty }
}

/// Whether this is `f16` or `bf16`.
pub(super) fn is_half(ty: Type) -> bool {
    ty.is_float() && ty.width() == 16
}

/// The case that an enum attribute such as `#dynamo<predicate lt>` holds.
pub(super) fn case(op: Op, attr: &str) -> String {
    let text = op.attr(attr).map(|attr| attr.to_string()).unwrap_or_default();
    text.trim_end_matches('>').rsplit([' ', '<']).next().unwrap_or_default().to_owned()
}

impl Scalars<'_> {
    /// One operation with one result.
    pub(super) fn op(&self, name: &str, operands: &[Value], result: Type) -> Value {
        self.builder.value(name, operands, result, &[])
    }
    /// An integer constant, given as a signed number.
    pub(super) fn int(&self, ty: Type, value: i64) -> Value {
        let attr = if ty.is_bool() { Attr::bool(ty.ctx(), value != 0) } else { Attr::int_of(ty, value) };
        self.constant(ty, attr)
    }
    /// A constant.
    pub(super) fn constant(&self, ty: Type, value: Attr) -> Value {
        self.builder.value("arith.constant", &[], ty, &[("value", value)])
    }
    /// A comparison by `arith`'s number of the predicate.
    pub(super) fn compare(&self, lhs: Value, rhs: Value, predicate: i64) -> Value {
        let ctx = self.builder.ctx();
        let name = if lhs.ty().is_float() { "arith.cmpf" } else { "arith.cmpi" };
        self.builder.value(name, &[lhs, rhs], Type::int(ctx, 1), &[("predicate", Attr::i64(ctx, predicate))])
    }
    /// Whether a number is not zero.
    pub(super) fn is_nonzero(&self, value: Value) -> Value {
        let ty = value.ty();
        if ty.is_float() {
            self.compare(value, self.constant(ty, Attr::float_of(ty, 0.0)), FLOAT_NE)
        } else {
            self.compare(value, self.int(ty, 0), INT_NE)
        }
    }

    /// A pointwise primitive on scalars; None if it has no lowering at its element type.
    pub(super) fn pointwise(&mut self, op: Op, operands: &[Value]) -> Option<Value> {
        let name = op.name();
        let name = name.strip_prefix("dynamo.")?;
        let result = op.result(0).ty().element();
        match name {
            "full" => return Some(self.full(result, op.attr("value")?)),
            "select" => return Some(self.op("arith.select", operands, signless(result))),
            "convert" => return Some(convert::lower(self, operands[0], op.operand(0).ty().element(), result)),
            "bitcast" if operands[0].ty() == signless(result) => return Some(operands[0]),
            "bitcast" => return Some(self.op("arith.bitcast", operands, signless(result))),
            _ => {}
        }
        let ty = op.operand(0).ty().element();
        if !is_half(ty) {
            return self.arithmetic(name, op, operands, ty);
        }
        if name == "nextafter" {
            // The next number in `f32` rounds back to where it started.
            return None;
        }
        let single = Type::f32(ty.ctx());
        let wide: Vec<_> = operands.iter().map(|&operand| convert::lower(self, operand, ty, single)).collect();
        let value = self.arithmetic(name, op, &wide, single)?;
        Some(if value.ty() == single { convert::lower(self, value, single, result) } else { value })
    }

    fn full(&self, ty: Type, value: Attr) -> Value {
        match value.as_i64() {
            // A signless `i8` is written as a signed number.
            Some(number) if ty.is_unsigned() => self.int(signless(ty), i64::from(number as u8 as i8)),
            _ => self.constant(ty, value),
        }
    }

    fn arithmetic(&mut self, name: &str, op: Op, operands: &[Value], ty: Type) -> Option<Value> {
        if name == "compare" {
            let predicate = case(op, "predicate");
            let &(_, float, signed, unsigned) = PREDICATES.iter().find(|row| row.0 == predicate)?;
            let number = match () {
                () if ty.is_float() => float,
                () if ty.is_unsigned() || ty.is_bool() => unsigned,
                () => signed,
            };
            return Some(self.compare(operands[0], operands[1], number));
        }
        if ty.is_float() { self.float(name, operands, ty) } else { self.integer(name, operands, ty) }
    }

    fn float(&mut self, name: &str, operands: &[Value], ty: Type) -> Option<Value> {
        let table = match operands.len() {
            1 => FLOAT_UNARY,
            2 => FLOAT_BINARY,
            _ => FLOAT_TERNARY,
        };
        if let Some((_, target)) = table.iter().find(|row| row.0 == name) {
            return Some(self.op(target, operands, ty));
        }
        if name == "rsqrt" {
            // Not `math.rsqrt`, which may be approximate.
            let root = self.op("math.sqrt", operands, ty);
            let one = self.constant(ty, Attr::float_of(ty, 1.0));
            return Some(self.op("arith.divf", &[one, root], ty));
        }
        LIBRARY.contains(&name).then(|| self.call(name, operands, ty))
    }

    fn call(&mut self, name: &str, operands: &[Value], ty: Type) -> Value {
        let symbol = if ty.width() == 32 { format!("{name}f") } else { name.to_owned() };
        let signature = Type::function(ty.ctx(), &vec![ty; operands.len()], &[ty]);
        let callee = Attr::symbol(ty.ctx(), &symbol);
        self.library.insert(symbol, signature);
        self.builder.value("func.call", operands, ty, &[("callee", callee)])
    }

    fn integer(&self, name: &str, operands: &[Value], ty: Type) -> Option<Value> {
        let scalar = signless(ty);
        let unsigned = ty.is_unsigned() || ty.is_bool();
        match (name, operands) {
            ("neg", &[x]) => Some(self.op("arith.subi", &[self.int(scalar, 0), x], scalar)),
            ("abs", &[x]) if unsigned => Some(x),
            ("abs", &[x]) => {
                // Not `math.absi`, which `convert-math-to-libm` refuses.
                let negated = self.op("arith.subi", &[self.int(scalar, 0), x], scalar);
                Some(self.op("arith.maxsi", &[x, negated], scalar))
            }
            ("not", &[x]) => Some(self.op("arith.xori", &[x, self.int(scalar, -1)], scalar)),
            ("shl", &[_, count]) => {
                // A negative count is a large unsigned one.
                let width = Type::int(ty.ctx(), ty.width());
                let inside = if ty.is_bool() {
                    self.op("arith.xori", &[count, self.int(width, -1)], width)
                } else {
                    self.compare(count, self.int(scalar, i64::from(ty.width())), INT_ULT)
                };
                let shifted = self.op("arith.shli", operands, scalar);
                Some(self.op("arith.select", &[inside, shifted, self.int(scalar, 0)], scalar))
            }
            ("shr", &[x, _]) if ty.is_bool() => Some(x),
            ("shr", &[_, count]) if unsigned => {
                let inside = self.compare(count, self.int(scalar, i64::from(ty.width())), INT_ULT);
                let shifted = self.op("arith.shrui", operands, scalar);
                Some(self.op("arith.select", &[inside, shifted, self.int(scalar, 0)], scalar))
            }
            ("shr", &[x, count]) => {
                let last = self.int(scalar, i64::from(ty.width()) - 1);
                let count = self.op("arith.minui", &[count, last], scalar);
                Some(self.op("arith.shrsi", &[x, count], scalar))
            }
            _ => {
                let &(_, on_signed, on_unsigned, on_bool) = INT_BINARY.iter().find(|row| row.0 == name)?;
                let target = match () {
                    () if ty.is_bool() => on_bool,
                    () if unsigned => on_unsigned,
                    () => on_signed,
                };
                Some(self.op(target, operands, scalar))
            }
        }
    }

    /// One step of a reduction or scan. Float sums and products of a reduction may be reordered, or no loop over them
    /// vectorizes; each partial result of a scan is seen.
    pub(super) fn combine(&self, op: Op, accumulator: Value, value: Value) -> Option<Value> {
        let (kind, ty) = (case(op, "kind"), op.result(0).ty().element());
        let primitive = match kind.as_str() {
            "sum" => "add",
            "prod" => "mul",
            kind => kind,
        };
        if !ty.is_float() {
            return self.integer(primitive, &[accumulator, value], ty);
        }
        let (_, target) = FLOAT_BINARY.iter().find(|row| row.0 == primitive)?;
        let wide = if is_half(ty) { Type::f32(ty.ctx()) } else { ty };
        let operands = [accumulator, value].map(|operand| convert::lower(self, operand, ty, wide));
        let flags = Attr::parse(ty.ctx(), "#arith.fastmath<reassoc>")?;
        let attrs: &[_] = if op.is("dynamo.reduce") && matches!(primitive, "add" | "mul") { &[("fastmath", flags)] } else { &[] };
        Some(convert::lower(self, self.builder.value(target, &operands, wide, attrs), wide, ty))
    }

    /// What a reduction of nothing gives.
    pub(super) fn neutral(&self, kind: &str, ty: Type) -> Option<Value> {
        let scalar = signless(ty);
        if ty.is_float() {
            let value = match kind {
                "sum" => 0.0,
                "prod" => 1.0,
                "max" => f64::NEG_INFINITY,
                "min" => f64::INFINITY,
                _ => return None,
            };
            return Some(self.constant(ty, Attr::float_of(ty, value)));
        }
        let unsigned = ty.is_unsigned() || ty.is_bool();
        let smallest = if unsigned { 0 } else { i64::MIN >> (64 - ty.width()) };
        let value = match kind {
            "sum" | "or" | "xor" => 0,
            "prod" => 1,
            "max" => smallest,
            // All ones in the width of the type: the largest unsigned number is written -1.
            "min" if unsigned => -1,
            "min" => !smallest,
            "and" => -1,
            _ => return None,
        };
        Some(self.int(scalar, value))
    }
}
