//! `vector`.

use crate::ir::{Attr, Builder, Op, Type, Value};

names! {
    BITCAST = "vector.bitcast";
    EXTRACT = "vector.extract";
    FROM_ELEMENTS = "vector.from_elements";
    LOAD = "vector.load";
    STORE = "vector.store";
    TRANSFER_WRITE = "vector.transfer_write";
}

impl Builder {
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
