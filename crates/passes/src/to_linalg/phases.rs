//! The generics that a kernel is divided into, and their results.
//!
//! A value's depth is the number of reductions on the longest path to it. All reductions whose operands have the same depth are computed by
//! one generic over the domain; computations on rows between two of them are a generic over the rows. The escaping values are yielded by
//! the last generic, the *root*: the schedule pulls all others into the root's loops. If columns are reduced into memory that lies across
//! them, the root only copies the results there, so that the combined elements are contiguous.
//!
//! By default a value is recomputed wherever it is used. Two kinds of values are computed once and kept:
//! - values that need a transcendental function for each point and are used by two generics (`exp` in softmax), unless a row of them is too
//!   large for the stack;
//! - row values that are too expensive to be computed inside the loop. For cheaper ones, LLVM hoists the computation out of it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use dynamlir_dialect::{
    ir::{Op, Value},
    ops::{DynamoOp, FullOp, ReduceOp},
    upstream::bufferization,
};

use super::kernel::{Kernel, Shape, reduction};
use crate::anchors::is_anchor;

/// One generic.
#[derive(Debug, Default)]
pub(super) struct Phase {
    /// True if it iterates over the rows only.
    pub(super) rows: bool,
    /// Its results.
    pub(super) yields: Vec<Yield>,
}

/// One result of a generic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yield {
    /// The value.
    pub(super) value: Value,
    /// The reduction that produces it in this generic; otherwise its elements are computed one by one.
    pub(super) reduction: Option<Op>,
    /// The index of the kernel's escape that it is; otherwise it is for later generics.
    pub(super) escape: Option<usize>,
}

impl Yield {
    /// The value that the body computes.
    pub(super) fn computed(&self) -> Value {
        self.reduction.map_or(self.value, |op| op.operand(0))
    }
}

/// The maximum number of bytes of a row kept between phases: several rows must fit a thread's stack.
const ROW_BYTES: i64 = 64 * 1024;
/// The same if sixteen or more columns are processed together.
const COLUMN_BYTES: i64 = 16 * 1024;
/// The maximum number of operations on rows that may be left in a loop over the domain.
const CHEAP_ROW_OPS: usize = 4;

fn is_transcendental(op: Op) -> bool {
    use DynamoOp as D;
    matches!(
        DynamoOp::of(op),
        Some(
            D::Exp(_)
                | D::Exp2(_)
                | D::Expm1(_)
                | D::Log(_)
                | D::Log2(_)
                | D::Log10(_)
                | D::Log1p(_)
                | D::Sin(_)
                | D::Cos(_)
                | D::Tan(_)
                | D::Asin(_)
                | D::Acos(_)
                | D::Atan(_)
                | D::Atan2(_)
                | D::Sinh(_)
                | D::Cosh(_)
                | D::Tanh(_)
                | D::Asinh(_)
                | D::Acosh(_)
                | D::Atanh(_)
                | D::Erf(_)
                | D::Erfc(_)
                | D::Lgamma(_)
                | D::Pow(_)
                | D::Hypot(_)
                | D::Nextafter(_)
                | D::Rem(_)
                | D::Scan(_)
                | D::Random(_)
        )
    )
}

fn is_dividing(op: Op) -> bool {
    matches!(DynamoOp::of(op), Some(DynamoOp::Div(_) | DynamoOp::Sqrt(_) | DynamoOp::Rsqrt(_)))
}

