//! `vector`.

use super::arith;
use crate::ir::{Attr, Builder, Ctx, Op, Type, Value};

names! {
    BITCAST = "vector.bitcast";
    BROADCAST = "vector.broadcast";
    CONSTANT_MASK = "vector.constant_mask";
    CREATE_MASK = "vector.create_mask";
    EXTRACT = "vector.extract";
    FMA = "vector.fma";
    FROM_ELEMENTS = "vector.from_elements";
    GATHER = "vector.gather";
    LOAD = "vector.load";
    MASKED_LOAD = "vector.maskedload";
    REDUCTION = "vector.reduction";
    SHUFFLE = "vector.shuffle";
    STORE = "vector.store";
    TRANSFER_WRITE = "vector.transfer_write";
}

/// The way `vector.reduction` combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Floats are added, in any order.
    Add,
    /// The largest float; NaN is larger than any other.
    Maximum,
    /// Bitwise or of integers.
    Or,
}

/// The type of a mask of `lanes` booleans.
fn mask_type(ctx: Ctx, lanes: i64) -> Type {
    Type::vector(&[lanes], Type::int(ctx, 1))
}

impl Builder {
    /// `vector.load` of neighbours, at any alignment.
    pub fn vector_load_unaligned(&self, ty: Type, memory: Value, at: &[Value]) -> Value {
        self.value(LOAD, &[&[memory], at].concat(), ty, &[])
    }
    /// `vector.store` to neighbours, at any alignment.
    pub fn vector_store_unaligned(&self, vector: Value, memory: Value, at: &[Value]) -> Op {
        self.op(STORE, &[&[vector, memory], at].concat(), &[], &[])
    }
    /// `vector.maskedload`: neighbours where the mask is true, `others` elsewhere.
    pub fn vector_masked_load(&self, memory: Value, at: &[Value], mask: Value, others: Value) -> Value {
        self.value(MASKED_LOAD, &[&[memory], at, &[mask, others]].concat(), others.ty(), &[])
    }
    /// `vector.gather` of the elements at these distances from an element of one-dimensional memory.
    pub fn vector_gather(&self, memory: Value, at: Value, distances: Value, mask: Value, others: Value) -> Value {
        self.value(GATHER, &[memory, at, distances, mask, others], others.ty(), &[])
    }
    /// `vector.constant_mask`: the first lanes.
    pub fn vector_constant_mask(&self, lanes: i64, first: i64) -> Value {
        self.value(CONSTANT_MASK, &[], mask_type(self.ctx(), lanes), &[("mask_dim_sizes", Attr::i64s(self.ctx(), &[first]))])
    }
    /// `vector.create_mask`: the first lanes, their number known at run time.
    pub fn vector_create_mask(&self, lanes: i64, first: Value) -> Value {
        self.value(CREATE_MASK, &[first], mask_type(self.ctx(), lanes), &[])
    }
    /// `vector.broadcast` of a number.
    pub fn vector_broadcast(&self, element: Value, lanes: i64) -> Value {
        self.value(BROADCAST, &[element], Type::vector(&[lanes], element.ty()), &[])
    }
    /// `vector.fma`: a · b + c, rounded once.
    pub fn vector_fma(&self, a: Value, b: Value, c: Value) -> Value {
        self.value(FMA, &[a, b, c], c.ty(), &[])
    }
    /// `vector.reduction` to one element.
    pub fn vector_reduction(&self, kind: Reduction, vector: Value) -> Value {
        let kind_of = |word: &str| ("kind", Attr::known(self.ctx(), &format!("#vector.kind<{word}>")));
        let attrs = match kind {
            Reduction::Add => vec![kind_of("add"), ("fastmath", arith::reassoc(self.ctx()))],
            Reduction::Maximum => vec![kind_of("maximumf")],
            Reduction::Or => vec![kind_of("or")],
        };
        self.value(REDUCTION, &[vector], vector.ty().element(), &attrs)
    }
    /// `vector.shuffle`: elements of a, then of b, by their numbers.
    pub fn vector_shuffle(&self, a: Value, b: Value, lanes: &[i64]) -> Value {
        let ty = Type::vector(&[lanes.len() as i64], a.ty().element());
        self.value(SHUFFLE, &[a, b], ty, &[("mask", Attr::i64s(self.ctx(), lanes))])
    }
    /// `vector.load` from an address that is a multiple of the vector's size.
    pub fn vector_load(&self, ty: Type, memory: Value, at: &[Value]) -> Value {
        self.value(LOAD, &[&[memory], at].concat(), ty, &[self.whole_alignment(ty)])
    }
    /// `vector.store` to an address that is a multiple of the vector's size.
    pub fn vector_store(&self, vector: Value, memory: Value, at: &[Value]) -> Op {
        self.op(STORE, &[&[vector, memory], at].concat(), &[], &[self.whole_alignment(vector.ty())])
    }
    /// `vector.extract` of one element of a vector of one dimension.
    pub fn vector_extract(&self, vector: Value, lane: i64) -> Value {
        self.value(EXTRACT, &[vector], vector.ty().element(), &[("static_position", Attr::i64s(self.ctx(), &[lane]))])
    }
    /// `vector.from_elements` of one dimension.
    pub fn vector_from_elements(&self, elements: &[Value]) -> Value {
        let ty = Type::vector(&[elements.len() as i64], elements[0].ty());
        self.value(FROM_ELEMENTS, elements, ty, &[])
    }
    /// `vector.bitcast`.
    pub fn vector_bitcast(&self, vector: Value, ty: Type) -> Value {
        self.value(BITCAST, &[vector], ty, &[])
    }
    fn whole_alignment(&self, ty: Type) -> (&'static str, Attr) {
        ("alignment", Attr::i64(self.ctx(), ty.numel() * i64::from(ty.element().width().div_ceil(8))))
    }
}
