//! `tensor`.

use crate::ir::{Attr, Builder, Type, Value};

names! {
    EMPTY = "tensor.empty";
    EXTRACT = "tensor.extract";
}

impl Builder {
    /// `tensor.empty` of static sizes.
    pub fn tensor_empty(&self, ty: Type, attrs: &[(&str, Attr)]) -> Value {
        self.value(EMPTY, &[], ty, attrs)
    }
    /// `tensor.extract`.
    pub fn tensor_extract(&self, tensor: Value, at: &[Value]) -> Value {
        self.value(EXTRACT, &[&[tensor], at].concat(), tensor.ty().element(), &[])
    }
}
