//! `memref`.

use super::segments;
use crate::ir::{Attr, Builder, Op, Type, Value};

/// The dialect.
pub const DIALECT: &str = "memref";

names! {
    ALLOC = "memref.alloc";
    ALLOCA = "memref.alloca";
    COPY = "memref.copy";
    DEALLOC = "memref.dealloc";
    EXTRACT_ALIGNED_POINTER_AS_INDEX = "memref.extract_aligned_pointer_as_index";
    EXTRACT_STRIDED_METADATA = "memref.extract_strided_metadata";
    LOAD = "memref.load";
    PREFETCH = "memref.prefetch";
    REINTERPRET_CAST = "memref.reinterpret_cast";
    STORE = "memref.store";
    SUBVIEW = "memref.subview";
}

impl Builder {
    /// `memref.load`.
    pub fn memref_load(&self, memory: Value, at: &[Value]) -> Value {
        self.value(LOAD, &[&[memory], at].concat(), memory.ty().element(), &[])
    }
    /// `memref.store`.
    pub fn memref_store(&self, value: Value, memory: Value, at: &[Value]) -> Op {
        self.op(STORE, &[&[value, memory], at].concat(), &[], &[])
    }
    /// `memref.dealloc`.
    pub fn memref_dealloc(&self, memory: Value) -> Op {
        self.op(DEALLOC, &[memory], &[], &[])
    }
    /// `memref.reinterpret_cast` to a type whose sizes, strides and offset are numbers.
    pub fn memref_reinterpret_cast(&self, memory: Value, ty: Type) -> Value {
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let attrs = [
            segments(self.ctx(), &[1, 0, 0, 0]),
            ("static_offsets", list(&[ty.offset()])),
            ("static_sizes", list(&ty.shape())),
            ("static_strides", list(&ty.strides())),
        ];
        self.value(REINTERPRET_CAST, &[memory], ty, &attrs)
    }
    /// `memref.extract_strided_metadata`: the memory from its beginning, the offset, the sizes, the strides.
    pub fn memref_extract_strided_metadata(&self, memory: Value) -> Op {
        let base = Type::memref(&[], memory.ty().element(), &[], 0);
        let numbers = vec![Type::index(self.ctx()); 1 + 2 * memory.ty().rank()];
        self.op(EXTRACT_STRIDED_METADATA, &[memory], &[&[base], &numbers[..]].concat(), &[])
    }
    /// `memref.extract_aligned_pointer_as_index`.
    pub fn memref_address(&self, memory: Value) -> Value {
        self.value(EXTRACT_ALIGNED_POINTER_AS_INDEX, &[memory], Type::index(self.ctx()), &[])
    }
}