/// Splits a kernel into phases, first to last.
pub(super) fn plan(kernel: &Kernel) -> Vec<Phase> {
    let values: Vec<_> = kernel.escapes.iter().map(|op| op.operand(0)).collect();
    // A reduction is computed one phase before its result can be used.
    let copied = lies_across(kernel);
    let ready = |value: Value| kernel.depth(value) - usize::from(reduction(value).is_some() && !copied);
    let Some(last) = values.iter().map(|&value| ready(value)).max() else { return Vec::new() };
    let reduces = |value: Value| reduction(value).filter(|_| ready(value) == last && !copied);
    let over_rows = values.iter().all(|&value| kernel.shape(value) == Shape::Row && reduces(value).is_none());
    let root: Vec<_> = values.iter().enumerate().map(|(i, &value)| Yield { value, reduction: reduces(value), escape: Some(i) }).collect();

    let mut split = Split { kernel, kept: HashSet::new(), levels: vec![Vec::new(); last], rows: BTreeMap::new() };
    for op in split.live_reductions(&values) {
        if let Some(level) = split.levels.get_mut(kernel.depth(op.operand(0))) {
            level.push(Yield { value: op.result(0), reduction: Some(op), escape: None });
        }
    }
    if !over_rows {
        split.levels.push(root.clone());
    }
    split.keep_points();
    split.keep_rows();

    let mut phases = Vec::new();
    for (depth, yields) in split.levels.into_iter().enumerate() {
        if let Some(yields) = split.rows.remove(&depth) {
            phases.push(Phase { rows: true, yields });
        }
        phases.push(Phase { rows: false, yields });
    }
    if over_rows {
        phases.push(Phase { rows: true, yields: root });
    }
    phases
}

/// Returns true if only columns leave the kernel, and neighbouring ones are not contiguous.
fn lies_across(kernel: &Kernel) -> bool {
    let is_row = |op: &Op| kernel.shape(op.operand(0)) == Shape::Row;
    let is_across = |op: &Op| {
        let ty = op.operand(1).ty();
        ty.shape().last().is_some_and(|&size| size != 1) && ty.strides().last().is_some_and(|&stride| stride != 1)
    };
    let is_down_columns = !kernel.reduced.is_empty() && !kernel.reduces_innermost();
    is_down_columns && kernel.escapes.iter().all(is_row) && kernel.escapes.iter().any(is_across)
}

struct Split<'a> {
    kernel: &'a Kernel,
    /// Values that one generic yields for later ones.
    kept: HashSet<Value>,
    /// Yields of the generics over the domain, by depth.
    levels: Vec<Vec<Yield>>,
    /// Yields of the generics over the rows, by the depth of the generic over the domain that they precede.
    rows: BTreeMap<usize, Vec<Yield>>,
}

