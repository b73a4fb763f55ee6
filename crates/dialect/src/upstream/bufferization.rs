//! `bufferization`.

use crate::ir::{Attr, Builder, Type, Value};

names! {
    MATERIALIZE_IN_DESTINATION = "bufferization.materialize_in_destination";
    TO_TENSOR = "bufferization.to_tensor";
}

impl Builder {
    /// `bufferization.to_tensor … restrict`.
    pub fn bufferization_to_tensor(&self, memory: Value) -> Value {
        let ty = Type::tensor(&memory.ty().shape(), memory.ty().element());
        self.value(TO_TENSOR, &[memory], ty, &[("restrict", Attr::unit(self.ctx()))])
    }
}
