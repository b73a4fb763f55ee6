//! The scheduler's view of a kernel: its phases, their iteration domains and their amount of work.

use dynamlir_dialect::{
    ir::{AffineExpr, Block, Builder, Op, Value, sizes},
    ops,
    upstream::{arith, linalg, math},
};
use dynamlir_shapes::{Dim, Dimension, Scope, ShapeError};

use crate::{extent::expected, to_linalg::stage};

/// One `linalg.generic` of a kernel.
#[derive(Debug)]
pub(super) struct Phase {
    /// Its number.
    pub(super) number: i64,
    /// Sizes of the iteration domain.
    pub(super) dims: Vec<Dim>,
    /// The same as numbers, using the expected values (hints) of dynamic sizes.
    pub(super) ranges: Vec<i64>,
    /// True for each dimension whose size is dynamic.
    pub(super) open: Vec<bool>,
    /// True for each dimension that is reduced.
    pub(super) reduced: Vec<bool>,
    /// Elementary operations per point.
    cost: i64,
    /// The bits of its widest element type, if it can be computed in vectors.
    pub(super) widest: Option<u32>,
    /// True for a scan, whose loop must not be split.
    pub(super) scans: bool,
    /// The number of operations that query an index.
    pub(super) positions: usize,
    /// True if a result has an element for each point.
    pub(super) keeps: bool,
    /// The loop along which some operand is contiguous, if it is not the innermost loop.
    pub(super) crossed: Option<usize>,
    /// If it only copies such an operand, the number of rows it should copy at a time.
    pub(super) stages: Option<i64>,
    /// True if there is only one result, and it does not have an element for each point: only then can pieces be reduced separately.
    pub(super) is_single: bool,
}

/// The phases of a kernel in order; the last is the root.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) phases: Vec<Phase>,
    /// The phases whose accumulator is initialized by a `linalg.fill`.
    pub(super) fills: Vec<i64>,
}

impl Kernel {
    /// Reads a kernel function and ties each `linalg.fill` to the phase it serves (`dynamo.init`). Returns `None` if there is nothing to
    /// schedule, and an error if the kernel's form is not supported by schedules.
    pub(super) fn read(function: Op) -> Result<Option<Self>, String> {
        let body = function.body().map(Block::ops).unwrap_or_default();
        let generics = body.into_iter().filter(|op| op.is(linalg::GENERIC));
        let mut generics: Vec<_> = generics.filter_map(|op| Some((ops::PHASE.of(op)?, op))).collect();
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
        let scope = sizes::scope(function);
        let phases = generics
            .iter()
            .map(|&(number, op)| {
                Phase::read(number, op, &scope).ok_or_else(|| format!("phase {number} is not affine, or does not say its sizes"))
            })
            .collect::<Result<_, _>>()?;
        let mut fills = Vec::new();
        for &(number, op) in &generics {
            if tie_fills(number, op) {
                fills.push(number);
            }
        }
        Ok(Some(Self { phases, fills }))
    }

    /// Returns true if a size is dynamic.
    pub(super) fn is_open(&self) -> bool {
        self.phases.iter().any(Phase::is_open)
    }

    /// The number of elementary operations in all phases.
    pub(super) fn work(&self) -> i64 {
        self.phases.iter().map(Phase::work).sum()
    }

    /// For kernels that copy crossing operands for the other phases: the loop along which these are contiguous, and the number of rows
    /// copied at a time.
    pub(super) fn staged(&self) -> Option<(usize, i64)> {
        let before_root = &self.phases[..self.phases.len() - 1];
        before_root.iter().find_map(|phase| Some((phase.crossed?, phase.stages?)))
    }

    pub(super) fn root(&self) -> &Phase {
        self.phases.last().expect("a kernel has at least one phase")
    }
}

/// Marks the fills that `generic` accumulates onto. A fill that is also used by another phase is duplicated first: each must move with its
/// own phase.
fn tie_fills(number: i64, generic: Op) -> bool {
    let mut found = false;
    for index in 0..generic.num_operands() {
        let Some(mut fill) = generic.operand(index).def().filter(|op| op.is(linalg::FILL)) else { continue };
        if fill.result(0).uses().len() > 1 {
            let copy = fill.clone_detached();
            Builder::before(generic).insert(copy);
            generic.set_operand(index, copy.result(0));
            fill = copy;
        }
        ops::INIT.set(fill, number);
        found = true;
    }
    found
}

