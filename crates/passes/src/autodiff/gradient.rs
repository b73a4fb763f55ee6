//! `dynamo-gradient`: replaces a joint function by the function of its gradients alone, which can itself be differentiated (stage 01).
//!
//! Before:
//! ```mlir
//! func.func @main(%x: tensor<4xf32> {dynamo.requires_grad, …}, %t: tensor<4xf32> {dynamo.tangent = 0, …})
//!     -> (tensor<4xf32> {…}, tensor<4xf32> {dynamo.gradient = 0, …}) attributes {dynamo.entry, …} {
//!   %0 = dynamo.aten "aten.tanh.default"(%x) …
//!   %1 = dynamo.aten "aten.tanh_backward.default"(%t, %0) …
//!   return %0, %1
//! }
//! ```
//! After:
//! ```mlir
//! func.func @main(%x: tensor<4xf32> {dynamo.primal = 0, dynamo.requires_grad, …},
//!                 %t: tensor<4xf32> {dynamo.primal = 1, dynamo.requires_grad, …}) -> (tensor<4xf32> {…})
//!     attributes {dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.outputs = [#dynamo.output<result 0>]} {
//!   %0 = dynamo.aten "aten.tanh.default"(%x) …
//!   %1 = dynamo.aten "aten.tanh_backward.default"(%t, %0) …
//!   return %1
//! }
//! ```
//!
//! Its arguments are the arguments that the gradients use, and all tangents. `dynamo.primal` numbers them: first the arguments of the
//! original function, then its tangents, then the tangents of the next order. `dynamo.sources` of a result lists the arguments, by their
//! positions here, from which it gets a history: in a call where none of them requires a gradient, the result does not require one either.
//!
//! If the joint function consists of several nodes of autograd's graph, this is the function of the gradients of one node: `dynamo.path`
//! selects the node, for each order but the last. The values that this node takes from other nodes, with a gradient or without, are
//! arguments after its tangents. A value that users do not see is recomputed, and its argument receives the gradient. The node's own
//! results listed by `dynamo.given` are arguments, too, since users hold these: a gradient that eager computes from a result, as that of
//! `exp`, has a gradient with respect to the result.
//!
//! Its random numbers (`dynamo.draw`) are those of the original function: a last argument has the keys (`dynamo.keys`). If torch's
//! operators draw all random numbers, the function keeps all of these operators, even those that no gradient uses: starting from the saved
//! state of the generator, they draw the same numbers again.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Output, Type, Value, sizes},
    ops::{self, HistoryOp},
    pass::{Pass, PassError, PassResult, Run, Takes},
    program::entries,
    upstream::func,
};
use dynamlir_reasons::AUTOGRAD;
use dynamlir_shapes::{Dim, Scope};

use super::{flow, joint};
use crate::{
    decompose::{draws, seeds::numbered},
    layouts::strides_of,
    partition::{
        copies::{Copies, argument_attrs, result_attrs},
        entries::needed_beside,
        joint::{Joint, Node, Taken},
        symbols,
    },
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-gradient",
    description: "Turn a joint function into the function of its gradients",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[],
    run,
};

fn run(module: Op, _: &Run) -> PassResult {
    let path = |entry: Op| ops::PATH.of(entry).and_then(|path| path.first().copied());
    entries(module).into_iter().filter(|&entry| joint::is_joint(entry)).try_for_each(|entry| take(entry, module, path(entry)).map(|_| ()))
}

