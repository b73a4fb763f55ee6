//! Builds one phase: a `linalg.generic`, its accumulators, and the scalar code of its body.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dynamlir_dialect::{
    ir::{AffineExpr, AffineMap, AttrValue, Builder, Ctx, DYNAMIC, Op, Type, Value},
    ops::{self, BitcastOp, BroadcastOp, DynamoOp, FullOp, GatherOp, ScanOp},
    pass::PassError,
};
use dynamlir_shapes::Dim;

use super::{
    kernel::{Kernel, Shape},
    phases::{Phase, Yield},
    scalar::{self, Library, Scalars, signless},
    sizes::loaded,
    stage,
};
use crate::values::Sizes;

/// The loop that each dimension of a value follows; `None` means index 0.
type Access = Vec<Option<usize>>;
/// A value under an access, ordered by its position in the body.
type Point = (usize, Access);

/// Builds the generics of one kernel.
pub(super) struct Bodies<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) sizes: &'a Sizes,
    pub(super) builder: Builder,
    pub(super) library: &'a mut Library,
    /// True if the kernel is a single phase.
    pub(super) alone: bool,
    /// The tensors that hold values: loaded inputs, and results of earlier phases.
    pub(super) tensors: HashMap<Value, Value>,
}

/// One operand of the generic being built.
struct Operand {
    tensor: Value,
    access: Access,
}

