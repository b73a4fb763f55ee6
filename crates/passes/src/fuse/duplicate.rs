//! Recomputes cheap values in the kernels that use them, where that moves fewer bytes than storing them.
//!
//! A value that one kernel produces and others consume costs a write and several reads. If it is computed by a few cheap operations from
//! values that are stored anyway, and those are smaller or already read, each consumer gets a copy of the operations. A consumer then
//! depends on less than before, so this cannot create a cycle.
//!
//! Near a tie the copy also wins, since a buffer is saved, but only if no extern call separates producer and consumer: otherwise the inputs
//! would have to live longer.

use super::{
    Kind, after, bytes,
    graph::{Graph, Group},
    group::same_stretch,
    is_table, weight,
};
use dynamlir_dialect::{
    ir::{Op, Value},
    ops::BroadcastOp,
};

/// The number of additions per element that cost less than a read.
const CHEAP: usize = 8;

/// A loss below this fraction (1 / 8) of the value's size counts as a tie.
const NEAR_TIE: i64 = 8;

/// Copies what is worth copying, and returns the nonempty groups as lists of operations.
pub(super) fn run(graph: &mut Graph) -> Vec<(Vec<Op>, Group)> {
    for maker in 0..graph.groups.len() {
        // The last value comes first: an earlier one may be used by the chain of a later one.
        for output in graph.interface(&graph.groups[maker]).outputs.into_iter().rev() {
            copy_into_readers(graph, maker, output);
        }
        drop_unused(graph, maker);
    }
    let groups = graph.groups.iter().filter(|group| !group.members.is_empty());
    groups.map(|group| (group.members.iter().map(|&member| graph.ops[member]).collect(), group.clone())).collect()
}

fn copy_into_readers(graph: &mut Graph, maker: usize, value: Value) {
    let Some(chain) = chain(graph, maker, value) else { return };
    let (mut readers, mut stays) = (Vec::new(), false);
    for used in value.uses() {
        if is_table(used.op, used.index) {
            stays = true;
            continue;
        }
        match graph.number(used.op).and_then(|user| graph.group_of[user]) {
            Some(group) if group == maker => {}
            Some(group) => readers.push(group),
            None => {
                stays |= graph.number(used.op).is_none_or(|user| {
                    graph.spread_row(&graph.groups[maker], user).is_none() || !graph.is_internal(&graph.groups[maker], user)
                });
            }
        }
    }
    readers.sort_unstable();
    readers.dedup();
    let gains: Vec<_> = readers.iter().map(|&reader| (reader, gain(graph, &chain, reader, value))).collect();
    let fits = gains.iter().all(|(_, gain)| gain.is_some());
    let sum: i64 = gains.iter().filter_map(|&(_, gain)| gain).sum();
    let near = readers.iter().all(|&reader| same_stretch(graph, maker, reader));
    let least = if near { -bytes(value, &graph.scope) / NEAR_TIE } else { 1 };
    let takes: Vec<_> = if fits && !stays && sum + bytes(value, &graph.scope) >= least {
        readers
    } else {
        gains.into_iter().filter(|&(_, gain)| gain.is_some_and(|gain| gain > 0)).map(|(reader, _)| reader).collect()
    };
    for reader in takes {
        copy(graph, &chain, reader, value);
    }
}

/// The operations that compute a value, first to last, and the values they start from.
struct Chain {
    ops: Vec<usize>,
    leaves: Vec<Value>,
}