/// Replaces a joint function by the function of its gradients, or of the gradients of one of its nodes.
pub fn take(function: Op, module: Op, node: Option<i64>) -> Result<Op, PassError> {
    let joint = Joint::of(function)?;
    let name = function.symbol().ok_or_else(|| PassError::at(function, "a joint function has a name"))?;
    let place = node.and_then(|node| usize::try_from(node).ok()).unwrap_or_default();
    let Some(node) = joint.nodes.get(place) else {
        return Err(PassError::at(
            function,
            format!("it has {} nodes, and the gradients of node {place} are asked for", joint.nodes.len()),
        ));
    };
    let all = function.body().map(Block::args).unwrap_or_default().len();
    let mut part = Part { joint: &joint, node, taken: joint.taken(node), drawing: drawing_by_state(function, module, &joint) };
    // A caller that has to recompute the given results needs the arguments that these depend on.
    let keeps_all = ops::GIVEN.is_on(function);
    let anew = part.operations();
    let is_used = |value: usize| {
        let returned = || node.gradients.iter().any(|&at| joint.number(joint.exit.operand(at)) == value);
        anew.iter().any(|&at| joint.uses[at].contains(&value))
            || returned()
            || keeps_all && joint.argument(value).is_some_and(|at| ops::PRIMAL.of_arg(function, at).is_some())
    };
    if (0..all).all(|at| ops::PRIMAL.of_arg(function, at).is_none()) {
        part.taken.extend(own_results(&joint, node)?);
    }
    let operations = part.operations();
    let is_other = |at: usize| ops::KEYS.of_arg(function, at).is_some() || joint.tangents.contains(&at) && !node.tangents.contains(&at);
    let arguments: Vec<usize> = (0..all).filter(|&at| !is_other(at) && (node.tangents.contains(&at) || is_used(at))).collect();
    let drawn = numbered(&operations.iter().map(|&at| joint.ops[at]).collect::<Vec<_>>());
    let keys = (drawn > 0 && part.drawing.is_empty()).then(|| Type::tensor(&[drawn], Type::int(function.ctx(), 64)));
    let taken: Vec<Value> = part.taken.iter().map(|taken| part.value(*taken)).collect();
    let given = arguments.iter().map(|&at| joint.values[at]).chain(taken.iter().copied());
    let types: Vec<Type> = given.clone().map(Value::ty).chain(keys).collect();
    let (new, block) = Builder::before(function).func(&name, &types, &[], &[]);
    let is_stand_in = |value: &Value| part.is_hidden(*value);
    let mut copies = Copies::new(block, arguments.iter().map(|&at| joint.values[at]));
    for (value, argument) in taken.iter().zip(block.args().into_iter().skip(arguments.len())).filter(|(value, _)| !is_stand_in(value)) {
        copies.replace(*value, argument);
    }
    for &at in &operations {
        copies.copy(joint.ops[at]);
        for result in joint.ops[at].results() {
            if let Some(place) = taken.iter().position(|value| *value == result).filter(|_| is_stand_in(&result)) {
                let argument = block.args()[arguments.len() + place];
                let b = Builder::at_end(block, joint.ops[at].loc());
                copies.replace(result, HistoryOp::build(&b, copies.of(result), argument).result());
            }
        }
    }
    let result = |&at: &usize| (joint.exit.operand(at), attrs_of_result(function, joint.exit.operand(at), at, &joint.scope));
    let results: Vec<(Value, Attr)> = node.gradients.iter().map(result).collect();
    copies.finish(new, joint.exit.loc(), &results);
    describe(&part, new, (&arguments, keys.is_some()), results.len());
    if let Some(given) = ops::GIVEN.of(function) {
        ops::GIVEN.set(new, &given);
    }
    let (placed, missing) = symbols::found(&sizes::declared(function), types.iter().copied().enumerate());
    if let Some(missing) = missing.first() {
        let message = format!("none of what gradients are made of has the size {}", missing.symbol);
        return Err(PassError::refusal(function, AUTOGRAD, message));
    }
    sizes::declare(new, &placed);
    symbols::hand_on_assumed(function, new);
    function.erase();
    note_differentiable(new, module);
    Ok(new)
}

/// Returns those of a node's own results that are passed to its gradients.
fn own_results(joint: &Joint, node: &Node) -> Result<Vec<Taken>, PassError> {
    let own = |place: i64| {
        let tangent = node.tangents.get(usize::try_from(place).ok()?)?;
        let result = usize::try_from(ops::TANGENT.of_arg(joint.function, *tangent)?).ok()?;
        (result < joint.exit.num_operands()).then_some(Taken::Result(result))
    };
    let given = ops::GIVEN.of(joint.function).unwrap_or_default();
    let found: Option<Vec<Taken>> = given.into_iter().map(own).collect();
    found.ok_or_else(|| PassError::at(joint.function, "its gradients are given a result that the node does not have"))
}

