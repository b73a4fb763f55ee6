//! What the scheduler knows about a kernel: its phases, their iteration domains and how much they compute.

use dynamlir_dialect::ir::{Attr, Block, Builder, Op, Value};

/// One `linalg.generic` of a kernel.
#[derive(Debug)]
pub(super) struct Phase {
    /// Its number.
    pub(super) number: i64,
    /// Sizes of the iteration domain.
    pub(super) ranges: Vec<i64>,
    /// Which dimensions are reduced.
    pub(super) reduced: Vec<bool>,
    /// Elementary operations per point.
    cost: i64,
    /// If it can be computed in vectors, the bits of the widest number in it.
    pub(super) widest: Option<u32>,
    /// Whether it is a scan, whose loop must stay whole.
    pub(super) scans: bool,
    /// Whether a result has an element for each point.
    pub(super) keeps: bool,
    /// Whether there is but one result, and no element of it for each point: only then can pieces be reduced apart.
    pub(super) is_single: bool,
}

/// The phases of a kernel in order; the last is the root.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) phases: Vec<Phase>,
    /// For which phases there is a `linalg.fill` that starts its accumulator.
    pub(super) fills: Vec<i64>,
}

impl Kernel {
    /// Reads a kernel function and ties each `linalg.fill` to the phase it serves (`dynamo.init`). None if there is
    /// nothing to schedule; an error if there is, but not in a form that schedules can handle.
    pub(super) fn read(function: Op) -> Result<Option<Self>, String> {
        let ops = function.body().map(Block::ops).unwrap_or_default();
        let mut generics: Vec<_> =
            ops.iter().filter(|op| op.is("linalg.generic")).filter_map(|&op| Some((op.attr_i64("dynamo.phase")?, op))).collect();
        generics.sort_by_key(|&(number, _)| number);
        let Some(&(root, _)) = generics.last() else { return Ok(None) };
        for pair in generics.windows(2) {
            if pair[0].0 == pair[1].0 {
                return Err(format!("two generics are phase {}", pair[0].0));
            }
        }
        for &(number, op) in generics.iter().filter(|&&(number, _)| number != root) {
            let users = op.results().into_iter().flat_map(Value::uses);
            if users.into_iter().any(|used| !generics.iter().any(|&(_, generic)| generic == used.op)) {
                return Err(format!("phase {number} leaves the kernel without going through the last phase"));
            }
            if op.is_unused() {
                return Err(format!("nothing uses phase {number}"));
            }
        }
        let phases = generics
            .iter()
            .map(|&(number, op)| Phase::read(number, op).ok_or_else(|| format!("phase {number} is not affine and static")))
            .collect::<Result<_, _>>()?;
        let mut fills = Vec::new();
        for &(number, op) in &generics {
            if tie_fills(number, op) {
                fills.push(number);
            }
        }
        Ok(Some(Self { phases, fills }))
    }

    pub(super) fn root(&self) -> &Phase {
        self.phases.last().expect("a kernel has at least one phase")
    }
}

/// Marks the fills that `generic` accumulates onto. A fill that another phase uses too is copied first: each must move
/// with its own phase.
fn tie_fills(number: i64, generic: Op) -> bool {
    let mut found = false;
    for index in 0..generic.num_operands() {
        let Some(mut fill) = generic.operand(index).def().filter(|op| op.is("linalg.fill")) else { continue };
        if fill.result(0).uses().len() > 1 {
            let copy = fill.clone_detached();
            Builder::before(generic).insert(copy);
            generic.set_operand(index, copy.result(0));
            fill = copy;
        }
        fill.set_attr("dynamo.init", Attr::i64(fill.ctx(), number));
        found = true;
    }
    found
}

impl Phase {
    fn read(number: i64, op: Op) -> Option<Self> {
        let iterators = op.attr("iterator_types")?.as_array()?;
        let reduced: Vec<_> = iterators.iter().map(|iterator| iterator.to_string().contains("reduction")).collect();
        let mut ranges = vec![None; reduced.len()];
        for (access, operand) in accesses(op)?.into_iter().zip(op.operands()) {
            for (dim, size) in access.into_iter().zip(operand.ty().shape()) {
                if let Some(dim) = dim {
                    ranges[dim] = Some(size).filter(|&size| size >= 0);
                }
            }
        }
        let mut cost = 0;
        for op in op.body()?.ops() {
            cost += cost_of(op);
        }
        let ranges = ranges.into_iter().collect::<Option<Vec<_>>>()?;
        let keeps = op.results().iter().any(|result| result.ty().rank() == ranges.len());
        let is_single = !keeps && op.num_results() == 1;
        let (widest, scans) = (super::vectors::widest(op), op.attr("dynamo.scan").is_some());
        Some(Self { number, ranges, reduced, cost: cost.max(1), widest, scans, keeps, is_single })
    }

    /// Points of the iteration domain.
    pub(super) fn elements(&self) -> i64 {
        self.ranges.iter().product()
    }
    /// The product of some sizes.
    pub(super) fn elements_where(&self, mut wanted: impl FnMut(usize) -> bool) -> i64 {
        self.ranges.iter().enumerate().filter(|&(d, _)| wanted(d)).map(|(_, &range)| range).product()
    }
    /// Elementary operations in all.
    pub(super) fn work(&self) -> i64 {
        self.elements().saturating_mul(self.cost)
    }
    /// Whether its domain is the kernel's, or the kept dimensions alone.
    pub(super) fn fits(&self, kept: &[bool]) -> bool {
        let rows = kept.iter().filter(|&&kept| kept).count();
        let same = self.ranges.len() == kept.len() && self.reduced.iter().zip(kept).all(|(&reduced, &kept)| !reduced || !kept);
        same || (self.ranges.len() == rows && !self.reduced.contains(&true))
    }
    /// Which of its dimensions are kept ones.
    pub(super) fn kept(&self, kept: &[bool]) -> Vec<bool> {
        if self.ranges.len() == kept.len() { kept.to_vec() } else { vec![true; self.ranges.len()] }
    }
}

/// What one operation costs, in additions.
fn cost_of(op: Op) -> i64 {
    let name = op.name();
    match name.as_str() {
        "linalg.yield" | "linalg.index" => 0,
        "math.absf" | "math.floor" | "math.ceil" | "math.trunc" | "math.roundeven" | "math.fma" => 1,
        _ if name.starts_with("math.") => 16,
        "arith.divf" | "arith.divsi" | "arith.divui" | "arith.remf" | "arith.remsi" | "arith.remui" => 4,
        _ => 1,
    }
}

/// For each operand the loops that its dimensions follow; None where one is not a plain loop.
pub(super) fn accesses(generic: Op) -> Option<Vec<Vec<Option<usize>>>> {
    Some(generic.attr("indexing_maps")?.as_array()?.into_iter().map(results).collect())
}

/// The dimensions that an indexing map's results name; None where a result is not a plain dimension.
fn results(map: Attr) -> Vec<Option<usize>> {
    let text = map.to_string();
    let Some((_, results)) = text.split_once("->") else { return Vec::new() };
    let results = results.trim().trim_end_matches('>').trim_start_matches('(').trim_end_matches(')');
    if results.is_empty() {
        return Vec::new();
    }
    results.split(',').map(|result| result.trim().strip_prefix('d')?.parse().ok()).collect()
}
