//! The joint function as input of the cut: its values, their users, and the side of each operation.

use std::collections::{BTreeSet, HashMap, HashSet};

use dynamlir_dialect::{
    ir::{AttrValue, Block, Op, Output, Value, sizes},
    ops::{self, DynamoOp},
    pass::PassError,
    upstream::func,
};
use dynamlir_shapes::Scope;

use crate::{
    decompose::random::draws_by_state,
    extent::expected,
    layouts::{refuse_huge, shown},
    total::is_total,
};

/// The side of an operation before the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A result of the forward depends on it, or it may raise or write.
    Forward,
    /// Only gradients depend on it, and it depends on no tangent: a part of a derivative that either side can compute.
    Either,
    /// It depends on a tangent, or is a part of a derivative that may raise.
    Backward,
}

/// An analyzed joint function.
pub struct Joint {
    /// The function.
    pub function: Op,
    /// Its operations in order, without the return.
    pub ops: Vec<Op>,
    /// Its return.
    pub exit: Op,
    /// The known facts about the symbols in sizes.
    pub scope: Scope,
    /// The side of each operation.
    pub sides: Vec<Side>,
    /// All arguments and results of operations.
    pub values: Vec<Value>,
    /// For each operation the numbers of the values that it uses: its operands, and outside values used by its body.
    pub uses: Vec<Vec<usize>>,
    /// The operation that defines each value; `None` for arguments.
    pub def: Vec<Option<usize>>,
    /// True for each value that is computed in the backward regardless of the cut.
    pub is_backward: Vec<bool>,
    /// The positions of tangents among the arguments.
    pub tangents: Vec<usize>,
    /// The positions of gradients among the results.
    pub gradients: Vec<usize>,
    /// The positions of results that are passed only between nodes.
    pub hidden: Vec<usize>,
    /// The nodes of autograd's graph that it represents, in order; at least one.
    pub nodes: Vec<Node>,
    number: HashMap<Value, usize>,
    /// The operations that use each value.
    users: Vec<Vec<usize>>,
    /// The position at which the forward returns each value, if it does.
    returned: HashMap<usize, usize>,
    /// True for each argument that is never written to.
    lent: Vec<bool>,
}

/// A node: the tangents that it receives and the gradients that it computes.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Positions among the arguments.
    pub tangents: Vec<usize>,
    /// Positions among the results.
    pub gradients: Vec<usize>,
}

impl Joint {
    /// Analyzes a function with tangents.
    ///
    /// # Errors
    /// If it is not one block that ends in a return, or a result of the forward depends on a tangent.
    pub fn of(function: Op) -> Result<Self, PassError> {
        let malformed = || PassError::at(function, "a joint function is one block that ends in func.return");
        let body = function.body().ok_or_else(malformed)?;
        let mut ops = body.ops();
        let exit = ops.pop().filter(|op| op.is(func::RETURN)).ok_or_else(malformed)?;
        let mut values: Vec<Value> = body.args();
        let mut def = vec![None; values.len()];
        for (at, op) in ops.iter().enumerate() {
            values.extend(op.results());
            def.resize(values.len(), Some(at));
        }
        let number: HashMap<Value, usize> = values.iter().copied().zip(0..).collect();
        let uses: Vec<Vec<usize>> =
            ops.iter().map(|&op| used(op).iter().filter_map(|value| number.get(value).copied()).collect()).collect();
        let tangents: Vec<usize> = (0..body.args().len()).filter(|&at| ops::TANGENT.of_arg(function, at).is_some()).collect();
        let gradients: Vec<usize> = (0..exit.num_operands()).filter(|&at| is_gradient(function, at)).collect();
        let hidden = (0..exit.num_operands()).filter(|&at| ops::HIDDEN.of_result(function, at).is_some()).collect();
        let nodes = nodes(function, &tangents, &gradients);
        let mut users = vec![Vec::new(); values.len()];
        for (at, used) in uses.iter().enumerate() {
            for &value in used {
                users[value].push(at);
            }
        }
        let lent = lent(function, body.args().len(), exit.num_operands());
        let mut joint = Self {
            function,
            sides: vec![Side::Either; ops.len()],
            ops,
            exit,
            scope: sizes::scope(function),
            values,
            uses,
            def,
            is_backward: Vec::new(),
            tangents,
            gradients,
            hidden,
            nodes,
            number,
            users,
            returned: HashMap::new(),
            lent,
        };
        for at in joint.returned_positions() {
            if ops::MUTATES.of_result(function, at).is_none() {
                joint.returned.entry(joint.number(joint.exit.operand(at))).or_insert(at);
            }
        }
        refuse_huge(function, &joint.values, &joint.scope)?;
        joint.find_sides()?;
        Ok(joint)
    }

