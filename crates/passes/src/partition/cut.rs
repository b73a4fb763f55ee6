//! Chooses the values to save: a minimum cut between the values available in the forward and those needed by backward.
//!
//! Each value that does not depend on a tangent is two nodes, `in` and `out`. Everything that ends up on the sink's side is available in
//! backward:
//!
//! ```text
//! source ── computing ──► in ── saving ──► out ── ∞ ──► in of each value computed from it
//!                                           └──── ∞ ──► sink, if backward requires it
//! ```
//! Cutting the edge between the two nodes means that the value is saved. Cutting the edge from the source means that backward recomputes
//! it, and then it needs the operands, to which infinite edges lead. Both costs are times, in picoseconds, so that a value is saved if that
//! is quicker. Memory has an additional [`Price`] that tips the balance.
//!
//! A value that belongs to a checkpoint (`dynamo.recompute`) and is used only within it has an infinite cost of saving, and a finite one of
//! computing, regardless of the operation. The exception is drawing random numbers, which would be different ones.
//!
//! torch's partitioner uses 0 or ∞ for computing, and for saving the bytes with a factor for the distance from backward
//! (`torch/_functorch/partitioners.py`). Max-flow and min-cut: Ford and Fulkerson 1956; the algorithm is Dinic's 1970.

use std::collections::HashSet;

use ac_library::MfGraph;

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{self, AtenOp, DynamoOp},
};

use super::joint::{Joint, Side, is_view};
use crate::{anchors::is_anchor, decompose::random::may_draw, total::is_total};

/// The price of memory.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Picoseconds per byte, in addition to the time for writing and reading it.
    per_byte: u64,
    /// True if the user has set a memory budget. Only then are products recomputed, and inputs kept that eager does not save: a write to
    /// such an input before backward then raises an error that eager would not raise.
    is_asked: bool,
}

impl Price {
    /// The price is about half of the time that it takes to write and read the memory.
    pub const DEFAULT: Self = Self { per_byte: 100, is_asked: false };
    /// Memory is free.
    pub const NOTHING: Self = Self { per_byte: 0, is_asked: false };

    /// The prices tried for a budget, in rising order: from almost nothing until only memory counts.
    fn of_budgets() -> Vec<Self> {
        (4..28).map(|exponent| Self { per_byte: 1 << exponent, is_asked: true }).collect()
    }
}

/// The result of the cut.
pub struct Cut {
    /// The values that are saved, in order of their definition.
    pub saved: Vec<usize>,
    /// The values available in backward, saved or recomputed.
    pub had: HashSet<usize>,
}

/// Cost of writing and reading a byte that is not in a cache: 10 GB/s each.
const TRAFFIC: u64 = 200;
/// Cost of launching an additional kernel.
const KERNEL: u64 = 2_000_000;
/// Cost of one multiplication in a product, including its addition.
const MULTIPLICATION: u64 = 20;
const INFINITE: u64 = 1 << 60;
/// A cost that is avoided whenever possible: that of saving an input that eager does not save.
const FORBIDDEN: u64 = 1 << 56;
/// The maximum cost of recomputing a part of a checkpoint: more than saving anything else.
const ANYTHING: u64 = 1 << 40;

/// Returns for each node true if it is reachable from the source in the residual network of the maximum flow, which is the same for every
/// maximum flow. The library follows an augmenting path by recursion, with one call per step, and a path may be as long as the graph.
fn cut(network: &mut MfGraph<u64>, count: usize, source: usize, sink: usize) -> Vec<bool> {
    const BYTES_OF_A_STEP: usize = 512;
    let stack = count * BYTES_OF_A_STEP;
    stacker::maybe_grow(stack, stack, || network.flow(source, sink));
    network.min_cut(source)
}

/// The cheapest cut at this price of memory.
pub fn minimum(joint: &Joint, price: Price) -> Cut {
    let wanted = joint.wanted_by_backward();
    let read = joint.read_by_formulas();
    let count = 2 * joint.values.len() + 2;
    let (mut network, source, sink) = (MfGraph::<u64>::new(count), count - 2, count - 1);
    // The two nodes of a value.
    let ends = |value: usize| (2 * value, 2 * value + 1);
    let candidates: Vec<usize> = (0..joint.values.len()).filter(|&value| !joint.is_backward[value]).collect();
    let (inside, counts) = (inside_checkpoints(joint), counting(joint));
    for &value in &candidates {
        let ends = ends(value);
        let (mut computing, mut saving) = (computing(joint, value, &counts, price), saving(joint, value, read[value], price));
        if joint.def[value].is_some_and(|at| is_repeatable(joint.ops[at])) {
            computing = computing.min(ANYTHING);
        }
        if inside[value] {
            saving = INFINITE;
        }
        network.add_edge(source, ends.0, computing);
        network.add_edge(ends.0, ends.1, saving);
        if wanted[value] {
            network.add_edge(ends.1, sink, INFINITE);
        }
    }
    for &value in &candidates {
        let Some(at) = joint.def[value] else { continue };
        for &operand in &joint.uses[at] {
            if !joint.is_backward[operand] {
                let (from, to) = (ends(operand), ends(value));
                network.add_edge(from.1, to.0, INFINITE);
                // A part of a derivative that the forward computes for a saved value should not be computed a second time.
                network.add_edge(to.0, from.0, running_twice(joint, operand));
            }
        }
    }
    let reached = cut(&mut network, count, source, sink);
    let is_had = |value: &usize| !reached[ends(*value).1];
    let had: HashSet<usize> = candidates.iter().copied().filter(is_had).collect();
    let is_saved = |value: &usize| had.contains(value) && reached[ends(*value).0];
    let saved = candidates.iter().copied().filter(is_saved).collect();
    Cut { saved, had }.needed(joint, &wanted)
}

