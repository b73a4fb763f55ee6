//! A kernel as received from the planner: its domain, the reduced dimensions, primitives in order, and the escaping values.

use std::collections::{BTreeSet, HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Block, Op, Type, Value, sizes},
    ops::{self, DynamoOp, FullOp, IotaOp, ReduceOp, ScanOp},
    pass::PassError,
    upstream::{
        bufferization::{MATERIALIZE_IN_DESTINATION, TO_TENSOR},
        func,
    },
};
use dynamlir_shapes::{Dim, Dimension, Relation};

use crate::{
    anchors::{is_anchor, scratch},
    extent::expected,
};

/// The shape of a value relative to the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One element for each point of the domain.
    Full,
    /// One element for each row: the domain without the reduced dimensions.
    Row,
    /// A smaller shape that is broadcast before use.
    Other,
}

/// A kernel whose body follows the grammar.
pub(super) struct Kernel {
    /// Sizes of the iteration domain.
    pub(super) domain: Vec<Dim>,
    /// The same as numbers, using the expected values (hints) of dynamic sizes.
    pub(super) expected: Vec<i64>,
    /// The dimensions of the reductions (or scans), ascending.
    pub(super) reduced: Vec<usize>,
    /// The other dimensions.
    pub(super) kept: Vec<usize>,
    /// The operations that define values, in order.
    pub(super) ops: Vec<Op>,
    /// `bufferization.materialize_in_destination`, one for each value that leaves the kernel.
    pub(super) escapes: Vec<Op>,
    position: HashMap<Value, usize>,
    depth: HashMap<Value, usize>,
}

impl Kernel {
    /// Reads a function that has `dynamo.kernel`.
    pub(super) fn read(function: Op) -> Result<Self, PassError> {
        let missing = |what| PassError::at(function, format!("a kernel needs the attribute '{what}'"));
        let domain = ops::DOMAIN.dims().of(function).ok_or_else(|| missing(ops::DOMAIN.name()))?;
        let listed = ops::REDUCED_DIMS.of(function).ok_or_else(|| missing(ops::REDUCED_DIMS.name()))?;
        let block = function.body().ok_or_else(|| PassError::at(function, "a kernel needs a body"))?;
        let scope = sizes::scope(function);
        let is_some = |size: &Dim| size.compare(Relation::Ge, &Dim::from(1), &scope) == Ok(true);
        // A kernel with an empty result is not launched; one with an empty reduction would be.
        let may_be_none = |(dim, size): (usize, &Dim)| size.known().is_none() && !listed.contains(&(dim as i64));
        if !domain.iter().enumerate().all(|(dim, size)| is_some(size) || may_be_none((dim, size))) {
            return Err(PassError::at(function, "a kernel's domain needs sizes of at least 1"));
        }
        let mut reduced: BTreeSet<_> = listed.into_iter().collect();

        let (mut ops, mut escapes) = (Vec::new(), Vec::new());
        for op in block.ops() {
            if reduced.is_empty() {
                reduced.extend(ScanOp::cast(op).map(ScanOp::dim));
            }
            if op.is(MATERIALIZE_IN_DESTINATION) {
                escapes.push(op);
            } else if !op.is(func::RETURN) {
                ops.push(op);
            }
        }
        let rank = domain.len();
        let reduced: Vec<_> = reduced.into_iter().map(|dim| dim as usize).collect();
        let kept = (0..rank).filter(|dim| !reduced.contains(dim)).collect();
        let expected = domain.iter().map(|size| expected(size, &scope)).collect();
        let mut kernel = Self { domain, expected, reduced, kept, ops, escapes, position: HashMap::new(), depth: HashMap::new() };
        for (position, op) in kernel.ops.clone().into_iter().enumerate() {
            kernel.check(op)?;
            let depth = op.operands().iter().filter_map(|value| kernel.depth.get(value)).max().copied().unwrap_or(0);
            kernel.depth.insert(op.result(0), depth + usize::from(op.is(ReduceOp::NAME)));
            kernel.position.insert(op.result(0), position);
        }
        for &op in &kernel.escapes {
            kernel.check_escape(op)?;
        }
        Ok(kernel)
    }

    /// The inputs and outputs of the kernel as a function type: `dynamo.signature`. Outputs come last. They may also be read if the kernel
    /// computes point by point: then no element is read after it was written.
    pub(super) fn signature(&self, function: Op) -> Result<Type, PassError> {
        // Sizes come after the memory, and are not part of the signature.
        let index = Type::index(function.ctx());
        let args: Vec<_> = function.body().map(Block::args).unwrap_or_default().into_iter().filter(|arg| arg.ty() != index).collect();
        let mut written: HashSet<Value> = self.escapes.iter().map(|op| op.operand(1)).collect();
        written.extend(scratch(function));
        let mut loaded = self.ops.iter().filter(|op| op.is(TO_TENSOR)).map(|op| op.operand(0));
        let (reads, writes) = args.split_at(args.len().saturating_sub(written.len()));
        if !writes.iter().all(|arg| written.contains(arg)) || !(loaded.all(|value| reads.contains(&value)) || self.is_pointwise()) {
            return Err(PassError::at(function, "expected a kernel that writes its last arguments and loads only the others"));
        }
        let types = |values: &[Value]| values.iter().map(|value| value.ty()).collect::<Vec<_>>();
        Ok(Type::function(function.ctx(), &types(reads), &types(writes)))
    }