    fn find_sides(&mut self) -> Result<(), PassError> {
        self.is_backward = vec![false; self.values.len()];
        self.tangents.iter().for_each(|&at| self.is_backward[at] = true);
        for at in 0..self.ops.len() {
            if self.uses[at].iter().any(|&value| self.is_backward[value]) {
                self.sides[at] = Side::Backward;
                for result in self.ops[at].results() {
                    let number = self.number(result);
                    self.is_backward[number] = true;
                }
            }
        }
        let mut wanted: HashSet<usize> = HashSet::new();
        for at in self.returned_positions() {
            let number = self.number(self.exit.operand(at));
            if self.is_backward[number] {
                return Err(PassError::at(self.exit, format!("result {at} is not a gradient, but depends on a tangent")));
            }
            wanted.insert(number);
        }
        for at in (0..self.ops.len()).rev() {
            let results: Vec<usize> = self.ops[at].results().into_iter().map(|result| self.number(result)).collect();
            // An unused operation that still exists may raise, and is kept for that. Random numbers are drawn at the same time as in eager.
            let is_kept = !self.ops[at].is_pure() && self.ops[at].is_unused() || draws_by_state(self.ops[at]);
            if self.sides[at] == Side::Either && (is_kept || results.iter().any(|result| wanted.contains(result))) {
                self.sides[at] = Side::Forward;
                wanted.extend(&self.uses[at]);
            }
        }
        // An operation that may raise does so in the backward, as eager's formula does; so do operations that depend on it.
        for at in 0..self.ops.len() {
            let may_raise = !self.ops[at].is_pure() && !is_total(self.ops[at]);
            if self.sides[at] == Side::Either && (may_raise || self.uses[at].iter().any(|&value| self.is_backward[value])) {
                self.sides[at] = Side::Backward;
                for result in self.ops[at].results() {
                    let number = self.number(result);
                    self.is_backward[number] = true;
                }
            }
        }
        Ok(())
    }

    /// The positions of the results that the forward returns.
    pub fn returned_positions(&self) -> Vec<usize> {
        (0..self.exit.num_operands()).filter(|at| !self.gradients.contains(at) && !self.hidden.contains(at)).collect()
    }

    /// The values that a node receives from other nodes: first results, including those passed only between nodes, then views that are
    /// outputs, each in the order of their numbers.
    pub fn taken(&self, node: &Node) -> Vec<Taken> {
        let place = |number: i64| usize::try_from(number).ok();
        let (mut results, mut outputs) = (BTreeSet::new(), BTreeSet::new());
        for &gradient in &node.gradients {
            results.extend(ops::GRADIENT_OF.of_result(self.function, gradient).and_then(place));
            outputs.extend(ops::GRADIENT_OF_OUTPUT.of_result(self.function, gradient).and_then(place));
        }
        for led in node.tangents.iter().flat_map(|&at| ops::LEADS_TO.of_arg(self.function, at).unwrap_or_default()) {
            match Output::read(led) {
                Some(Output::Result(at)) => _ = results.insert(at),
                Some(Output::Same(at)) => _ = outputs.insert(at),
                _ => {}
            }
        }
        let view = |output: usize| {
            let is_it = |op: &Op, result: &Value| result.result_index().and_then(|index| shown(*op, index)) == Some(output);
            self.ops.iter().find_map(|op| op.results().into_iter().find(|result| is_it(op, result)))
        };
        let results = results.into_iter().filter(|at| *at < self.exit.num_operands()).map(Taken::Result);
        results.chain(outputs.into_iter().filter_map(view).map(Taken::Shown)).collect()
    }