/// The quickest cut that saves, in addition to the minimum, at most this percentage of the memory that could be avoided.
pub fn within(joint: &Joint, percent: usize) -> Cut {
    let prices = Price::of_budgets();
    let most = minimum(joint, Price::NOTHING);
    let Some(mut best) = prices.last().map(|&price| minimum(joint, price)) else { return most };
    let (low, high) = (best.saved_bytes(joint), most.saved_bytes(joint));
    let allowed = low + high.saturating_sub(low) * (percent.min(100) as u64) / 100;
    if high <= allowed {
        return most;
    }
    // A higher price of memory means that less is saved, so the first price that fits is found by bisection.
    let (mut from, mut to) = (0, prices.len() - 1);
    while from < to {
        let middle = usize::midpoint(from, to);
        let cut = minimum(joint, prices[middle]);
        if cut.saved_bytes(joint) <= allowed {
            (best, to) = (cut, middle);
        } else {
            from = middle + 1;
        }
    }
    best
}

/// Cost of making a value available to backward by saving it.
fn saving(joint: &Joint, value: usize, is_read: bool, price: Price) -> u64 {
    let of_caller = joint.is_lent(value) || joint.returned(value).is_some();
    if of_caller && !is_read && !(price.is_asked && joint.is_lent(value)) {
        return FORBIDDEN;
    }
    match joint.def[value] {
        Some(at) if is_view(joint.ops[at]) || is_constant(joint.ops[at]) => INFINITE,
        // It is in memory anyway, and eager saves it, so a later write or `detach_` must be refused as in eager. The small cost favours
        // fewer values.
        _ if of_caller => 10,
        _ => 1000 + joint.bytes(value) * (TRAFFIC + price.per_byte),
    }
}

/// Cost of computing a part of a derivative in both forward and backward.
fn running_twice(joint: &Joint, value: usize) -> u64 {
    match joint.def[value] {
        Some(at) if joint.sides[at] == Side::Either && (joint.ops[at].is(AtenOp::NAME) || is_anchor(joint.ops[at])) => {
            10 * KERNEL + joint.bytes(value) * 1000
        }
        _ => 0,
    }
}

/// Cost of computing a value in backward, given its operands.
fn computing(joint: &Joint, value: usize, counts: &[bool], price: Price) -> u64 {
    let Some(at) = joint.def[value] else { return INFINITE };
    let op = joint.ops[at];
    if is_view(op) || counts[at] || joint.sides[at] == Side::Either {
        // Nothing is computed, or only what would be computed anyway.
        return 0;
    }
    let largest = op.operands().iter().chain(&op.results()).map(|value| joint.elements(*value)).max().unwrap_or(0);
    match DynamoOp::of(op) {
        _ if price.is_asked && (is_total(op) || is_anchor(op)) => KERNEL + multiplications(joint, op) * MULTIPLICATION,
        _ if op.is(AtenOp::NAME) || is_anchor(op) || !op.is_pure() => INFINITE,
        // A gather relies on the check of its indices, which is not repeated.
        Some(DynamoOp::Scatter(_) | DynamoOp::Scan(_) | DynamoOp::ArgReduce(_) | DynamoOp::Gather(_)) => INFINITE,
        Some(DynamoOp::Reduce(_)) => KERNEL + largest * 100,
        Some(_) if op.is_elementwise() => {
            // If a product or the library reads it, it must be stored.
            let is_stored = op.result(0).uses().iter().any(|using| using.op.is(AtenOp::NAME) || is_anchor(using.op));
            largest * if is_cheap(op) { 30 } else { 400 } + if is_stored { joint.bytes(value) * TRAFFIC } else { 0 }
        }
        _ => KERNEL + joint.bytes(value) * TRAFFIC,
    }
}

