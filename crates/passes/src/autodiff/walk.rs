//! The walk from the last operation to the first, with the gradients that have been found so far.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use dynamlir_dialect::{
    ir::{Block, Builder, Loc, Op, Value},
    ops::{AtenOp, DynamoOp},
    pass::{PassError, PassResult},
};
use dynamlir_reasons::AUTOGRAD;
use dynamlir_shapes::Scope;

use super::{at::At, aten::Aten, primitives, rules, vjp};
use crate::decompose::Call;

/// Gradients by the value that they are of.
pub struct Walk<'s> {
    function: Op,
    /// What is known of the symbols in sizes.
    scope: &'s Rc<Scope>,
    exit: Op,
    /// The values that have a history. Gradients of others are not asked for.
    histories: HashSet<Value>,
    /// The functions that `vjp` may name.
    pub functions: HashMap<String, Op>,
    gradients: HashMap<Value, Value>,
    /// Where a rule has given something that is no gradient of its operand.
    wrong: Option<String>,
}

impl<'s> Walk<'s> {
    /// Of a function, with no gradients yet; what rules emit goes before its `exit`.
    pub fn new(function: Op, scope: &'s Rc<Scope>, exit: Op, histories: HashSet<Value>, functions: HashMap<String, Op>) -> Self {
        Self { function, scope, exit, histories, functions, gradients: HashMap::new(), wrong: None }
    }

    /// Whether a gradient of this value is asked for.
    pub fn needs(&self, value: Value) -> bool {
        self.histories.contains(&value)
    }

    /// The gradient of a value, if any has reached it.
    pub fn gradient(&self, value: Value) -> Option<Value> {
        self.gradients.get(&value).copied()
    }

    /// One more gradient of a value: what it is good for is added up.
    pub fn add(&mut self, value: Value, gradient: Value) {
        if !self.needs(value) {
            return;
        }
        let emit = self.emit(location(value, self.exit));
        let is_open = gradient.ty().is_open() || value.ty().is_open();
        let fitted = if is_open { emit.fitted(gradient, &value.ty().dims()).unwrap_or(gradient) } else { gradient };
        if fitted.ty() != value.ty() {
            self.wrong.get_or_insert_with(|| format!("a gradient of {} for {}", gradient.ty(), value.ty()));
            return;
        }
        let sum = self.gradient(value).map_or(fitted, |before| emit.add(before, fitted));
        self.gradients.insert(value, sum);
    }

    /// Takes all operations from the last to the first. Gives how many of them a gradient went through.
    pub fn run(&mut self) -> Result<usize, PassError> {
        let emitted_before: Vec<Op> = self.function.body().map(Block::ops).unwrap_or_default();
        let mut count = 0;
        for op in emitted_before.into_iter().rev() {
            if op.results().into_iter().any(|result| self.gradient(result).is_some()) {
                count += 1;
                self.step(op)?;
            }
        }
        Ok(count)
    }

    /// Erases what rules have emitted, which is what comes after `last`, and nothing uses.
    pub fn sweep(&self, last: Option<Op>, exit: Op) {
        let first = last.map_or_else(|| self.function.body().and_then(|block| block.ops().first().copied()), Op::next);
        let emitted: Vec<Op> = std::iter::successors(first, |op| op.next()).take_while(|op| *op != exit).collect();
        for op in emitted.into_iter().rev() {
            if op.is_unused() {
                op.erase();
            }
        }
    }

    fn step(&mut self, op: Op) -> PassResult {
        if !op.operands().into_iter().any(|operand| self.needs(operand)) {
            return Ok(());
        }
        let emit = self.emit(op.loc());
        let done = match DynamoOp::of(op) {
            Some(DynamoOp::Aten(call)) if call.vjp().is_some() => return vjp::apply(self, call, emit),
            Some(DynamoOp::Aten(call)) => self.by_rule(call, emit),
            Some(primitive) => At::new(self, op, emit).and_then(|mut at| primitives::differentiate(primitive, &mut at)),
            None => None,
        };
        if let Some(wrong) = self.wrong.take() {
            let message = format!("the derivative of {} gives {wrong}", name(op));
            // Whether sizes are equal may depend on symbols.
            let is_open = op.operands().iter().any(|value| value.ty().is_open());
            return Err(if is_open { PassError::refusal(op, AUTOGRAD, message) } else { PassError::at(op, message) });
        }
        done.ok_or_else(|| PassError::refusal(op, AUTOGRAD, format!("no derivative of {} is known", name(op))))
    }

    fn emit(&self, loc: Loc) -> Aten<'s> {
        Aten::new(self.function, self.scope, Builder::before(self.exit).with_loc(loc))
    }

    fn by_rule(&mut self, call: AtenOp, emit: Aten<'s>) -> Option<()> {
        let row = rules::find(&call.schema())?;
        let mut at = At::new(self, call.op(), emit)?;
        let done = (row.rule)(&mut at);
        done.filter(|()| !at.c().is_some_and(Call::is_misread))
    }
}

/// How an operation is called in messages.
pub fn name(op: Op) -> String {
    AtenOp::cast(op).map_or_else(|| op.name(), AtenOp::schema)
}

fn location(value: Value, exit: Op) -> Loc {
    value.def().unwrap_or(exit).loc()
}