    /// The keys of all its random numbers, if it draws them.
    pub fn keys(&self) -> Option<usize> {
        let op = self.ops.iter().find(|&&op| ops::KEYS.is_on(op))?;
        Some(self.number(op.result(0)))
    }

    /// The operations of the forward that draw random numbers with torch's operators, in order.
    pub fn drawing_by_state(&self) -> Vec<usize> {
        let is_forward = |at: usize| !self.uses[at].iter().any(|&value| self.is_backward[value]);
        (0..self.ops.len()).filter(|&at| draws_by_state(self.ops[at]) && is_forward(at)).collect()
    }

    /// The number of a value of the function.
    pub fn number(&self, value: Value) -> usize {
        self.number[&value]
    }

    /// The position of an argument, given the number of its value.
    pub fn argument(&self, value: usize) -> Option<usize> {
        self.def[value].is_none().then_some(value)
    }

    /// Returns true if a value is an argument that is never written to, so that a reference to it is as good as a copy.
    pub fn is_lent(&self, value: usize) -> bool {
        self.lent.get(value).is_some_and(|&lent| lent)
    }

    /// The position at which the forward returns a value, if it does.
    pub fn returned(&self, value: usize) -> Option<usize> {
        self.returned.get(&value).copied()
    }

    /// Returns true if an operation belongs to a checkpoint, and so do all its users in the forward.
    pub fn is_inside(&self, at: usize) -> bool {
        let checkpoint = ops::RECOMPUTE.of(self.ops[at]);
        let results: Vec<usize> = self.ops[at].results().into_iter().map(|result| self.number(result)).collect();
        let leaves = |&other: &usize| self.sides[other] == Side::Forward && ops::RECOMPUTE.of(self.ops[other]) != checkpoint;
        let is_result = |at: usize| {
            !self.gradients.contains(&at) && !self.hidden.contains(&at) && results.contains(&self.number(self.exit.operand(at)))
        };
        checkpoint.is_some()
            && self.sides[at] == Side::Forward
            && !results.iter().flat_map(|&value| &self.users[value]).any(leaves)
            && !(0..self.exit.num_operands()).any(is_result)
    }

    /// True for each value that backward requires: it is a gradient, or used by an operation that depends on a tangent.
    ///
    /// The keys of random numbers are always kept, for differentiating the gradients (double backward).
    pub fn wanted_by_backward(&self) -> Vec<bool> {
        let mut wanted = vec![false; self.values.len()];
        if let Some(keys) = self.keys() {
            wanted[keys] = true;
        }
        for at in (0..self.ops.len()).filter(|&at| self.sides[at] == Side::Backward) {
            self.uses[at].iter().for_each(|&value| wanted[value] = true);
        }
        for &at in &self.gradients {
            wanted[self.number(self.exit.operand(at))] = true;
        }
        wanted
    }

    /// The values that a formula of backward reads, directly or through views: eager saves these, and no others.
    pub fn read_by_formulas(&self) -> Vec<bool> {
        let mut read = self.wanted_by_backward();
        for at in (0..self.ops.len()).rev() {
            let is_view = is_view(self.ops[at]);
            let passes_on = is_view && self.ops[at].results().into_iter().any(|result| read[self.number(result)]);
            if passes_on || self.sides[at] == Side::Either {
                self.uses[at].iter().for_each(|&value| read[value] = true);
            }
        }
        read
    }

    /// Returns true if formulas never read the value itself, only, for example, views of it computed in the forward.
    pub fn is_read_by_views(&self, value: usize) -> bool {
        self.users[value].iter().all(|&at| self.sides[at] == Side::Forward)
    }

