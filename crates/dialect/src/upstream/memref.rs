//! `memref`.

use super::{number, segments};
use crate::ir::{Attr, Builder, DYNAMIC, Op, Type, Value};

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
    /// `memref.alloca` of a type whose sizes are numbers, at a multiple of `alignment` bytes.
    pub fn memref_alloca(&self, ty: Type, alignment: i64) -> Value {
        self.value(ALLOCA, &[], ty, &[number(self.ctx(), "alignment", alignment), segments(self.ctx(), &[0, 0])])
    }
    /// `memref.prefetch` of memory that is read.
    pub fn memref_prefetch(&self, memory: Value, at: &[Value]) -> Op {
        let attrs = [
            ("isWrite", Attr::bool(self.ctx(), false)),
            ("localityHint", Attr::int_of(Type::int(self.ctx(), 32), 3)),
            ("isDataCache", Attr::bool(self.ctx(), true)),
        ];
        self.op(PREFETCH, &[&[memory], at].concat(), &[], &attrs)
    }
    /// `memref.reinterpret_cast` to a type whose sizes, strides and offset are numbers.
    pub fn memref_reinterpret_cast(&self, memory: Value, ty: Type) -> Value {
        self.recast(memory, None, [&[], &[]], ty)
    }
    /// `memref.reinterpret_cast` that begins at an element known at run time: the type's offset is `?`.
    pub fn memref_reinterpret_cast_from(&self, memory: Value, offset: Value, ty: Type) -> Value {
        self.recast(memory, Some(offset), [&[], &[]], ty)
    }
    /// `memref.reinterpret_cast` to a type whose offset is a number. There is a value for each `?` of its sizes and of its strides.
    pub fn memref_reinterpret_cast_to(&self, memory: Value, sizes: &[Value], strides: &[Value], ty: Type) -> Value {
        self.recast(memory, None, [sizes, strides], ty)
    }
    /// `memref.reinterpret_cast` that begins at an element known at run time. There is a value for each `?` of the type's sizes and of its
    /// strides.
    pub fn memref_reinterpret_cast_at(&self, memory: Value, offset: Value, sizes: &[Value], strides: &[Value], ty: Type) -> Value {
        self.recast(memory, Some(offset), [sizes, strides], ty)
    }
    fn recast(&self, memory: Value, offset: Option<Value>, [sizes, strides]: [&[Value]; 2], ty: Type) -> Value {
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let attrs = [
            segments(self.ctx(), &[1, i32::from(offset.is_some()), sizes.len() as i32, strides.len() as i32]),
            ("static_offsets", list(&[ty.offset()])),
            ("static_sizes", list(&ty.shape())),
            ("static_strides", list(&ty.strides())),
        ];
        let operands: Vec<Value> = std::iter::once(memory).chain(offset).chain(sizes.iter().chain(strides).copied()).collect();
        self.value(REINTERPRET_CAST, &operands, ty, &attrs)
    }
    /// `memref.subview` with unit strides, static sizes and offsets known at run time.
    pub fn memref_subview(&self, memory: Value, offsets: &[Value], ty: Type) -> Value {
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let rank = offsets.len();
        let attrs = [
            segments(self.ctx(), &[1, rank as i32, 0, 0]),
            ("static_offsets", list(&vec![DYNAMIC; rank])),
            ("static_sizes", list(&ty.shape())),
            ("static_strides", list(&vec![1; rank])),
        ];
        self.value(SUBVIEW, &[&[memory], offsets].concat(), ty, &attrs)
    }
    /// `memref.subview` with unit strides and offsets known at run time. There is a value for each `?` of the type's sizes.
    pub fn memref_window(&self, memory: Value, offsets: &[Value], sizes: &[Value], ty: Type) -> Value {
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let rank = offsets.len();
        let attrs = [
            segments(self.ctx(), &[1, rank as i32, sizes.len() as i32, 0]),
            ("static_offsets", list(&vec![DYNAMIC; rank])),
            ("static_sizes", list(&ty.shape())),
            ("static_strides", list(&vec![1; rank])),
        ];
        self.value(SUBVIEW, &[&[memory], offsets, sizes].concat(), ty, &attrs)
    }
    /// `memref.extract_strided_metadata`: the base buffer, the offset, the sizes, the strides.
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
