//! `arith`.

use super::number;
use crate::ir::{Attr, Builder, Ctx, Type, Value};

/// The dialect.
pub const DIALECT: &str = "arith";

names! {
    CMPF = "arith.cmpf";
    CMPI = "arith.cmpi";
    CONSTANT = "arith.constant";
    SELECT = "arith.select";
}

like_operand! {
    ADDF addf(a, b) = "arith.addf";
    ADDI addi(a, b) = "arith.addi";
    ANDI andi(a, b) = "arith.andi";
    DIVF divf(a, b) = "arith.divf";
    DIVSI divsi(a, b) = "arith.divsi";
    DIVUI divui(a, b) = "arith.divui";
    MAXIMUMF maximumf(a, b) = "arith.maximumf";
    MAXNUMF maxnumf(a, b) = "arith.maxnumf";
    FLOORDIVSI floordivsi(a, b) = "arith.floordivsi";
    MAXSI maxsi(a, b) = "arith.maxsi";
    MAXUI maxui(a, b) = "arith.maxui";
    MINIMUMF minimumf(a, b) = "arith.minimumf";
    MINNUMF minnumf(a, b) = "arith.minnumf";
    MINSI minsi(a, b) = "arith.minsi";
    MINUI minui(a, b) = "arith.minui";
    MULF mulf(a, b) = "arith.mulf";
    MULI muli(a, b) = "arith.muli";
    NEGF negf(x) = "arith.negf";
    ORI ori(a, b) = "arith.ori";
    REMF remf(a, b) = "arith.remf";
    REMSI remsi(a, b) = "arith.remsi";
    REMUI remui(a, b) = "arith.remui";
    SHLI shli(x, count) = "arith.shli";
    SHRSI shrsi(x, count) = "arith.shrsi";
    SHRUI shrui(x, count) = "arith.shrui";
    SUBF subf(a, b) = "arith.subf";
    SUBI subi(a, b) = "arith.subi";
    XORI xori(a, b) = "arith.xori";
}

casts! {
    BITCAST bitcast = "arith.bitcast";
    EXTF extf = "arith.extf";
    EXTSI extsi = "arith.extsi";
    EXTUI extui = "arith.extui";
    FPTOSI fptosi = "arith.fptosi";
    INDEX_CAST index_cast = "arith.index_cast";
    SITOFP sitofp = "arith.sitofp";
    TRUNCF truncf = "arith.truncf";
    TRUNCI trunci = "arith.trunci";
    UITOFP uitofp = "arith.uitofp";
}

/// Predicates of `arith.cmpf`: false (O) or true (U) if an operand is NaN.
#[expect(missing_docs, reason = "the names are upstream's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmpF {
    Oeq = 1,
    Ogt = 2,
    Oge = 3,
    Olt = 4,
    Ole = 5,
    Une = 13,
    Uno = 14,
}

/// Predicates of `arith.cmpi`.
#[expect(missing_docs, reason = "the names are upstream's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmpI {
    Eq = 0,
    Ne = 1,
    Slt = 2,
    Sle = 3,
    Sgt = 4,
    Sge = 5,
    Ult = 6,
    Ule = 7,
    Ugt = 8,
    Uge = 9,
}

/// `#arith.fastmath<reassoc>`: sums and products may be taken in another order.
pub fn reassoc(ctx: Ctx) -> Attr {
    Attr::known(ctx, "#arith.fastmath<reassoc>")
}

impl Builder {
    /// `arith.cmpf`.
    pub fn cmpf(&self, predicate: CmpF, a: Value, b: Value) -> Value {
        self.value(CMPF, &[a, b], a.ty().with_element(Type::int(self.ctx(), 1)), &[number(self.ctx(), "predicate", predicate as i64)])
    }
    /// `arith.cmpi`.
    pub fn cmpi(&self, predicate: CmpI, a: Value, b: Value) -> Value {
        self.value(CMPI, &[a, b], a.ty().with_element(Type::int(self.ctx(), 1)), &[number(self.ctx(), "predicate", predicate as i64)])
    }
    /// `arith.select`.
    pub fn select(&self, condition: Value, a: Value, b: Value) -> Value {
        self.value(SELECT, &[condition, a, b], a.ty(), &[])
    }
    /// `arith.constant`; for a vector, a splat of `element`.
    pub fn constant(&self, ty: Type, element: Attr) -> Value {
        let value = if ty.is_vector() { Attr::splat(ty, element) } else { element };
        self.value(CONSTANT, &[], ty, &[("value", value)])
    }
    /// `arith.constant` of a one-dimensional vector.
    pub fn int_vector(&self, values: &[i32]) -> Value {
        let ty = Type::vector(&[values.len() as i64], Type::int(self.ctx(), 32));
        self.value(CONSTANT, &[], ty, &[("value", Attr::dense_i32s(ty, values))])
    }
    /// `arith.constant` of a float, or a splat of it.
    pub fn float(&self, ty: Type, value: f64) -> Value {
        self.constant(ty, Attr::float_of(ty.element(), value))
    }
    /// `arith.constant` of an integer or index, or a splat of it.
    pub fn int(&self, ty: Type, value: i64) -> Value {
        let element = ty.element();
        self.constant(ty, if element.is_bool() { Attr::bool(self.ctx(), value != 0) } else { Attr::int_of(element, value) })
    }
    /// `arith.constant` of an index.
    pub fn index(&self, value: i64) -> Value {
        self.int(Type::index(self.ctx()), value)
    }
}
