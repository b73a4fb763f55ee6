//! The boundary of a joint function: tangents among its arguments, gradients among its results.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    rc::Rc,
};

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Output, Type, Value, sizes},
    ops,
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_reasons::AUTOGRAD;
use dynamlir_shapes::{Dim, Dimension, Scope};

use super::{
    flow,
    nodes::{Led, NodeGradient, Of, Reached},
    walk::Walk,
};
use crate::layouts::{is_dense, refuse_huge, strides_of};

/// Returns true if a function has tangents.
pub fn is_joint(function: Op) -> bool {
    let arguments = function.body().map(Block::args).unwrap_or_default();
    (0..arguments.len()).any(|index| ops::TANGENT.of_arg(function, index).is_some())
}

/// Options of how a function is differentiated.
#[derive(Clone, Copy)]
pub struct How {
    /// Differentiates its gradients, with respect to the values that they are computed from.
    pub again: bool,
    /// Treats the function as one node, regardless of what users see.
    pub as_one_node: bool,
}

/// Adds gradients to an entry. Returns the number of operations that a gradient passed through.
pub fn differentiate(function: Op, functions: &[Op], how: How) -> Result<usize, PassError> {
    let (Some(block), Some(exit)) = (function.body(), function.body().and_then(Block::terminator)) else {
        return Err(PassError::at(function, "an entry without a body has no gradients"));
    };
    if !exit.is(func::RETURN) || function.region(0).blocks().len() != 1 {
        return Err(PassError::at(function, "expected one block that ends in func.return"));
    }
    let by_name = by_name(functions);
    let arguments = block.args();
    let wanting: Vec<usize> = (0..arguments.len()).filter(|&index| wants_gradient(function, index, arguments[index])).collect();
    let wanting_values: Vec<Value> = wanting.iter().map(|&index| arguments[index]).collect();
    let histories = flow::histories(block, &wanting_values, &by_name);
    refuse_mutations(function, exit, &histories)?;
    let seeds = if how.again { gradients(function, exit) } else { outputs(function, exit, &histories)? };

    let last = block.ops().into_iter().rev().find(|op| *op != exit);
    let scope = Rc::new(sizes::scope(function));
    let values: Vec<Value> = arguments.iter().copied().chain(block.ops().into_iter().flat_map(Op::results)).collect();
    refuse_huge(function, &values, &scope)?;
    let tangents: Vec<Value> = seeds.iter().map(|&result| block.add_arg(exit.operand(result).ty(), exit.loc())).collect();
    let mut walk = Walk::new(function, &scope, exit, histories, by_name);
    let seeds: Vec<(usize, Value)> = seeds.into_iter().zip(tangents).collect();
    walk.begin(&seeds, how.again || how.as_one_node);
    let count = walk.run()?;
    let wanting: Vec<(usize, Value)> = wanting.into_iter().map(|at| (at, arguments[at])).collect();
    let (given, led) = walk.finish(&wanting);
    let exit = Boundary { function, block, exit, walk: &mut walk, scope: &scope }.write(given, &led);
    walk.sweep(last, exit);
    note_kept(function, exit, &walk);
    Ok(count)
}

/// Marks the tangents of the results that eager's nodes save for backward.
fn note_kept(function: Op, exit: Op, walk: &Walk) {
    let kept: Vec<usize> = walk
        .tangents
        .iter()
        .filter(|tangent| {
            !walk.hidden.contains(&exit.operand(tangent.result)) && walk.keeps_result(tangent.result, exit.operand(tangent.result))
        })
        .filter_map(|tangent| tangent.value.arg_index())
        .collect();
    if kept.is_empty() {
        return;
    }
    let ctx = function.ctx();
    let arguments = function.body().map(Block::args).unwrap_or_default().len();
    let mut attrs = dictionaries(function, func::ARG_ATTRS, arguments);
    for at in kept {
        let said = attrs[at].entries();
        let said = said.iter().map(|(name, attr)| (&name[..], *attr)).chain([ops::KEPT_BY_EAGER.with(ctx, ())]);
        attrs[at] = Attr::dict(ctx, &said.collect::<Vec<_>>());
    }
    function.set_attr(func::ARG_ATTRS, Attr::array(ctx, &attrs));
}