impl Split<'_> {
    /// Returns true if a body reads the value instead of computing it.
    fn is_read(&self, value: Value) -> bool {
        self.kept.contains(&value)
            || reduction(value).is_some()
            || value.def().is_none_or(|op| op.is(bufferization::TO_TENSOR) || is_anchor(op))
    }

    /// The operations that must be computed for some values, in order.
    fn computed(&self, starts: impl IntoIterator<Item = Value>) -> Vec<Op> {
        let mut found = BTreeMap::new();
        let mut open: Vec<_> = starts.into_iter().collect();
        while let Some(value) = open.pop() {
            if self.is_read(value) {
                continue;
            }
            if let Some(op) = value.def()
                && found.insert(self.kernel.position(value), op).is_none()
            {
                open.extend(op.operands());
            }
        }
        found.into_values().collect()
    }

    fn computed_at(&self, level: usize) -> Vec<Op> {
        self.computed(self.levels[level].iter().map(Yield::computed))
    }

    /// The reductions that the escaping values need, in order.
    fn live_reductions(&self, escapes: &[Value]) -> Vec<Op> {
        let mut found = BTreeMap::new();
        let mut seen = HashSet::new();
        let mut open = escapes.to_vec();
        while let Some(value) = open.pop() {
            let Some(op) = value.def().filter(|_| seen.insert(value)) else { continue };
            if op.is(ReduceOp::NAME) {
                found.insert(self.kernel.position(op.result(0)), op);
            }
            open.extend(op.operands());
        }
        found.into_values().collect()
    }

    /// Keeps values that are expensive to compute for each point and are also needed by a later generic.
    fn keep_points(&mut self) {
        for level in 0..self.levels.len().saturating_sub(1) {
            let later: BTreeSet<_> = (level + 1..self.levels.len())
                .flat_map(|later| self.computed_at(later))
                .map(|op| self.kernel.position(op.result(0)))
                .collect();
            let shared: Vec<_> = self
                .computed_at(level)
                .into_iter()
                .filter(|op| later.contains(&self.kernel.position(op.result(0))) && self.fits(op.result(0)))
                .collect();
            for value in self.cut(level, &shared) {
                self.levels[level].push(Yield { value, reduction: None, escape: None });
                self.kept.insert(value);
            }
        }
    }

    /// Selects the shared operations to keep: either the last ones, or the transcendental ones themselves if these are fewer.
    fn cut(&self, level: usize, shared: &[Op]) -> Vec<Value> {
        let mut expensive = HashSet::new();
        for &op in shared {
            if is_transcendental(op) || op.operands().iter().any(|operand| expensive.contains(operand)) {
                expensive.insert(op.result(0));
            }
        }
        let mut last = BTreeMap::new();
        let mut wanted = |value: Value| {
            if expensive.contains(&value) {
                last.insert(self.kernel.position(value), value);
            }
        };
        for later in level + 1..self.levels.len() {
            self.levels[later].iter().for_each(|yielded| wanted(yielded.computed()));
            let cheap = self.computed_at(later).into_iter().filter(|op| !expensive.contains(&op.result(0)));
            cheap.flat_map(Op::operands).for_each(&mut wanted);
        }
        let mut transcendental = BTreeMap::new();
        let mut open: Vec<_> = last.values().copied().collect();
        while let Some(value) = open.pop() {
            let Some(op) = value.def().filter(|_| expensive.contains(&value)) else { continue };
            if is_transcendental(op) {
                transcendental.insert(self.kernel.position(value), value);
            } else {
                open.extend(op.operands());
            }
        }
        let fewer = if transcendental.len() < last.len() { transcendental } else { last };
        fewer.into_values().collect()
    }

    /// Returns true if a row of the value fits on the stack. [`Split::keep_rows`] handles row values.
    fn fits(&self, value: Value) -> bool {
        let limit = if self.kernel.reduces_innermost() { ROW_BYTES } else { COLUMN_BYTES };
        // For a row of dynamic size, the expected size (hint) decides.
        let row: i64 = self.kernel.reduced.iter().map(|&dim| self.kernel.expected[dim]).fold(1, i64::saturating_mul);
        let bytes = i64::from(value.ty().element().width().div_ceil(8));
        self.kernel.shape(value) == Shape::Full && row.saturating_mul(bytes) <= limit
    }

    /// Moves computations on rows out of the loops over the domain.
    fn keep_rows(&mut self) {
        let mut wanted = BTreeMap::new();
        for level in 0..self.levels.len() {
            let operands = self.computed_at(level).into_iter().filter(|op| self.kernel.shape(op.result(0)) != Shape::Row);
            let yielded = self.levels[level].iter().map(Yield::computed);
            for value in operands.flat_map(Op::operands).chain(yielded) {
                if self.kernel.shape(value) == Shape::Row {
                    wanted.insert(self.kernel.position(value), value);
                }
            }
        }
        for value in wanted.into_values() {
            if !self.is_read(value) && !self.is_cheap(value) {
                self.rows.entry(self.kernel.depth(value)).or_default().push(Yield { value, reduction: None, escape: None });
                self.kept.insert(value);
            }
        }
    }

    fn is_cheap(&self, value: Value) -> bool {
        let ops: Vec<_> = self.computed([value]).into_iter().filter(|op| !op.is(FullOp::NAME)).collect();
        let expensive = |&op: &Op| is_transcendental(op) || (is_dividing(op) && !self.kernel.reduces_innermost());
        ops.len() <= CHEAP_ROW_OPS && !ops.iter().any(expensive)
    }
}
