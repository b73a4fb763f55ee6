//! The walk from the last operation to the first, with the gradients that have been found so far.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Value},
    ops::{AtenOp, DynamoOp},
    pass::{PassError, PassResult},
};
use dynamlir_reasons::AUTOGRAD;

use super::{at::At, aten::Aten, primitives, rules, vjp};

/// Gradients by the value that they are of.
pub struct Walk {
    function: Op,
    exit: Op,
    /// The values that have a history. Gradients of others are not asked for.
    histories: HashSet<Value>,
    /// The functions that `vjp` may name.
    pub functions: HashMap<String, Op>,
    gradients: HashMap<Value, Value>,
    /// Where a rule has given something that is no gradient of its operand.
    wrong: Option<String>,
}

impl Walk {
    /// Of a function, with no gradients yet; what rules emit goes before its `exit`.
    pub fn new(function: Op, exit: Op, histories: HashSet<Value>, functions: HashMap<String, Op>) -> Self {
        Self { function, exit, histories, functions, gradients: HashMap::new(), wrong: None }
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
        if gradient.ty() != value.ty() {
            self.wrong.get_or_insert_with(|| format!("a gradient of {} for {}", gradient.ty(), value.ty()));
            return;
        }
        let sum = match self.gradient(value) {
            None => gradient,
            Some(before) => Aten::new(self.function, Builder::before(self.exit).with_loc(location(value, self.exit))).add(before, gradient),
        };
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
        let emit = Aten::new(self.function, Builder::before(self.exit).with_loc(op.loc()));
        let done = match DynamoOp::of(op) {
            Some(DynamoOp::Aten(call)) if call.vjp().is_some() => return vjp::apply(self, call, emit),
            Some(DynamoOp::Aten(call)) => self.by_rule(call, emit),
            Some(primitive) => At::new(self, op, emit).and_then(|mut at| primitives::differentiate(primitive, &mut at)),
            None => None,
        };
        if let Some(wrong) = self.wrong.take() {
            return Err(PassError::at(op, format!("the derivative of {} gives {wrong}", name(op))));
        }
        done.ok_or_else(|| PassError::refusal(op, AUTOGRAD, format!("no derivative of {} is known", name(op))))
    }

    fn by_rule(&mut self, call: AtenOp, emit: Aten) -> Option<()> {
        let row = rules::find(&call.schema())?;
        (row.rule)(&mut At::new(self, call.op(), emit)?)
    }
}

/// How an operation is called in messages.
pub fn name(op: Op) -> String {
    AtenOp::cast(op).map_or_else(|| op.name(), AtenOp::schema)
}

fn location(value: Value, exit: Op) -> dynamlir_dialect::ir::Loc {
    value.def().unwrap_or(exit).loc()
}