/// Maps functions by their symbols.
pub fn by_name(functions: &[Op]) -> HashMap<String, Op> {
    functions.iter().filter_map(|op| Some((op.symbol()?, *op))).collect()
}

/// Returns true if an argument is differentiated: one marked so, or a tangent, in which the gradient is linear.
pub fn wants_gradient(function: Op, index: usize, value: Value) -> bool {
    value.ty().element().is_differentiable()
        && (ops::REQUIRES_GRAD.of_arg(function, index).is_some() || ops::TANGENT.of_arg(function, index).is_some())
}

/// Refuses arguments that are mutated and involved in gradients: the gradient would be that of the argument before the write, but eager's
/// graph continues from its value after the write.
fn refuse_mutations(function: Op, exit: Op, histories: &HashSet<Value>) -> PassResult {
    for (result, value) in exit.operands().into_iter().enumerate() {
        let Some(argument) = ops::MUTATES.of_result(function, result) else { continue };
        let maker = value.def().unwrap_or(exit);
        let wants = usize::try_from(argument).is_ok_and(|index| ops::REQUIRES_GRAD.of_arg(function, index).is_some());
        if wants {
            return Err(PassError::refusal(maker, AUTOGRAD, format!("argument {argument} is written, and wants a gradient")));
        }
        if histories.contains(&value) {
            return Err(PassError::refusal(maker, AUTOGRAD, format!("argument {argument} is written with a value that has a gradient")));
        }
    }
    Ok(())
}