fn chain(graph: &Graph, maker: usize, value: Value) -> Option<Chain> {
    let group = &graph.groups[maker];
    let stored = graph.interface(group).outputs;
    let mut chain = Chain { ops: Vec::new(), leaves: Vec::new() };
    let (mut cost, mut expensive) = (0, false);
    let mut stack = vec![graph.def(value)?];
    while let Some(number) = stack.pop() {
        if chain.ops.contains(&number) {
            continue;
        }
        if graph.kinds[number] != Kind::Pointwise || cost > CHEAP || is_table(graph.ops[number], 0) {
            return None;
        }
        chain.ops.push(number);
        match weight(graph.ops[number]) {
            Some(weight) => cost += weight,
            None => expensive = true,
        }
        for operand in graph.ops[number].operands() {
            match graph.def(operand) {
                Some(def) if graph.kinds[def].is_constant() => {}
                // The row exists only inside this kernel.
                Some(def) if graph.spread_row(group, def).is_some() => return None,
                Some(def) if graph.group_of[def] == Some(maker) && !stored.contains(&operand) => stack.push(def),
                _ if chain.leaves.contains(&operand) => {}
                _ => chain.leaves.push(operand),
            }
        }
    }
    chain.ops = in_order(graph, &chain.ops);
    // An expensive operation may be repeated if the loop over the innermost dimension computes it only once.
    let last = value.ty().rank() as i64 - 1;
    let invariant =
        |leaf: &Value| BroadcastOp::defining(*leaf).is_some_and(|spread| graph.def(*leaf).is_some() && !spread.dims().contains(&last));
    (cost <= CHEAP && (!expensive || chain.leaves.iter().all(invariant))).then_some(chain)
}

/// Orders operands before users. The numbers do not provide that order: copies have large numbers.
fn in_order(graph: &Graph, ops: &[usize]) -> Vec<usize> {
    let mut ordered: Vec<usize> = Vec::new();
    let mut left = ops.to_vec();
    while !left.is_empty() {
        let waits = |number: usize| {
            graph.ops[number].operands().into_iter().filter_map(|operand| graph.def(operand)).any(|def| left.contains(&def))
        };
        let (next, rest): (Vec<_>, Vec<_>) = left.iter().partition(|&&number| !waits(number));
        ordered.extend(next);
        left = rest;
    }
    ordered
}

/// The bytes that the reader saves, or `None` if the copy would make it too large.
fn gain(graph: &Graph, chain: &Chain, reader: usize, value: Value) -> Option<i64> {
    let group = &graph.groups[reader];
    let interface = graph.interface(group);
    let more: Vec<_> = chain
        .leaves
        .iter()
        .filter(|leaf| !interface.inputs.contains(leaf) && graph.def(**leaf).is_none_or(|def| graph.group_of[def] != Some(reader)))
        .collect();
    let args = interface.args() + more.len();
    let fits = group.members.len() + chain.ops.len() <= graph.options.max_ops && args <= graph.options.max_args && !group.scan;
    let fits = fits && !(group.product && chain.ops.iter().any(|&op| graph.asks_for_place(graph.ops[op])));
    fits.then(|| bytes(value, &graph.scope) - more.into_iter().map(|&leaf| bytes(leaf, &graph.scope)).sum::<i64>())
}

/// Inserts copies next to the originals, where their operands are available, and makes the reader use them.
fn copy(graph: &mut Graph, chain: &Chain, reader: usize, value: Value) {
    let mut copies: Vec<(Value, Value)> = Vec::new();
    for &number in &chain.ops {
        let original = graph.ops[number];
        let op = original.clone_detached();
        for (index, operand) in original.operands().into_iter().enumerate() {
            if let Some(&(_, made)) = copies.iter().find(|(from, _)| *from == operand) {
                op.set_operand(index, made);
            }
        }
        after(original).insert(op);
        let ordered = graph.ordered_before[number];
        let new = graph.push(op, ordered);
        graph.group_of[new] = Some(reader);
        // New numbers are the largest, so members stay sorted.
        graph.groups[reader].members.push(new);
        copies.push((original.result(0), op.result(0)));
    }
    let Some(&(_, made)) = copies.last() else { return };
    for used in value.uses() {
        if !is_table(used.op, used.index) && graph.number(used.op).is_some_and(|user| graph.group_of[user] == Some(reader)) {
            used.op.set_operand(used.index, made);
        }
    }
}

/// Removes unused operations from a group and from the graph function.
fn drop_unused(graph: &mut Graph, group: usize) {
    let mut members = std::mem::take(&mut graph.groups[group].members);
    for at in (0..members.len()).rev() {
        // Copies have large numbers but early positions: repeat until nothing changes.
        let unused = members.iter().rposition(|&member| graph.ops[member].is_unused());
        let Some(unused) = unused else { break };
        graph.ops[members[unused]].erase();
        graph.group_of[members[unused]] = None;
        members.remove(unused);
        debug_assert!(members.len() <= at);
    }
    graph.groups[group].members = members;
}