    /// Returns true if each element of the results is computed only from the same element of the loaded values.
    fn is_pointwise(&self) -> bool {
        let fits = |op: &Op| op.is_elementwise() || op.is(FullOp::NAME) || op.is(IotaOp::NAME) || op.is(TO_TENSOR);
        self.reduced.is_empty() && self.ops.iter().all(fits) && self.escapes.iter().all(|op| self.shape(op.operand(0)) == Shape::Full)
    }

    fn check(&self, op: Op) -> Result<(), PassError> {
        let refuse = |what: String| Err(PassError::at(op, what));
        if op.result(0).ty().sizes().is_none() {
            return refuse(format!("expected a type that says its sizes, got {}", op.result(0).ty()));
        }
        match DynamoOp::of(op) {
            Some(_) if is_anchor(op) && is_open(op) => return refuse(format!("'{}' takes sizes that are numbers in a kernel", op.name())),
            None if op.is(TO_TENSOR) => return Self::check_memory(op, op.result(0)),
            Some(DynamoOp::Gather(gather)) if !is_loaded(gather.operand()) => {
                return refuse("expected a table that the kernel loads".to_owned());
            }
            Some(_) if is_anchor(op) => {
                if !self.reduced.is_empty() || self.shape(op.result(0)) != Shape::Full {
                    return refuse(format!("expected a product of the domain {:?}, and nothing reduced", self.domain));
                }
                if !op.operands().into_iter().all(is_loaded) {
                    return refuse("expected a product of what the kernel loads".to_owned());
                }
            }
            Some(DynamoOp::Broadcast(_) | DynamoOp::Full(_) | DynamoOp::Iota(_) | DynamoOp::Gather(_)) => {}
            Some(DynamoOp::Reduce(reduce)) => self.check_reduction(op, &reduce.dims())?,
            Some(DynamoOp::Scan(scan)) => self.check_reduction(op, &[scan.dim()])?,
            Some(_) if op.is_elementwise() => {}
            _ => return refuse(format!("'{}' cannot stand in a kernel", op.name())),
        }
        match op.operands().iter().find(|value| value.def().is_none()) {
            Some(value) => Err(PassError::at(
                op,
                format!("expected operands that the kernel defines or loads, got an argument of type {}", value.ty()),
            )),
            None => Ok(()),
        }
    }

    fn check_reduction(&self, op: Op, dims: &[i64]) -> Result<(), PassError> {
        let mut dims: Vec<_> = dims.iter().map(|&dim| dim as usize).collect();
        dims.sort_unstable();
        if self.shape(op.operand(0)) != Shape::Full {
            return Err(PassError::at(
                op,
                format!("expected an operand of the kernel's domain {:?}, got {}", self.domain, op.operand(0).ty()),
            ));
        }
        if dims != self.reduced {
            return Err(PassError::at(op, format!("expected the kernel's reduced dimensions {:?}, got {dims:?}", self.reduced)));
        }
        Ok(())
    }

    fn check_escape(&self, op: Op) -> Result<(), PassError> {
        let value = op.operand(0);
        Self::check_memory(op, value)?;
        if self.shape(value) == Shape::Other {
            let message = format!("expected a value of the domain {:?} or of its rows {:?}, got {}", self.domain, self.row(), value.ty());
            return Err(PassError::at(op, message));
        }
        if !self.position.contains_key(&value) {
            return Err(PassError::at(op, "expected a value that the kernel defines or loads"));
        }
        Ok(())
    }

    /// Memory does not have unsigned types: `dynamo.bitcast` converts both ways.
    fn check_memory(op: Op, value: Value) -> Result<(), PassError> {
        if value.ty().element().is_unsigned() {
            return Err(PassError::at(op, format!("expected a signless element type in memory, got {}", value.ty())));
        }
        Ok(())
    }

    /// Sizes of the kept dimensions.
    pub(super) fn row(&self) -> Vec<Dim> {
        self.kept.iter().map(|&dim| self.domain[dim].clone()).collect()
    }
    /// The shape of a value relative to the domain.
    pub(super) fn shape(&self, value: Value) -> Shape {
        match value.ty().sizes() {
            Some(sizes) if sizes == self.domain => Shape::Full,
            Some(sizes) if sizes == self.row() => Shape::Row,
            _ => Shape::Other,
        }
    }
    /// The number of reductions on the longest path to a value.
    pub(super) fn depth(&self, value: Value) -> usize {
        self.depth.get(&value).copied().unwrap_or(0)
    }
    /// The position in the body at which a value is defined.
    pub(super) fn position(&self, value: Value) -> usize {
        self.position.get(&value).copied().unwrap_or(0)
    }
    /// Returns true if the innermost loop is a reduction, so that row values are loop invariants.
    pub(super) fn reduces_innermost(&self) -> bool {
        self.reduced.last().is_some_and(|&dim| dim + 1 == self.domain.len())
    }
}

/// Returns true if an operation involves a dynamic size.
fn is_open(op: Op) -> bool {
    op.operands().into_iter().chain(op.results()).any(|value| value.ty().numbers().is_none())
}

fn is_loaded(value: Value) -> bool {
    value.def().is_some_and(|def| def.is(TO_TENSOR))
}

/// The reduction that produces a value.
pub(super) fn reduction(value: Value) -> Option<Op> {
    ReduceOp::defining(value).map(ReduceOp::op)
}
