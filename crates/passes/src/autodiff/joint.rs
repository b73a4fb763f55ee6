//! The boundary of a joint function: tangents among its arguments, gradients among its results.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Builder, Op, Output, Type, Value, sizes},
    ops,
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_reasons::AUTOGRAD;
use dynamlir_shapes::{Dim, Scope};

use super::{
    aten::{is_dense, refuse_huge, strides_of},
    flow,
    walk::Walk,
};

/// Whether a function has tangents.
pub fn is_joint(function: Op) -> bool {
    let arguments = function.body().map(Block::args).unwrap_or_default();
    (0..arguments.len()).any(|index| ops::TANGENT.of_arg(function, index).is_some())
}

/// Adds gradients to an entry. Gives how many operations a gradient went through.
pub fn differentiate(function: Op, functions: &[Op], again: bool) -> Result<usize, PassError> {
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
    let seeds = if again { gradients(function, exit) } else { outputs(function, exit, &histories)? };

    let last = block.ops().into_iter().rev().find(|op| *op != exit);
    let scope = Rc::new(sizes::scope(function));
    let values: Vec<Value> = arguments.iter().copied().chain(block.ops().into_iter().flat_map(Op::results)).collect();
    refuse_huge(function, &values, &scope)?;
    let tangents = add_tangents(function, block, exit, (&seeds, &scope));
    let mut walk = Walk::new(function, &scope, exit, histories, by_name);
    for (&result, tangent) in seeds.iter().zip(tangents) {
        walk.add(exit.operand(result), tangent);
    }
    let count = walk.run()?;
    let found: Vec<(usize, Value)> = wanting.into_iter().filter_map(|i| Some((i, walk.gradient(arguments[i])?))).collect();
    let exit = add_results(function, exit, &found, &scope);
    walk.sweep(last, exit);
    Ok(count)
}

/// Functions by their symbols.
pub fn by_name(functions: &[Op]) -> HashMap<String, Op> {
    functions.iter().filter_map(|op| Some((op.symbol()?, *op))).collect()
}

/// Whether an argument is differentiated: one that says so, and a tangent, of which the gradient is a linear function.
pub fn wants_gradient(function: Op, index: usize, value: Value) -> bool {
    value.ty().element().is_float()
        && (ops::REQUIRES_GRAD.of_arg(function, index).is_some() || ops::TANGENT.of_arg(function, index).is_some())
}

/// The gradient of an argument that is written would be that of what it was, and eager's graph goes on from what it becomes.
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

/// The results that differentiable outputs are made of.
fn outputs(function: Op, exit: Op, histories: &HashSet<Value>) -> Result<Vec<usize>, PassError> {
    let made = ops::OUTPUTS.of(function).unwrap_or_default().into_iter().map(Output::read).collect::<Option<Vec<_>>>();
    let made = made.ok_or_else(|| PassError::at(function, "dynamo.outputs lists something else"))?;
    let mut found = Vec::new();
    for position in ops::DIFFERENTIABLE.of(function).unwrap_or_default() {
        let mut output = usize::try_from(position).ok().and_then(|position| made.get(position));
        if let Some(Output::Same(first)) = output {
            output = made.get(*first);
        }
        let Some(Output::Result(result) | Output::ResultView(result, _)) = output else { continue };
        let value = exit.operand(*result);
        if !value.ty().element().is_float() {
            return Err(PassError::refusal(function, AUTOGRAD, format!("output {position} is differentiable, and has no real numbers")));
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

/// The gradients among the results that have no tangents yet.
fn gradients(function: Op, exit: Op) -> Vec<usize> {
    let arguments = function.body().map(Block::args).unwrap_or_default();
    let has = |result: usize| (0..arguments.len()).any(|i| ops::TANGENT.of_arg(function, i) == i64::try_from(result).ok());
    (0..exit.num_operands()).filter(|&result| ops::GRADIENT.of_result(function, result).is_some() && !has(result)).collect()
}

/// Adds an argument for the tangent of each of these results, of its type and laid out as it is.
fn add_tangents(function: Op, block: Block, exit: Op, (results, scope): (&[usize], &Scope)) -> Vec<Value> {
    let ctx = function.ctx();
    let mut attrs = dictionaries(function, func::ARG_ATTRS, block.args().len());
    let mut tangents = Vec::new();
    for &result in results {
        let ty = exit.operand(result).ty();
        let strides = ops::STRIDES.dims().of_result(function, result).unwrap_or_else(|| strides_of(ty, scope));
        attrs.push(Attr::dict(
            ctx,
            &[
                ops::STRIDES.dims().with(ctx, &strides),
                ops::OFFSET.with(ctx, 0),
                ops::TANGENT.with(ctx, i64::try_from(result).unwrap_or(i64::MAX)),
            ],
        ));
        tangents.push(block.add_arg(ty, exit.loc()));
    }
    function.set_attr(func::ARG_ATTRS, Attr::array(ctx, &attrs));
    retype(function, block, &exit.operands());
    tangents
}

/// Returns gradients after what was returned.
fn add_results(function: Op, exit: Op, gradients: &[(usize, Value)], scope: &Scope) -> Op {
    let ctx = function.ctx();
    let mut attrs = dictionaries(function, func::RES_ATTRS, exit.num_operands());
    let mut values = exit.operands();
    for &(argument, gradient) in gradients {
        let strides = layout_of_gradient(function, argument, gradient, scope);
        let number = i64::try_from(argument).unwrap_or(i64::MAX);
        attrs.push(Attr::dict(ctx, &[ops::STRIDES.dims().with(ctx, &strides), ops::GRADIENT.with(ctx, number)]));
        values.push(gradient);
    }
    let b = Builder::before(exit);
    let new = b.func_return(&values);
    exit.erase();
    function.set_attr(func::RES_ATTRS, Attr::array(ctx, &attrs));
    if let Some(mut versions) = ops::VERSIONS.of(function) {
        // Nobody has written to a gradient.
        versions.extend(gradients.iter().map(|_| 0));
        ops::VERSIONS.set(function, &versions);
    }
    if let Some(block) = function.body() {
        retype(function, block, &values);
    }
    new
}

/// As the argument lies, if that is in one piece; else row-major, as autograd accumulates it.
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
