//! `bufferization`.

use crate::ir::{Attr, Builder, Op, Type, Value};

names! {
    MATERIALIZE_IN_DESTINATION = "bufferization.materialize_in_destination";
    TO_TENSOR = "bufferization.to_tensor";
}

impl Builder {
    /// `bufferization.to_tensor … restrict`.
    pub fn bufferization_to_tensor(&self, memory: Value) -> Value {
        self.bufferization_to_tensor_of(memory, Type::tensor(&memory.ty().shape(), memory.ty().element()))
    }
    /// The same, with this tensor type, whose sizes may be expressions.
    pub fn bufferization_to_tensor_of(&self, memory: Value, ty: Type) -> Value {
        self.value(TO_TENSOR, &[memory], ty, &[("restrict", Attr::unit(self.ctx()))])
    }
    /// `bufferization.materialize_in_destination … in restrict writable`.
    pub fn bufferization_materialize(&self, tensor: Value, memory: Value) -> Op {
        let unit = Attr::unit(self.ctx());
        self.op(MATERIALIZE_IN_DESTINATION, &[tensor, memory], &[], &[("restrict", unit), ("writable", unit)])
    }
}
