//! Finds the values that have a history: autograd's `requires_grad`, propagated from the arguments.
//!
//! A result has a history if some operand has one, the operator was called with grad mode on, the result's elements are floats, and the
//! operator is differentiable in that result. Primitives always count as recorded: functionalization handles those that are not.

use std::collections::{BTreeSet, HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Block, Op, Value},
    ops::{self, AtenOp, DynamoOp},
};

use super::{primitives, rules};

/// Returns the values of a block that have a history if these arguments have one.
pub fn histories(block: Block, arguments: &[Value], functions: &HashMap<String, Op>) -> HashSet<Value> {
    follow(block, arguments.iter().map(|argument| (*argument, ())).collect(), functions, |(), ()| {}).into_keys().collect()
}

/// Returns for each value of a block that may have a history the positions in `arguments` of those from which it gets one.
pub fn sources(block: Block, arguments: &[Value], functions: &HashMap<String, Op>) -> HashMap<Value, BTreeSet<usize>> {
    let own = arguments.iter().copied().zip((0..).map(|at| BTreeSet::from([at]))).collect();
    follow(block, own, functions, |all, more: &BTreeSet<usize>| all.extend(more))
}

/// Propagates facts about arguments to all values that have a history because of them.
fn follow<T: Clone>(
    block: Block,
    mut found: HashMap<Value, T>,
    functions: &HashMap<String, Op>,
    mut unite: impl FnMut(&mut T, &T),
) -> HashMap<Value, T> {
    for op in block.ops() {
        let differentiable = match DynamoOp::of(op) {
            Some(DynamoOp::Detach(_)) | None => continue,
            Some(DynamoOp::History(history)) => {
                if let Some(old) = found.get(&history.old()).cloned() {
                    found.insert(history.result(), old);
                }
                continue;
            }
            Some(DynamoOp::Aten(call)) if !call.grad_enabled() => continue,
            Some(DynamoOp::Aten(call)) => results_of(call, functions),
            Some(primitive) => primitives::is_differentiable(primitive).then_some(vec![0]),
        };
        let operands = op.operands();
        let mut given = operands.iter().filter_map(|operand| found.get(operand));
        let Some(mut all) = given.next().cloned() else { continue };
        given.for_each(|more| unite(&mut all, more));
        for (index, result) in op.results().into_iter().enumerate() {
            if result.ty().element().is_differentiable() && differentiable.as_ref().is_none_or(|known| known.contains(&index)) {
                found.insert(result, all.clone());
            }
        }
    }
    found
}

/// Returns the results in which a call is differentiable; None if this is unknown, which counts as all.
fn results_of(call: AtenOp, functions: &HashMap<String, Op>) -> Option<Vec<usize>> {
    if let Some(derivative) = call.vjp().and_then(|name| functions.get(&name.name)) {
        let arguments = derivative.body().map(Block::args).unwrap_or_default();
        let tangent = |index| ops::TANGENT.of_arg(*derivative, index).and_then(|result| usize::try_from(result).ok());
        return Some((0..arguments.len()).filter_map(tangent).collect());
    }
    let results = rules::find(&call.schema())?.results;
    Some((0..call.outputs().len()).filter(|&index| results.contains(index)).collect())
}