/// A node of a joint function, and the values that it takes from other nodes.
struct Part<'a> {
    joint: &'a Joint,
    node: &'a Node,
    taken: Vec<Taken>,
    /// The operations that draw random numbers from the generator's state.
    drawing: Vec<usize>,
}

impl Part<'_> {
    fn value(&self, taken: Taken) -> Value {
        match taken {
            Taken::Result(at) => self.joint.exit.operand(at),
            Taken::Shown(value) => value,
        }
    }

    /// Returns true if a value is visible to nodes only; such a value is not saved.
    fn is_hidden(&self, value: Value) -> bool {
        self.joint.hidden.iter().any(|&at| self.joint.exit.operand(at) == value)
    }

    /// Returns the operations that the gradients need, in order, except those whose results are passed in; and the operations that draw.
    fn operations(&self) -> Vec<usize> {
        let joint = self.joint;
        let seen = self.taken.iter().map(|taken| self.value(*taken)).filter(|value| !self.is_hidden(*value));
        let given: Vec<usize> = seen.map(|value| joint.number(value)).collect();
        let gradients = self.node.gradients.iter().map(|&at| joint.number(joint.exit.operand(at)));
        let drawn = self.drawing.iter().flat_map(|&at| joint.uses[at].iter().copied());
        let needed = needed_beside(joint, gradients.chain(drawn), |value| given.contains(&value));
        (0..joint.ops.len()).filter(|at| needed.contains(at) || self.drawing.contains(at)).collect()
    }

    /// Returns the layout of a taken value.
    fn strides(&self, taken: Taken) -> Vec<Dim> {
        let said = match taken {
            Taken::Result(at) => ops::STRIDES.dims().of_result(self.joint.function, at),
            Taken::Shown(_) => None,
        };
        said.unwrap_or_else(|| strides_of(self.value(taken).ty(), &self.joint.scope))
    }
}

/// Returns the operations that draw random numbers if torch's operators draw all of them, else none.
fn drawing_by_state(function: Op, module: Op, joint: &Joint) -> Vec<usize> {
    let has_keys = || joint.ops.iter().any(|&op| draws(op));
    if !ops::RANDOM.is_on(function) || ops::DEVICE.is_on(module) || !ops::EAGER_RANDOM.is_on(module) && has_keys() {
        return Vec::new();
    }
    joint.drawing_by_state()
}

/// Describes the arguments and results by attributes.
fn describe(part: &Part<'_>, new: Op, (arguments, takes_keys): (&[usize], bool), results: usize) {
    let (joint, ctx) = (part.joint, new.ctx());
    let (old, tangents) = (joint.function, &part.node.tangents);
    let numbers = numbers(old, &joint.tangents);
    let first = joint.tangents.first().map_or_else(|| numbers.last().map_or(0, |last| last + 1), |&at| numbers[at]);
    let number = |at: usize| match (0..).zip(tangents).find(|(_, tangent)| **tangent == at) {
        Some((place, _)) => first + place,
        None => numbers[at],
    };
    let keys = takes_keys.then(|| Attr::dict(ctx, &[ops::KEYS.with(ctx, ()), ops::STRIDES.with(ctx, &[1])]));
    let of_function = arguments.iter().map(|&at| {
        let said = argument_attrs(old, at).entries();
        let is_over = [ops::TANGENT.name(), ops::VERSION_BUMPS.name(), ops::PRIMAL.name(), ops::NODE.name(), ops::KEPT_BY_EAGER.name()];
        let mut attrs: Vec<(&str, Attr)> =
            said.iter().map(|(name, attr)| (&name[..], *attr)).filter(|(name, _)| !is_over.contains(name)).collect();
        attrs.push(ops::PRIMAL.with(ctx, number(at)));
        if tangents.contains(&at) && joint.values[at].ty().element().is_differentiable() {
            attrs.push(ops::REQUIRES_GRAD.with(ctx, ()));
        }
        Attr::dict(ctx, &attrs)
    });
    let after = first + (0..).zip(tangents).count() as i64;
    let of_others = (after..).zip(&part.taken).map(|(number, taken)| {
        let strides = ops::STRIDES.dims().with(ctx, &part.strides(*taken));
        let stands_in = part.is_hidden(part.value(*taken)).then(|| ops::HIDDEN.with(ctx, ()));
        let said = [strides, ops::OFFSET.with(ctx, 0), ops::PRIMAL.with(ctx, number), ops::REQUIRES_GRAD.with(ctx, ())];
        Attr::dict(ctx, &said.into_iter().chain(stands_in).collect::<Vec<_>>())
    });
    let described: Vec<Attr> = of_function.chain(of_others).chain(keys).collect();
    new.set_attr(func::ARG_ATTRS, Attr::array(ctx, &described));
    ops::ENTRY.set(new, ());
    if !part.drawing.is_empty() {
        ops::RANDOM.set(new, ());
    }
    let outputs: Vec<Attr> = (0..results).map(|at| Output::write(ctx, &Output::Result(at))).collect();
    ops::OUTPUTS.set(new, &outputs);
}

