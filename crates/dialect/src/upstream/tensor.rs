//! `tensor`.

use super::segments;
use crate::ir::{Attr, Builder, Type, Value};

names! {
    EMPTY = "tensor.empty";
    EXTRACT = "tensor.extract";
    EXTRACT_SLICE = "tensor.extract_slice";
}

impl Builder {
    /// `tensor.empty`. There is a value in `sizes` for each `?` of the type.
    pub fn tensor_empty(&self, ty: Type, sizes: &[Value], attrs: &[(&str, Attr)]) -> Value {
        self.value(EMPTY, sizes, ty, attrs)
    }
    /// `tensor.extract_slice` with unit strides, from the first element on. There is a value in `sizes` for each `?` of the type.
    pub fn tensor_extract_slice(&self, tensor: Value, sizes: &[Value], ty: Type) -> Value {
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let rank = ty.rank();
        let attrs = [
            segments(self.ctx(), &[1, 0, sizes.len() as i32, 0]),
            ("static_offsets", list(&vec![0; rank])),
            ("static_sizes", list(&ty.shape())),
            ("static_strides", list(&vec![1; rank])),
        ];
        self.value(EXTRACT_SLICE, &[&[tensor], sizes].concat(), ty, &attrs)
    }
    /// `tensor.extract`.
    pub fn tensor_extract(&self, tensor: Value, at: &[Value]) -> Value {
        self.value(EXTRACT, &[&[tensor], at].concat(), tensor.ty().element(), &[])
    }
}
