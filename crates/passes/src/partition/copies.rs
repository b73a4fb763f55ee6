//! Copies operations of one function into another with different arguments.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Loc, Op, Type, Value},
    upstream::func,
};

/// The operations copied so far, and the mapping from old to new values.
pub struct Copies {
    block: Block,
    inside: HashMap<Value, Value>,
}

impl Copies {
    /// Starts copying into a block whose arguments represent these values.
    pub fn new(block: Block, given: impl Iterator<Item = Value>) -> Self {
        Self { block, inside: given.zip(block.args()).collect() }
    }

    /// The new value that corresponds to an old one.
    pub fn of(&self, value: Value) -> Value {
        self.inside.get(&value).copied().unwrap_or(value)
    }

    /// Maps an old value to the counterpart of another old value from here on.
    pub fn stand_for(&mut self, value: Value, other: Value) {
        let other = self.of(other);
        self.inside.entry(value).or_insert(other);
    }

    /// Maps an old value to another value of the new block.
    pub fn replace(&mut self, value: Value, other: Value) {
        self.inside.insert(value, other);
    }

    /// Copies an operation whose operands are available.
    pub fn copy(&mut self, op: Op) {
        let made = op.clone_detached();
        made.walk(&mut |inner| {
            for (index, operand) in inner.operands().into_iter().enumerate() {
                if let Some(&value) = self.inside.get(&operand) {
                    inner.set_operand(index, value);
                }
            }
        });
        // These attributes have served their purpose: the cut is decided.
        made.walk(&mut super::forget);
        self.block.append(made);
        for (old, new) in op.results().into_iter().zip(made.results()) {
            // A saved value is already an argument.
            self.inside.entry(old).or_insert(new);
        }
    }

    /// Returns these values from the function, and sets the attributes of its results.
    pub fn finish(self, function: Op, loc: Loc, results: &[(Value, Attr)]) {
        let values: Vec<Value> = results.iter().map(|(value, _)| self.of(*value)).collect();
        Builder::at_end(self.block, loc).func_return(&values);
        let inputs: Vec<Type> = self.block.args().iter().map(|arg| arg.ty()).collect();
        let types: Vec<Type> = values.iter().map(|value| value.ty()).collect();
        function.set_attr(func::FUNCTION_TYPE, Type::function(function.ctx(), &inputs, &types).as_attr());
        let attrs: Vec<Attr> = results.iter().map(|(_, attr)| *attr).collect();
        function.set_attr(func::RES_ATTRS, Attr::array(function.ctx(), &attrs));
    }
}

/// The attributes of a result.
pub fn result_attrs(function: Op, at: usize) -> Attr {
    attrs_of(function, func::RES_ATTRS, at)
}

/// The attributes of an argument.
pub fn argument_attrs(function: Op, at: usize) -> Attr {
    attrs_of(function, func::ARG_ATTRS, at)
}

fn attrs_of(function: Op, name: &str, at: usize) -> Attr {
    let none = || Attr::dict(function.ctx(), &[]);
    function.optional::<Vec<Attr>>(name).and_then(|attrs| attrs.get(at).copied()).unwrap_or_else(none)
}