/// Returns `dynamo.primal` of each argument. The keys of random numbers have none; their entry is ignored.
fn numbers(function: Op, tangents: &[usize]) -> Vec<i64> {
    let count = function.body().map(Block::args).unwrap_or_default().len();
    let mut numbers: Vec<i64> = Vec::with_capacity(count);
    for at in 0..count {
        let next = match numbers.last() {
            Some(last) => last + i64::from(ops::KEYS.of_arg(function, at).is_none()),
            None => 0,
        };
        let own = ops::PRIMAL.of_arg(function, at).filter(|_| !tangents.contains(&at));
        numbers.push(own.unwrap_or(next));
    }
    numbers
}

/// Returns the attributes of a gradient: its layout.
fn attrs_of_result(function: Op, gradient: Value, at: usize, scope: &Scope) -> Attr {
    let given = ops::STRIDES.dims().of_result(function, at);
    let strides = given.unwrap_or_else(|| strides_of(gradient.ty(), scope));
    Attr::dict(function.ctx(), &[ops::STRIDES.dims().with(function.ctx(), &strides)])
}

/// Marks the gradients that are themselves differentiable, with the arguments from which they get a history: in a call not all of these
/// arguments need to require a gradient.
fn note_differentiable(function: Op, module: Op) {
    let (Some(body), Some(exit)) = (function.body(), function.body().and_then(Block::terminator)) else { return };
    let arguments = body.args();
    let wanting: Vec<Value> =
        (0..arguments.len()).filter(|&at| joint::wants_gradient(function, at, arguments[at])).map(|at| arguments[at]).collect();
    let functions = joint::by_name(&module.body().map(Block::ops).unwrap_or_default());
    let sources = flow::sources(body, &wanting, &functions);
    let place = |wanted: &usize| arguments.iter().position(|argument| *argument == wanting[*wanted]).and_then(|at| i64::try_from(at).ok());
    let (mut differentiable, mut described) = (Vec::new(), Vec::new());
    for (at, value) in (0_i64..).zip(exit.operands()) {
        let own: Vec<i64> = sources.get(&value).into_iter().flatten().filter_map(place).collect();
        let result = usize::try_from(at).unwrap_or_default();
        let mut said = result_attrs(function, result).entries();
        if !own.is_empty() {
            differentiable.push(at);
            said.push((ops::SOURCES.name().to_owned(), Attr::i64s(function.ctx(), &own)));
        }
        let said: Vec<(&str, Attr)> = said.iter().map(|(name, attr)| (&name[..], *attr)).collect();
        described.push(Attr::dict(function.ctx(), &said));
    }
    function.set_attr(func::RES_ATTRS, Attr::array(function.ctx(), &described));
    if !differentiable.is_empty() {
        ops::DIFFERENTIABLE.set(function, &differentiable);
    }
}