impl Bodies<'_> {
    /// Emits copies of inputs that lie across the rows of a kernel which iterates over them several times, or that have gaps, as separate
    /// phases. The schedule runs these for a few rows at a time ([`crate::transpose_tiles`]). Returns the number of copies.
    pub(super) fn stage(&mut self, goes_over: usize) -> usize {
        let kernel = self.kernel;
        let crossing = kernel.ops.iter().map(|op| (op.operands(), op.results())).filter_map(|(from, to)| {
            let (memory, value) = (from.first()?, to.first()?);
            let is_crossed = self.tensors.contains_key(value) && kernel.shape(*value) == Shape::Full;
            (is_crossed && stage::pays(kernel, memory.ty(), goes_over)).then_some(*value)
        });
        let crossing: Vec<_> = crossing.collect();
        if crossing.len() > stage::MOST {
            return 0;
        }
        for (number, &value) in crossing.iter().enumerate() {
            let rank = kernel.domain.len();
            let ty = Type::tensor(&value.ty().shape(), signless(value.ty().element()));
            let empty = self.builder.tensor_empty(ty, &[], &[ops::OUT.with(self.builder.ctx(), number as i64)]);
            let (id, none) = (AffineMap::identity(self.builder.ctx(), rank), AffineMap::of_dims(self.builder.ctx(), rank, []));
            // As for copies below: without an unused operand, it would be folded.
            let inputs = [self.tensors[&value], self.builder.int(Type::int(self.builder.ctx(), 1), 0)];
            let (copy, body) = self.builder.linalg_generic(&inputs, &[empty], &[id, none, id], &vec![false; rank], &[]);
            Builder::at_end(body, self.builder.loc).linalg_yield(&body.args()[..1]);
            ops::PHASE.set(copy, number as i64);
            self.tensors.insert(value, copy.result(0));
        }
        crossing.len()
    }

    /// Builds a phase; returns the tensors that escape, with the number of the escape.
    pub(super) fn build(&mut self, number: usize, phase: &Phase) -> Result<Vec<(usize, Value)>, PassError> {
        let ranges = if phase.rows { self.kernel.row() } else { self.kernel.domain.clone() };
        let points = self.points(phase);
        let number = number as i64;
        if let Some(op) = phase.yields.first().and_then(|yielded| yielded.value.def()) {
            self.builder.loc = op.loc();
        }

        let mut inputs: Vec<_> = Vec::new();
        let mut read = Vec::new();
        let mut scans = Vec::new();
        for (point, &value) in &points {
            if let Some(&tensor) = self.tensors.get(&value) {
                inputs.push(Operand { tensor, access: point.1.clone() });
                read.push(point.clone());
            } else if let Some(scan) = ScanOp::defining(value) {
                scans.push((point.clone(), scan));
            }
        }
        let mut outs = Vec::new();
        for yielded in &phase.yields {
            outs.push(Operand {
                tensor: self.empty(yielded.value.ty(), yielded.reduction, number)?,
                access: self.access(phase, yielded, false),
            });
        }
        for (_, scan) in &scans {
            let row = Type::tensor_of(&self.kernel.row(), scan.result().ty().element());
            outs.push(Operand { tensor: self.empty(row, Some(scan.op()), number)?, access: loops(&self.kernel.kept) });
        }
        let covered: BTreeSet<_> = inputs.iter().chain(&outs).flat_map(|operand| operand.access.iter().flatten()).collect();
        if covered.len() < ranges.len() {
            inputs.push(Operand { tensor: self.shape_only(&ranges), access: (0..ranges.len()).map(Some).collect() });
        }
        // A generic that only copies would be folded to `memref.copy`, which is a call into MLIR's runtime library. An unused operand,
        // indexed differently from the others, prevents that.
        let moved = |value: &Value| self.tensors.contains_key(value) || value.def().is_some_and(is_nothing);
        let copies = points.values().all(moved) && phase.yields.iter().all(|yielded| yielded.reduction.is_none());
        if copies && inputs.iter().chain(&outs).all(|operand| operand.access == outs[0].access) {
            let unused = self.builder.int(Type::int(self.builder.ctx(), 1), 0);
            inputs.push(Operand { tensor: unused, access: Access::new() });
        }

        let (generic, body) = self.generic(&ranges, &inputs, &outs);
        if let Some((_, scan)) = scans.first() {
            ops::SCAN.set(generic, scan.dim());
        }
        if let [Yield { reduction: Some(op), .. }] = phase.yields[..]
            && ops::LONG_SUM.is_on(op)
        {
            ops::LONG_SUM.set(generic, ());
        }
        // A scan that a schedule could only split along its dimension is not tagged as a phase.
        let splits = self.alone && self.kernel.row().iter().all(|size| size.known() == Some(1));
        if !splits || scans.is_empty() || self.kernel.reduced.is_empty() {
            ops::PHASE.set(generic, number);
        }
        let (args, accumulators) = (body.block().args(), inputs.len());
        let mut scope: HashMap<Point, Value> = read.into_iter().zip(args.iter().copied()).collect();
        let mut running: HashMap<Point, Value> = HashMap::new();
        for (i, (point, _)) in scans.iter().enumerate() {
            running.insert(point.clone(), args[accumulators + phase.yields.len() + i]);
        }
        for (point, &value) in &points {
            if let Some(op) = value.def().filter(|_| !scope.contains_key(point)) {
                let scalar = self.scalar(body, op, point, &scope, running.get(point).copied())?;
                scope.insert(point.clone(), scalar);
            }
        }

        let mut results = Vec::new();
        for (i, yielded) in phase.yields.iter().enumerate() {
            let point = (self.kernel.position(yielded.computed()), self.access(phase, yielded, true));
            let scalar = scope[&point];
            results.push(match yielded.reduction {
                Some(op) => combine(body.with_loc(op.loc()), op, args[accumulators + i], scalar)?,
                None => scalar,
            });
        }
        results.extend(scans.iter().map(|(point, _)| scope[point]));
        body.linalg_yield(&results);

        let mut escapes = Vec::new();
        for (i, yielded) in phase.yields.iter().enumerate() {
            match yielded.escape {
                Some(escape) => escapes.push((escape, generic.result(i))),
                None => drop(self.tensors.insert(yielded.value, generic.result(i))),
            }
        }
        Ok(escapes)
    }

    /// The loops that a yielded value follows, or (`inside`) the value that the body computes for it.
    fn access(&self, phase: &Phase, yielded: &Yield, inside: bool) -> Access {
        let value = if inside { yielded.computed() } else { yielded.value };
        match self.kernel.shape(value) {
            _ if phase.rows => (0..self.kernel.kept.len()).map(Some).collect(),
            Shape::Full => (0..self.kernel.domain.len()).map(Some).collect(),
            Shape::Row | Shape::Other => loops(&self.kernel.kept),
        }
    }

    /// All points that a phase reads or computes.
    fn points(&self, phase: &Phase) -> BTreeMap<Point, Value> {
        let mut points = BTreeMap::new();
        let mut open: Vec<_> = phase.yields.iter().map(|yielded| (yielded.computed(), self.access(phase, yielded, true))).collect();
        while let Some((value, access)) = open.pop() {
            let point = (self.kernel.position(value), access);
            let Some(op) = value.def() else { continue };
            if !self.tensors.contains_key(&value) && !points.contains_key(&point) {
                open.extend(operand_accesses(op, &point.1).map(|(i, access)| (op.operand(i), access)));
            }
            points.insert(point, value);
        }
        points
    }

    /// Emits the scalar of one computed point.
    fn scalar(
        &mut self,
        body: Builder,
        op: Op,
        point: &Point,
        scope: &HashMap<Point, Value>,
        running: Option<Value>,
    ) -> Result<Value, PassError> {
        let operands: Vec<_> =
            operand_accesses(op, &point.1).map(|(i, access)| scope[&(self.kernel.position(op.operand(i)), access)]).collect();
        let b = body.with_loc(op.loc());
        if let Some(accumulator) = running {
            return combine(b, op, accumulator, operands[0]);
        }
        let (long, index) = (Type::int(op.ctx(), 64), Type::index(op.ctx()));
        if let Some(size) = FullOp::cast(op).and_then(|full| Dim::read(full.value())).filter(|size| size.known().is_none()) {
            return Ok(b.index_cast(self.sizes.value(&size), long));
        }
        Ok(match DynamoOp::of(op) {
            Some(DynamoOp::Broadcast(_)) => operands[0],
            Some(DynamoOp::Iota(iota)) => match point.1[iota.dim() as usize] {
                Some(dim) => b.index_cast(b.linalg_index(dim), long),
                None => b.int(long, 0),
            },
            Some(DynamoOp::Gather(gather)) => {
                let at: Vec<_> = operands.iter().map(|&operand| b.index_cast(operand, index)).collect();
                b.tensor_extract(self.tensors[&gather.operand()], &at)
            }
            _ => Scalars { builder: b, library: self.library }.pointwise(op, &operands).ok_or_else(|| no_lowering(op))?,
        })
    }

    /// A fresh tensor for results; for a reduction or scan, filled with its initial value.
    ///
    /// The tags keep CSE from merging two empty tensors. A `linalg.fill` into the very tensor that a loop starts from is fused wrongly by
    /// LLVM 22's `fuse_into_containing_op`: it takes another tensor of the loop instead.
    fn empty(&self, ty: Type, combined: Option<Op>, phase: i64) -> Result<Value, PassError> {
        let (b, ctx) = (self.builder, self.builder.ctx());
        let open = self.sizes.open(&ty.dims());
        let ty = Type::tensor(&ty.shape(), signless(ty.element()));
        let Some(op) = combined else { return Ok(b.tensor_empty(ty, &open, &[ops::OUT.with(ctx, phase)])) };
        let empty = b.tensor_empty(ty, &open, &[ops::INIT.with(ctx, phase)]);
        let neutral = scalar::neutral(b, op.required("kind"), op.result(0).ty().element()).ok_or_else(|| no_lowering(op))?;
        Ok(b.linalg_fill(neutral, empty, &[ops::INIT.with(ctx, phase)]).result(0))
    }

    /// An operand that defines the loop bounds when no other operand does (the sum of an `iota`). It is never read, so it may be any
    /// memory: one element of the destination, viewed with strides of 0.
    fn shape_only(&self, ranges: &[Dim]) -> Value {
        let destination = self.kernel.escapes[0].operand(1);
        let shape: Vec<_> = ranges.iter().map(|size| size.known().unwrap_or(DYNAMIC)).collect();
        let ty = Type::memref(&shape, destination.ty().element(), &vec![0; ranges.len()], 0);
        let seen = self.builder.memref_reinterpret_cast_to(destination, &self.sizes.open(ranges), &[], ty);
        loaded(self.sizes, self.builder, seen, ranges)
    }

    /// Creates the generic with an empty body, and a builder for that body.
    fn generic(&self, ranges: &[Dim], inputs: &[Operand], outs: &[Operand]) -> (Op, Builder) {
        let maps: Vec<_> = inputs.iter().chain(outs).map(|operand| map(self.builder.ctx(), ranges.len(), &operand.access)).collect();
        let parallel = |dim| outs.iter().all(|operand| operand.access.contains(&Some(dim)));
        let reductions: Vec<_> = (0..ranges.len()).map(|dim| !parallel(dim)).collect();
        let [inputs, outs] = [inputs, outs].map(|operands| operands.iter().map(|operand| operand.tensor).collect::<Vec<_>>());
        // A schedule cannot learn anything from sizes that are values, so the generic records their expressions.
        let open = ranges.iter().any(|size| size.known().is_none());
        let said = open.then(|| ops::DOMAIN.dims().with(self.builder.ctx(), ranges));
        let (op, body) = self.builder.linalg_generic(&inputs, &outs, &maps, &reductions, said.as_slice());
        (op, Builder::at_end(body, self.builder.loc))
    }
}

