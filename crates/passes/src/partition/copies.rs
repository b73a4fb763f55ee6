//! Operations of one function, copied into another that takes other arguments.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Loc, Op, Type, Value},
    upstream::func,
};

/// The operations that have been copied, and what stands for the values of before.
pub struct Copies {
    block: Block,
    inside: HashMap<Value, Value>,
}

impl Copies {
    /// Into a block whose arguments stand for these values.
    pub fn new(block: Block, given: impl Iterator<Item = Value>) -> Self {
        Self { block, inside: given.zip(block.args()).collect() }
    }

    /// What stands for a value.
    pub fn of(&self, value: Value) -> Value {
        self.inside.get(&value).copied().unwrap_or(value)
    }

    /// Takes one value for another from here on.
    pub fn stand_for(&mut self, value: Value, other: Value) {
        let other = self.of(other);
        self.inside.entry(value).or_insert(other);
    }

    /// Takes another value, of this block, for one that is there.
    pub fn replace(&mut self, value: Value, other: Value) {
        self.inside.insert(value, other);
    }

    /// Copies an operation whose operands are there.
    pub fn copy(&mut self, op: Op) {
        let made = op.clone_detached();
        made.walk(&mut |inner| {
            for (index, operand) in inner.operands().into_iter().enumerate() {
                if let Some(&value) = self.inside.get(&operand) {
                    inner.set_operand(index, value);
                }
            }
        });
        // It has been decided.
        made.walk(&mut super::forget);
        self.block.append(made);
        for (old, new) in op.results().into_iter().zip(made.results()) {
            // What was saved is an argument already.
            self.inside.entry(old).or_insert(new);
        }
    }

    /// Returns these values, whose attributes those of the function's results become.
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

/// What a function says of a result.
pub fn result_attrs(function: Op, at: usize) -> Attr {
    attrs_of(function, func::RES_ATTRS, at)
}

/// What a function says of an argument.
pub fn argument_attrs(function: Op, at: usize) -> Attr {
    attrs_of(function, func::ARG_ATTRS, at)
}

fn attrs_of(function: Op, name: &str, at: usize) -> Attr {
    let none = || Attr::dict(function.ctx(), &[]);
    function.optional::<Vec<Attr>>(name).and_then(|attrs| attrs.get(at).copied()).unwrap_or_else(none)
}