    /// Size of a value in bytes, using the expected values (hints) of dynamic sizes.
    pub fn bytes(&self, value: usize) -> u64 {
        let element = self.values[value].ty().element();
        let width = if element.is_complex() { 128 } else { element.width() };
        self.elements(self.values[value]).saturating_mul(u64::from(width.div_ceil(8)))
    }

    /// Number of elements of a value, using the expected values (hints) of dynamic sizes.
    pub fn elements(&self, value: Value) -> u64 {
        let ty = value.ty();
        let elements = if ty.is_open() { ty.count().map_or(0, |count| expected(&count, &self.scope)) } else { ty.numel() };
        elements.unsigned_abs()
    }
}

/// For each argument, true if no result of the function is written to it, or to another argument of the same storage.
fn lent(function: Op, arguments: usize, results: usize) -> Vec<bool> {
    let storage = |argument: usize| ops::STORAGE.of_arg(function, argument);
    let written: HashSet<usize> =
        (0..results).filter_map(|at| ops::MUTATES.of_result(function, at)).filter_map(|at| usize::try_from(at).ok()).collect();
    let storages: HashSet<_> = written.iter().filter_map(|&at| storage(at)).collect();
    let is_written = |at: usize| written.contains(&at) || storage(at).is_some_and(|storage| storages.contains(&storage));
    (0..arguments).map(|at| !is_written(at)).collect()
}

/// A value that a node receives from another.
#[derive(Clone, Copy)]
pub enum Taken {
    /// A result, by its position.
    Result(usize),
    /// A view that is an output.
    Shown(Value),
}

/// Returns true if a result of a function is a gradient.
pub fn is_gradient(function: Op, result: usize) -> bool {
    [ops::GRADIENT, ops::GRADIENT_OF, ops::GRADIENT_OF_OUTPUT].iter().any(|gradient| gradient.of_result(function, result).is_some())
}

/// The nodes of a function; a single one if it does not specify any.
fn nodes(function: Op, tangents: &[usize], gradients: &[usize]) -> Vec<Node> {
    let place = |node: Option<i64>| node.and_then(|node| usize::try_from(node).ok()).unwrap_or_default();
    let of_tangent = |at: usize| place(ops::NODE.of_arg(function, at));
    let of_gradient = |at: usize| place(ops::NODE.of_result(function, at));
    let last = tangents.iter().map(|&at| of_tangent(at)).chain(gradients.iter().map(|&at| of_gradient(at))).max().unwrap_or_default();
    // A number beyond the possible maximum is a mistake in the text.
    let mut nodes = vec![Node::default(); last.min(tangents.len() + gradients.len()) + 1];
    for &at in tangents {
        if let Some(node) = nodes.get_mut(of_tangent(at)) {
            node.tangents.push(at);
        }
    }
    for &at in gradients {
        if let Some(node) = nodes.get_mut(of_gradient(at)) {
            node.gradients.push(at);
        }
    }
    nodes
}

/// Returns true if an operation computes nothing: it is a view of its operand, or checks it and returns it.
pub fn is_view(op: Op) -> bool {
    use DynamoOp as D;
    matches!(
        DynamoOp::of(op),
        Some(D::Reshape(_) | D::Permute(_) | D::Broadcast(_) | D::Slice(_) | D::Reverse(_) | D::AsStrided(_) | D::CheckRange(_))
    )
}

/// The values used by an operation that are defined outside of it.
fn used(op: Op) -> Vec<Value> {
    let mut inside: HashSet<Value> = HashSet::new();
    let mut found = op.operands();
    for region in 0..op.num_regions() {
        for inner in op.region(region).blocks().into_iter().flat_map(Block::ops) {
            inner.walk(&mut |nested| {
                found.extend(nested.operands().into_iter().filter(|operand| !inside.contains(operand)));
                inside.extend(nested.results());
            });
        }
    }
    found
}
