//! `func`.

use crate::ir::{Attr, Builder, Op, Type, Value};

names! {
    CALL = "func.call";
    FUNC = "func.func";
    RETURN = "func.return";
}

impl Builder {
    /// `func.call` of a function with one result.
    pub fn func_call(&self, callee: &str, operands: &[Value], result: Type) -> Value {
        self.value(CALL, operands, result, &[("callee", Attr::symbol(self.ctx(), callee))])
    }
    /// `func.return`.
    pub fn func_return(&self, values: &[Value]) -> Op {
        self.op(RETURN, values, &[], &[])
    }
}

/// The type that a function declares.
///
/// # Panics
/// It is not a function.
pub fn function_type(function: Op) -> Type {
    function.required("function_type")
}