impl Phase {
    fn read(number: i64, op: Op, scope: &Scope) -> Option<Self> {
        let reduced = linalg::reductions(op);
        let dims = match ops::DOMAIN.dims().of(op) {
            Some(dims) => dims,
            None => static_ranges(op, reduced.len())?.into_iter().map(Dim::from).collect(),
        };
        let ranges: Vec<i64> = dims.iter().map(|dim| expected(dim, scope)).collect();
        let open = dims.iter().map(|dim| dim.known().is_none()).collect();
        let mut cost = 0;
        let mut positions = 0;
        for op in op.body()?.ops() {
            cost += cost_of(op);
            positions += usize::from(op.is(linalg::INDEX));
        }
        let keeps = op.results().iter().any(|result| result.ty().rank() == ranges.len());
        let is_single = !keeps && op.num_results() == 1;
        let (widest, scans) = (super::vectors::widest(op), ops::SCAN.is_on(op));
        let crossed = super::vectors::crossed(op);
        let only_copies = op.body()?.ops().len() == 1;
        let stages = crossed.filter(|_| only_copies).map(|_| stage::rows(op.operand(0).ty().element()));
        Some(Self { number, dims, ranges, open, reduced, cost: cost.max(1), widest, scans, positions, keeps, crossed, stages, is_single })
    }

    /// Returns true if a size is dynamic.
    pub(super) fn is_open(&self) -> bool {
        self.open.contains(&true)
    }
    /// The number of points in the iteration domain.
    pub(super) fn elements(&self) -> i64 {
        self.ranges.iter().product()
    }
    /// The product of some sizes.
    pub(super) fn elements_where(&self, mut wanted: impl FnMut(usize) -> bool) -> i64 {
        self.ranges.iter().enumerate().filter(|&(d, _)| wanted(d)).map(|(_, &range)| range).product()
    }
    /// The same as an expression.
    pub(super) fn size_where(&self, mut wanted: impl FnMut(usize) -> bool) -> Result<Dim, ShapeError> {
        let dims = self.dims.iter().enumerate().filter(|&(d, _)| wanted(d));
        dims.map(|(_, dim)| dim).try_fold(Dim::from(1), |product, dim| product.mul(dim))
    }
    /// The total number of elementary operations.
    pub(super) fn work(&self) -> i64 {
        self.elements().saturating_mul(self.cost)
    }
    /// Returns true if its domain is the kernel's domain, or consists only of the kept dimensions.
    pub(super) fn fits(&self, kept: &[bool]) -> bool {
        let rows = kept.iter().filter(|&&kept| kept).count();
        let same = self.ranges.len() == kept.len() && self.reduced.iter().zip(kept).all(|(&reduced, &kept)| !reduced || !kept);
        same || (self.ranges.len() == rows && !self.reduced.contains(&true))
    }
    /// True for each of its dimensions that is a kept one.
    pub(super) fn kept(&self, kept: &[bool]) -> Vec<bool> {
        if self.ranges.len() == kept.len() { kept.to_vec() } else { vec![true; self.ranges.len()] }
    }
}

/// The sizes of a domain, taken from its operands; `None` if one is not static.
fn static_ranges(op: Op, rank: usize) -> Option<Vec<i64>> {
    let mut ranges = vec![None; rank];
    for (access, operand) in accesses(op)?.into_iter().zip(op.operands()) {
        for (dim, size) in access.into_iter().zip(operand.ty().shape()) {
            if let Some(dim) = dim {
                ranges[dim] = Some(size).filter(|&size| size >= 0);
            }
        }
    }
    ranges.into_iter().collect()
}

/// The cost of one operation, in additions.
fn cost_of(op: Op) -> i64 {
    let name = op.name();
    match name.as_str() {
        linalg::YIELD | linalg::INDEX => 0,
        math::ABSF | math::FLOOR | math::CEIL | math::TRUNC | math::ROUNDEVEN | math::FMA => 1,
        _ if op.is_of(math::DIALECT) => 16,
        arith::DIVF | arith::DIVSI | arith::DIVUI | arith::REMF | arith::REMSI | arith::REMUI => 4,
        _ => 1,
    }
}

/// For each operand the loops that its dimensions follow; `None` if one does not follow a loop directly.
pub(super) fn accesses(generic: Op) -> Option<Vec<Vec<Option<usize>>>> {
    let dims = |results: Vec<AffineExpr>| results.into_iter().map(AffineExpr::as_dim).collect();
    Some(linalg::indexing_maps(generic)?.into_iter().map(|map| dims(map.results())).collect())
}