/// Returns the results that the differentiable outputs consist of.
fn outputs(function: Op, exit: Op, histories: &HashSet<Value>) -> Result<Vec<usize>, PassError> {
    let made = ops::OUTPUTS.of(function).unwrap_or_default().into_iter().map(Output::read).collect::<Option<Vec<_>>>();
    let made = made.ok_or_else(|| PassError::at(function, "dynamo.outputs lists something else"))?;
    let mut found = Vec::new();
    for position in ops::DIFFERENTIABLE.of(function).unwrap_or_default() {
        let mut output = usize::try_from(position).ok().and_then(|position| made.get(position));
        if let Some(Output::Same(first)) = output {
            output = made.get(*first);
        }
        if let Some(Output::ArgView(argument, _)) = output {
            refuse_expanded(function, position, *argument)?;
        }
        let Some(Output::Result(result) | Output::ResultView(result, _)) = output else { continue };
        let value = exit.operand(*result);
        if !value.ty().element().is_differentiable() {
            return Err(PassError::refusal(function, AUTOGRAD, format!("output {position} is differentiable, and has no numbers")));
        }
        if !histories.contains(&value) {
            let message = format!("output {position} requires a gradient in eager, and nothing that it is made of does");
            return Err(PassError::refusal(value.def().unwrap_or(exit), AUTOGRAD, message));
        }
        found.push(*result);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Refuses a differentiable view of an expanded argument. The view is constructed from its strides. If the argument contains an element
/// several times, the gradient of such a view is one for all of them; in eager each occurrence has its own.
fn refuse_expanded(function: Op, position: i64, argument: usize) -> PassResult {
    let strides = ops::STRIDES.dims().of_arg(function, argument).unwrap_or_default();
    let sizes = function.body().and_then(|body| body.args().get(argument).copied()).map(|value| value.ty().dims()).unwrap_or_default();
    if strides.iter().zip(&sizes).any(|(stride, size)| stride.is(0) && !size.is(1)) {
        let message = format!("output {position} is a view of argument {argument}, which is expanded, and requires a gradient");
        return Err(PassError::refusal(function, AUTOGRAD, message));
    }
    Ok(())
}

/// Returns the gradients among the results that do not have tangents yet.
fn gradients(function: Op, exit: Op) -> Vec<usize> {
    let arguments = function.body().map(Block::args).unwrap_or_default();
    let has = |result: usize| (0..arguments.len()).any(|i| ops::TANGENT.of_arg(function, i) == i64::try_from(result).ok());
    (0..exit.num_operands()).filter(|&result| ops::GRADIENT.of_result(function, result).is_some() && !has(result)).collect()
}

/// A function whose gradients have been computed, and whose arguments and results are to be described.
struct Boundary<'a, 's> {
    function: Op,
    block: Block,
    exit: Op,
    walk: &'a mut Walk<'s>,
    scope: &'a Scope,
}

impl Boundary<'_, '_> {
    /// Describes the tangents, and returns the hidden values and the gradients after the previous results.
    fn write(mut self, mut given: Vec<NodeGradient>, led: &[Led]) -> Op {
        let numbers = self.numbers(&given, led);
        let before = self.exit.num_operands();
        let strides: Vec<Vec<Dim>> = self.strides_of_results();
        self.describe_tangents(numbers.as_deref(), &strides, led);
        // Ordered by node, then by argument; with a single node by argument only.
        given.sort_by_key(|given| (numbers.as_ref().map(|numbers| numbers[given.class]), given.of));
        let (function, exit, ctx) = (self.function, self.exit, self.function.ctx());
        let mut attrs = dictionaries(function, func::RES_ATTRS, before);
        let mut values = exit.operands();
        for (at, &value) in self.walk.hidden.iter().enumerate() {
            attrs.push(Attr::dict(ctx, &[ops::STRIDES.dims().with(ctx, &strides[before + at]), ops::HIDDEN.with(ctx, ())]));
            values.push(value);
        }
        for gradient in given {
            attrs.push(self.describe(&gradient, &strides, numbers.as_deref()));
            values.push(gradient.sum.value);
        }
        let extra = values.len() - before;
        let new = Builder::before(exit).func_return(&values);
        exit.erase();
        function.set_attr(func::RES_ATTRS, Attr::array(ctx, &attrs));
        if let Some(mut versions) = ops::VERSIONS.of(function) {
            // Gradients have not been written to.
            versions.resize(versions.len() + extra, 0);
            ops::VERSIONS.set(function, &versions);
        }
        retype(function, self.block, &values);
        new
    }

    /// Returns the number of each class's node, or None if there is only one node.
    fn numbers(&mut self, given: &[NodeGradient], led: &[Led]) -> Option<Vec<usize>> {
        if self.walk.nodes.count() < 2 {
            return None;
        }
        let outputs: Vec<Option<Output>> = ops::OUTPUTS.of(self.function).unwrap_or_default().into_iter().map(Output::read).collect();
        let to = given.iter().map(|gradient| (gradient.class, gradient.of)).chain(led.iter().map(|led| (led.class, led.to)));
        for (class, of) in to {
            // A node that takes a view comes after the node that computes the view's base.
            if let Of::Output(output) = of
                && let Some(Some(Output::ResultView(result, _))) = outputs.get(output)
                && let Some(tangent) = self.walk.tangents.iter().find(|tangent| tangent.result == *result)
            {
                self.walk.nodes.comes_after(class, tangent.class);
            }
        }
        Some(self.walk.nodes.numbers())
    }

    /// Returns the strides of all results, including the hidden ones.
    fn strides_of_results(&self) -> Vec<Vec<Dim>> {
        let own = |result: usize| {
            let said = ops::STRIDES.dims().of_result(self.function, result);
            said.unwrap_or_else(|| strides_of(self.exit.operand(result).ty(), self.scope))
        };
        let hidden = self.walk.hidden.iter().map(|value| self.walk.layout_like(*value));
        (0..self.exit.num_operands()).map(own).chain(hidden).collect()
    }

    /// Describes each tangent by its result and that result's layout. For the first tangent of a node, also describes whether a backward
    /// pass through the node is possible only once, and the edges along which it returns no gradient.
    fn describe_tangents(&self, numbers: Option<&[usize]>, strides: &[Vec<Dim>], led: &[Led]) {
        let (function, ctx) = (self.function, self.function.ctx());
        let mut told = BTreeSet::new();
        let mut attrs = dictionaries(function, func::ARG_ATTRS, self.block.args().len() - self.walk.tangents.len());
        for tangent in self.walk.tangents_in_order() {
            let mut said = vec![
                ops::STRIDES.dims().with(ctx, &strides[tangent.result]),
                ops::OFFSET.with(ctx, 0),
                ops::TANGENT.with(ctx, number(tangent.result)),
            ];
            said.extend(numbers.map(|numbers| ops::NODE.with(ctx, number(numbers[tangent.class]))));
            if told.insert(tangent.class) {
                if self.walk.once.contains(&tangent.class) {
                    said.push(ops::ONCE.with(ctx, ()));
                }
                let mut own: Vec<Of> = led.iter().filter(|led| led.class == tangent.class).map(|led| led.to).collect();
                own.sort_unstable();
                if !own.is_empty() {
                    said.push(ops::LEADS_TO.with(ctx, &own.into_iter().map(|of| Output::write(ctx, &of.into())).collect::<Vec<_>>()));
                }
            }
            attrs.push(Attr::dict(ctx, &said));
        }
        function.set_attr(func::ARG_ATTRS, Attr::array(ctx, &attrs));
    }

    /// Describes a gradient by the value whose gradient it is, and by the tangents from which it results.
    fn describe(&self, gradient: &NodeGradient, strides: &[Vec<Dim>], numbers: Option<&[usize]>) -> Attr {
        let (function, ctx) = (self.function, self.function.ctx());
        let dense = || strides_of(gradient.sum.value.ty(), self.scope);
        let (laid_out, of) = match gradient.of {
            Of::Argument(at) => (layout_of_gradient(function, at, gradient.sum.value, self.scope), ops::GRADIENT.with(ctx, number(at))),
            Of::Result(result) => {
                let own = &strides[result];
                let is_whole = is_dense(&gradient.sum.value.ty().dims(), own, self.scope);
                (if is_whole { own.clone() } else { dense() }, ops::GRADIENT_OF.with(ctx, number(result)))
            }
            Of::Output(output) => (dense(), ops::GRADIENT_OF_OUTPUT.with(ctx, number(output))),
        };
        let mut said = vec![ops::STRIDES.dims().with(ctx, &laid_out), of];
        said.extend(numbers.map(|numbers| ops::NODE.with(ctx, number(numbers[gradient.class]))));
        let of_node = self.walk.tangents.iter().filter(|tangent| tangent.class == gradient.class);
        let Reached { results, always } = &gradient.sum.reached;
        if *always {
            said.push(ops::REACHED.with(ctx, &[]));
        } else if of_node.into_iter().any(|tangent| !results.contains(&tangent.result)) {
            let reached: Vec<i64> = results.iter().map(|&result| number(result)).collect();
            said.push(ops::REACHED.with(ctx, &reached));
        }
        Attr::dict(ctx, &said)
    }
}

fn number(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// Returns the argument's layout if that is dense, else row-major, as autograd accumulates it.
fn layout_of_gradient(function: Op, argument: usize, gradient: Value, scope: &Scope) -> Vec<Dim> {
    let dense = || strides_of(gradient.ty(), scope);
    let own = ops::STRIDES.dims().of_arg(function, argument).unwrap_or_else(dense);
    if is_dense(&gradient.ty().dims(), &own, scope) { own } else { dense() }
}

fn dictionaries(function: Op, name: &str, count: usize) -> Vec<Attr> {
    let given: Vec<Attr> = function.optional(name).unwrap_or_default();
    if given.len() == count { given } else { vec![Attr::dict(function.ctx(), &[]); count] }
}

fn retype(function: Op, block: Block, results: &[Value]) {
    let types = |values: &[Value]| values.iter().map(|value| value.ty()).collect::<Vec<_>>();
    let ty = Type::function(function.ctx(), &types(&block.args()), &types(results));
    function.set_attr(func::FUNCTION_TYPE, ty.as_attr());
}
