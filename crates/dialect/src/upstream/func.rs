//! `func`.

use crate::ir::{Attr, Builder, Op, Type, Value};

names! {
    CALL = "func.call";
    FUNC = "func.func";
    RETURN = "func.return";
}

/// Name of the attribute with a dictionary for each argument.
pub const ARG_ATTRS: &str = "arg_attrs";
/// Name of the attribute with a dictionary for each result.
pub const RES_ATTRS: &str = "res_attrs";
/// Name of the attribute with the function type.
pub const FUNCTION_TYPE: &str = "function_type";

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

/// The type of a function.
///
/// # Panics
/// If `function` is not a function.
pub fn function_type(function: Op) -> Type {
    function.required(FUNCTION_TYPE)
}