/// The access in which each dimension follows the given loop.
fn loops(dims: &[usize]) -> Access {
    dims.iter().copied().map(Some).collect()
}

/// The access of each operand, given that of the result. The table of a gather has none: the body reads it at the given indices.
fn operand_accesses(op: Op, access: &Access) -> impl Iterator<Item = (usize, Access)> {
    let spread = BroadcastOp::cast(op);
    (usize::from(op.is(GatherOp::NAME))..op.num_operands()).map(move |i| {
        let Some(spread) = spread else { return (i, access.clone()) };
        let (from, to) = (spread.operand().ty().dims(), spread.result().ty().dims());
        let along = |(dim, size): (i64, Dim)| {
            let dim = dim as usize;
            access[dim].filter(|_| size == to[dim])
        };
        (i, spread.dims().into_iter().zip(from).map(along).collect())
    })
}

/// The indexing map of an access.
fn map(ctx: Ctx, rank: usize, access: &Access) -> AffineMap {
    let result = |dim: &Option<usize>| dim.map_or_else(|| AffineExpr::constant(ctx, 0), |dim| AffineExpr::dim(ctx, dim));
    AffineMap::new(ctx, rank, &access.iter().map(result).collect::<Vec<_>>())
}

/// Returns true if the op changes only a type's signedness, which memory does not represent.
fn is_nothing(op: Op) -> bool {
    op.is(BitcastOp::NAME) && signless(op.operand(0).ty().element()) == signless(op.result(0).ty().element())
}

/// One step of a reduction or scan.
fn combine(b: Builder, op: Op, accumulator: Value, value: Value) -> Result<Value, PassError> {
    scalar::combine(b, op, op.required("kind"), accumulator, value).ok_or_else(|| no_lowering(op))
}

fn no_lowering(op: Op) -> PassError {
    let ty = op.operands().first().map_or_else(|| op.result(0).ty(), |operand| operand.ty());
    PassError::at(op, format!("'{}' has no lowering at element type {}", op.name(), ty.element()))
}
