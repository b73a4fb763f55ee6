//! `dynamo-gradient`: a joint function becomes the function of its gradients alone, which can be differentiated in turn (stage 01).
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
//! It takes those arguments that gradients are made of, and all tangents. `dynamo.primal` counts them: first the arguments of the
//! function that was differentiated first, then its tangents, then the tangents of the next order. `dynamo.sources` of a result are the
//! arguments, by their places here, that give it a history: in a call where none of them requires a gradient, it does not either.
//! What it draws of random numbers (`dynamo.draw`) is what the function drew that was differentiated first: a last argument has the keys
//! (`dynamo.keys`).

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Output, Type, Value, sizes},
    ops,
    pass::{Pass, PassError, PassResult, Run, Takes},
    program::entries,
    upstream::func,
};
use dynamlir_reasons::AUTOGRAD;
use dynamlir_shapes::Scope;

use super::{aten::strides_of, flow, joint};
use crate::{
    decompose::seeds::numbered,
    partition::{
        copies::{Copies, argument_attrs, result_attrs},
        entries::needed,
        joint::Joint,
        symbols,
    },
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-gradient",
    description: "Make of a joint function the function of its gradients",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[],
    run,
};

fn run(module: Op, _: &Run) -> PassResult {
    entries(module).into_iter().filter(|&entry| joint::is_joint(entry)).try_for_each(|entry| take(entry, module).map(|_| ()))
}

/// Puts the function of its gradients in the place of a joint function.
pub fn take(function: Op, module: Op) -> Result<Op, PassError> {
    let joint = Joint::of(function)?;
    let name = function.symbol().ok_or_else(|| PassError::at(function, "a joint function has a name"))?;
    let operations = operations(&joint);
    let is_used = |value: usize| {
        let returned = || joint.gradients.iter().any(|&at| joint.number(joint.exit.operand(at)) == value);
        operations.iter().any(|&at| joint.uses[at].contains(&value)) || returned()
    };
    let all = function.body().map(Block::args).unwrap_or_default().len();
    let is_keys = |at: usize| ops::KEYS.of_arg(function, at).is_some();
    let arguments: Vec<usize> = (0..all).filter(|&at| !is_keys(at) && (joint.tangents.contains(&at) || is_used(at))).collect();
    let drawn = numbered(&operations.iter().map(|&at| joint.ops[at]).collect::<Vec<_>>());
    let keys = (drawn > 0).then(|| Type::tensor(&[drawn], Type::int(function.ctx(), 64)));
    let types: Vec<Type> = arguments.iter().map(|&at| joint.values[at].ty()).chain(keys).collect();
    let (new, block) = Builder::before(function).func(&name, &types, &[], &[]);
    let mut copies = Copies::new(block, arguments.iter().map(|&at| joint.values[at]));
    for &at in &operations {
        copies.copy(joint.ops[at]);
    }
    let result = |&at: &usize| (joint.exit.operand(at), attrs_of_result(function, joint.exit.operand(at), at, &joint.scope));
    let results: Vec<(Value, Attr)> = joint.gradients.iter().map(result).collect();
    copies.finish(new, joint.exit.loc(), &results);
    describe(&joint, new, (&arguments, keys.is_some()), results.len());
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

/// What gradients need, in order.
fn operations(joint: &Joint) -> Vec<usize> {
    let gradients = joint.gradients.iter().map(|&at| joint.number(joint.exit.operand(at)));
    let needed = needed(joint, gradients, |_| false);
    (0..joint.ops.len()).filter(|at| needed.contains(at)).collect()
}

/// Says of the arguments and results what they are.
fn describe(joint: &Joint, new: Op, (arguments, takes_keys): (&[usize], bool), results: usize) {
    let (old, ctx) = (joint.function, new.ctx());
    let numbers = numbers(old, &joint.tangents);
    let keys = takes_keys.then(|| Attr::dict(ctx, &[ops::KEYS.with(ctx, ()), ops::STRIDES.with(ctx, &[1])]));
    let described: Vec<Attr> = arguments
        .iter()
        .map(|&at| {
            let said = argument_attrs(old, at).entries();
            let is_over = [ops::TANGENT.name(), ops::VERSION_BUMPS.name(), ops::PRIMAL.name()];
            let mut attrs: Vec<(&str, Attr)> =
                said.iter().map(|(name, attr)| (&name[..], *attr)).filter(|(name, _)| !is_over.contains(name)).collect();
            attrs.push(ops::PRIMAL.with(ctx, numbers[at]));
            if joint.tangents.contains(&at) && joint.values[at].ty().element().is_float() {
                attrs.push(ops::REQUIRES_GRAD.with(ctx, ()));
            }
            Attr::dict(ctx, &attrs)
        })
        .chain(keys)
        .collect();
    new.set_attr(func::ARG_ATTRS, Attr::array(ctx, &described));
    ops::ENTRY.set(new, ());
    let outputs: Vec<Attr> = (0..results).map(|at| Output::write(ctx, &Output::Result(at))).collect();
    ops::OUTPUTS.set(new, &outputs);
}

/// `dynamo.primal` of each argument. The keys of random numbers have none, whatever stands here.
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

/// The layout of a gradient.
fn attrs_of_result(function: Op, gradient: Value, at: usize, scope: &Scope) -> Attr {
    let given = ops::STRIDES.dims().of_result(function, at);
    let strides = given.unwrap_or_else(|| strides_of(gradient.ty(), scope));
    Attr::dict(function.ctx(), &[ops::STRIDES.dims().with(function.ctx(), &strides)])
}

/// Which gradients have one themselves, and because of which arguments: at a call not all of those need require one.
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