/// The approximate number of multiplications of an operator that is some kind of product. For `[m, k]` and `[k, n]` the square root of the
/// product of the three matrices' element counts is exact: `√(mk · kn · mn)`.
fn multiplications(joint: &Joint, op: Op) -> u64 {
    let numel = |value: &Value| u128::from(joint.elements(*value));
    let mut sizes: Vec<u128> = op.operands().iter().map(numel).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let results = op.results().iter().map(numel).max().unwrap_or(0);
    let all = sizes.iter().take(2).fold(results, |product, size| product.saturating_mul(*size));
    u64::try_from(all.isqrt()).unwrap_or(u64::MAX).min(INFINITE / MULTIPLICATION / 2)
}

/// The values used only inside a checkpoint, and parts of derivatives computed from them.
fn inside_checkpoints(joint: &Joint) -> Vec<bool> {
    let mut inside = vec![false; joint.values.len()];
    for (at, &op) in joint.ops.iter().enumerate() {
        let is_inside = match joint.sides[at] {
            Side::Forward => is_repeatable(op) && joint.is_inside(at),
            Side::Either => joint.uses[at].iter().any(|&value| inside[value]),
            Side::Backward => false,
        };
        if is_inside {
            for result in op.results() {
                inside[joint.number(result)] = true;
            }
        }
    }
    inside
}

/// Returns true if an operation belongs to a checkpoint and gives the same result when run again.
fn is_repeatable(op: Op) -> bool {
    ops::RECOMPUTE.is_on(op) && AtenOp::cast(op).is_none_or(|call| !may_draw(call))
}

fn is_constant(op: Op) -> bool {
    matches!(DynamoOp::of(op), Some(DynamoOp::Full(_) | DynamoOp::Iota(_)))
}

/// True for each operation that only computes indices: constants, and operations on them.
fn counting(joint: &Joint) -> Vec<bool> {
    let mut counts = vec![false; joint.ops.len()];
    for (at, &op) in joint.ops.iter().enumerate() {
        counts[at] =
            is_constant(op) || op.is_elementwise() && joint.uses[at].iter().all(|&value| joint.def[value].is_some_and(|at| counts[at]));
    }
    counts
}

/// Returns true if an element takes about one instruction. Random numbers take some dozens, which is still less than saving a mask or the
/// numbers themselves.
fn is_cheap(op: Op) -> bool {
    use DynamoOp as D;
    matches!(
        DynamoOp::of(op),
        Some(
            D::Add(_)
                | D::Sub(_)
                | D::Mul(_)
                | D::Neg(_)
                | D::Max(_)
                | D::Min(_)
                | D::Select(_)
                | D::Compare(_)
                | D::Convert(_)
                | D::Abs(_)
                | D::And(_)
                | D::Or(_)
                | D::Xor(_)
                | D::Not(_)
                | D::Shl(_)
                | D::Shr(_)
                | D::Bitcast(_)
                | D::Random(_)
        )
    )
}

impl Cut {
    /// Removes values saved needlessly: those available only for computing values that are saved themselves.
    fn needed(self, joint: &Joint, wanted: &[bool]) -> Self {
        let saved: HashSet<usize> = self.saved.iter().copied().collect();
        let mut had: HashSet<usize> = HashSet::new();
        let mut open: Vec<usize> = (0..wanted.len()).filter(|&value| wanted[value] && self.had.contains(&value)).collect();
        while let Some(value) = open.pop() {
            if had.insert(value) && !saved.contains(&value) {
                open.extend(joint.def[value].into_iter().flat_map(|at| joint.uses[at].iter().copied()));
            }
        }
        Self { saved: self.saved.into_iter().filter(|value| had.contains(value)).collect(), had }
    }

    /// Bytes that live from forward to backward only because they are saved: inputs and results exist anyway.
    pub fn saved_bytes(&self, joint: &Joint) -> u64 {
        let is_extra = |value: &&usize| !joint.is_lent(**value) && joint.returned(**value).is_none();
        self.saved.iter().filter(is_extra).map(|&value| joint.bytes(value)).sum()
    }

    /// The operations of the forward that backward recomputes, except views and constants.
    pub fn recomputed(&self, joint: &Joint) -> Vec<usize> {
        let is_again = |&at: &usize| {
            let results = joint.ops[at].results();
            joint.sides[at] == Side::Forward
                && !is_view(joint.ops[at])
                && !is_constant(joint.ops[at])
                && results.iter().any(|&result| self.had.contains(&joint.number(result)) && !self.saved.contains(&joint.number(result)))
        };
        (0..joint.ops.len()).filter(is_again).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_may_be_as_long_as_the_network() {
        let count = 1 << 20;
        let mut network = MfGraph::new(count);
        for node in 1..count {
            network.add_edge(node - 1, node, if node == 7 { 1 } else { INFINITE });
        }
        let reached = cut(&mut network, count, 0, count - 1);
        assert_eq!(reached.iter().position(|is_reached| !is_reached), Some(7));
    }
}
