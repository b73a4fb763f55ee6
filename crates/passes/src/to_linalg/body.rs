//! Builds one phase: a `linalg.generic`, its accumulators, and the scalar code of its body.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dynamlir_dialect::{
    ir::{Attr, Builder, Op, Type, Value},
    pass::PassError,
};

use super::{
    kernel::{Kernel, Shape},
    phases::{Phase, Yield},
    scalar::{Library, Scalars, case, signless},
};

/// Which loop each dimension of a value follows; None stays at index 0.
type Access = Vec<Option<usize>>;
/// A value under an access, ordered as the body defines it.
type Point = (usize, Access);

/// Builds the generics of one kernel.
pub(super) struct Bodies<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) builder: Builder,
    pub(super) library: &'a mut Library,
    /// Whether the kernel is a single phase.
    pub(super) alone: bool,
    /// The tensors that hold values: loaded ones, and results of earlier phases.
    pub(super) tensors: HashMap<Value, Value>,
}

/// One operand of the generic being built.
struct Operand {
    tensor: Value,
    access: Access,
}

impl Bodies<'_> {
    /// Builds a phase; returns the tensors that escape, with their number.
    pub(super) fn build(&mut self, number: usize, phase: &Phase) -> Result<Vec<(usize, Value)>, PassError> {
        let ranges = if phase.rows { self.kernel.row() } else { self.kernel.domain.clone() };
        let points = self.points(phase);
        let number = Attr::i64(self.builder.ctx(), number as i64);
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
            } else if let Some(op) = value.def().filter(|op| op.is("dynamo.scan")) {
                scans.push((point.clone(), op));
            }
        }
        let mut outs = Vec::new();
        for yielded in &phase.yields {
            outs.push(Operand {
                tensor: self.empty(yielded.value.ty(), yielded.reduction, number)?,
                access: self.access(phase, yielded, false),
            });
        }
        for (_, op) in &scans {
            let row = Type::tensor(&self.kernel.row(), op.result(0).ty().element());
            outs.push(Operand { tensor: self.empty(row, Some(*op), number)?, access: loops(&self.kernel.kept) });
        }
        let covered: BTreeSet<_> = inputs.iter().chain(&outs).flat_map(|operand| operand.access.iter().flatten()).collect();
        if covered.len() < ranges.len() {
            inputs.push(Operand { tensor: self.shape_only(&ranges), access: (0..ranges.len()).map(Some).collect() });
        }
        // A generic that only copies would be folded to `memref.copy`, which is a call into MLIR's runtime library. An
        // operand that is not used, indexed unlike the others, keeps it.
        let moved = |value: &Value| self.tensors.contains_key(value) || value.def().is_some_and(is_nothing);
        let copies = points.values().all(moved) && phase.yields.iter().all(|yielded| yielded.reduction.is_none());
        if copies && inputs.iter().chain(&outs).all(|operand| operand.access == outs[0].access) {
            let bool = Type::int(self.builder.ctx(), 1);
            let unused = self.scalars().int(bool, 0);
            inputs.push(Operand { tensor: unused, access: Access::new() });
        }

        let (generic, body) = self.generic(&ranges, &inputs, &outs);
        if let Some((_, op)) = scans.first() {
            generic.set_attr("dynamo.scan", Attr::i64(op.ctx(), op.attr_i64("dim").unwrap_or(0)));
        }
        // A scan that a schedule could only split along its dimension is no phase to it.
        let splits = self.alone && self.kernel.row().iter().product::<i64>() == 1;
        if !splits || scans.is_empty() || self.kernel.reduced.is_empty() {
            generic.set_attr("dynamo.phase", number);
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
                Some(op) => combine(&self.scalars_at(body.with_loc(op.loc())), op, args[accumulators + i], scalar)?,
                None => scalar,
            });
        }
        results.extend(scans.iter().map(|(point, _)| scope[point]));
        body.op("linalg.yield", &results, &[], &[]);

        let mut escapes = Vec::new();
        for (i, yielded) in phase.yields.iter().enumerate() {
            match yielded.escape {
                Some(escape) => escapes.push((escape, generic.result(i))),
                None => drop(self.tensors.insert(yielded.value, generic.result(i))),
            }
        }
        Ok(escapes)
    }

    /// The loops that a yielded value, or (`inside`) what the body computes for it, goes along.
    fn access(&self, phase: &Phase, yielded: &Yield, inside: bool) -> Access {
        let value = if inside { yielded.computed() } else { yielded.value };
        match self.kernel.shape(value) {
            _ if phase.rows => (0..self.kernel.kept.len()).map(Some).collect(),
            Shape::Full => (0..self.kernel.domain.len()).map(Some).collect(),
            Shape::Row | Shape::Other => loops(&self.kernel.kept),
        }
    }

    /// Everything that a phase reads or computes.
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

    /// The scalar of one computed point.
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
        let mut scalars = self.scalars_at(body.with_loc(op.loc()));
        if op.is("dynamo.broadcast") {
            return Ok(operands[0]);
        }
        if let Some(accumulator) = running {
            return combine(&scalars, op, accumulator, operands[0]);
        }
        if op.is("dynamo.iota") {
            let (ctx, index) = (op.ctx(), Type::int(op.ctx(), 64));
            let dim = op.attr_i64("dim").unwrap_or(0) as usize;
            let Some(dim) = point.1[dim] else { return Ok(scalars.int(index, 0)) };
            let dim = Attr::i64(ctx, dim as i64);
            let value = scalars.builder.value("linalg.index", &[], Type::index(ctx), &[("dim", dim)]);
            return Ok(scalars.op("arith.index_cast", &[value], index));
        }
        if op.is("dynamo.gather") {
            let table = op.operand(0);
            let index = Type::index(op.ctx());
            let at = operands.iter().map(|&operand| scalars.op("arith.index_cast", &[operand], index));
            let reads: Vec<_> = std::iter::once(table).chain(at).collect();
            return Ok(scalars.op("tensor.extract", &reads, table.ty().element()));
        }
        scalars.pointwise(op, &operands).ok_or_else(|| no_lowering(op))
    }

    /// A fresh tensor for results; for a reduction or scan, filled with what it starts from.
    ///
    /// The tags keep CSE from making one of two empty tensors. A `linalg.fill` into the very tensor that a loop starts
    /// from is fused wrongly by LLVM 22's `fuse_into_containing_op`: it takes another tensor of the loop instead.
    fn empty(&mut self, ty: Type, combined: Option<Op>, phase: Attr) -> Result<Value, PassError> {
        let ty = Type::tensor(&ty.shape(), signless(ty.element()));
        let tag = if combined.is_some() { "dynamo.init" } else { "dynamo.out" };
        let empty = self.builder.value("tensor.empty", &[], ty, &[(tag, phase)]);
        let Some(op) = combined else { return Ok(empty) };
        let neutral = self.scalars().neutral(&case(op, "kind"), op.result(0).ty().element()).ok_or_else(|| no_lowering(op))?;
        let segments = self.segments(1, 1);
        let attrs = [("operandSegmentSizes", segments), ("dynamo.init", phase)];
        let element = ty.element();
        let (fill, body) = self.builder.op_with_body("linalg.fill", &[neutral, empty], &[ty], &attrs, &[element, element]);
        Builder::at_end(body, self.builder.loc).op("linalg.yield", &[body.args()[0]], &[], &[]);
        Ok(fill.result(0))
    }

    /// An operand that says how far the loops go, where no other one does (the sum of an `iota`). Nothing reads it, so
    /// it may be any memory: one element of the destination, seen with strides of 0.
    fn shape_only(&self, ranges: &[i64]) -> Value {
        let ctx = self.builder.ctx();
        let destination = self.kernel.escapes[0].operand(1);
        let element = destination.ty().element();
        let zeros = vec![0; ranges.len()];
        let list = |values: &[i64]| Attr::i64s(ctx, values);
        let segments = Attr::parse(ctx, "array<i32: 1, 0, 0, 0>").unwrap_or_else(|| Attr::unit(ctx));
        let view = self.builder.value(
            "memref.reinterpret_cast",
            &[destination],
            Type::memref(ranges, element, &zeros, 0),
            &[
                ("operandSegmentSizes", segments),
                ("static_offsets", list(&[0])),
                ("static_sizes", list(ranges)),
                ("static_strides", list(&zeros)),
            ],
        );
        let restrict = [("restrict", Attr::unit(ctx))];
        self.builder.value("bufferization.to_tensor", &[view], Type::tensor(ranges, element), &restrict)
    }

    /// The generic with an empty body, and a builder for it.
    fn generic(&self, ranges: &[i64], inputs: &[Operand], outs: &[Operand]) -> (Op, Builder) {
        let ctx = self.builder.ctx();
        let all = || inputs.iter().chain(outs);
        let maps: Vec<_> = all().map(|operand| map(self.builder, ranges.len(), &operand.access)).collect();
        let parallel = |dim| outs.iter().all(|operand| operand.access.contains(&Some(dim)));
        let iterators: Vec<_> = (0..ranges.len())
            .map(|dim| if parallel(dim) { "parallel" } else { "reduction" })
            .filter_map(|kind| Attr::parse(ctx, &format!("#linalg.iterator_type<{kind}>")))
            .collect();
        let operands: Vec<_> = all().map(|operand| operand.tensor).collect();
        let elements: Vec<_> = operands.iter().map(|tensor| tensor.ty().element()).collect();
        let results: Vec<_> = outs.iter().map(|operand| operand.tensor.ty()).collect();
        let attrs = [
            ("indexing_maps", Attr::array(ctx, &maps)),
            ("iterator_types", Attr::array(ctx, &iterators)),
            ("operandSegmentSizes", self.segments(inputs.len(), outs.len())),
        ];
        let (op, body) = self.builder.op_with_body("linalg.generic", &operands, &results, &attrs, &elements);
        (op, Builder::at_end(body, self.builder.loc))
    }

    fn segments(&self, inputs: usize, outs: usize) -> Attr {
        let ctx = self.builder.ctx();
        Attr::parse(ctx, &format!("array<i32: {inputs}, {outs}>")).unwrap_or_else(|| Attr::unit(ctx))
    }
    fn scalars(&mut self) -> Scalars<'_> {
        self.scalars_at(self.builder)
    }
    fn scalars_at(&mut self, builder: Builder) -> Scalars<'_> {
        Scalars { builder, library: self.library }
    }
}

/// Each dimension along the loop given.
fn loops(dims: &[usize]) -> Access {
    dims.iter().copied().map(Some).collect()
}

/// The access of each operand, when the result has this one. The table of a gather has none: the body reads it wherever
/// the indices say.
fn operand_accesses(op: Op, access: &Access) -> impl Iterator<Item = (usize, Access)> {
    (usize::from(op.is("dynamo.gather"))..op.num_operands()).map(move |i| {
        if !op.is("dynamo.broadcast") {
            return (i, access.clone());
        }
        let (from, to) = (op.operand(i).ty().shape(), op.result(0).ty().shape());
        let dims = op.attr_i64s("dims").unwrap_or_default();
        let along = |(&dim, size): (&i64, i64)| {
            let dim = dim as usize;
            access[dim].filter(|_| size == to[dim])
        };
        (i, dims.iter().zip(from).map(along).collect())
    })
}

/// The indexing map of an access.
fn map(builder: Builder, rank: usize, access: &Access) -> Attr {
    let dims: Vec<_> = (0..rank).map(|dim| format!("d{dim}")).collect();
    let results: Vec<_> = access.iter().map(|dim| dim.map_or_else(|| "0".to_owned(), |dim| format!("d{dim}"))).collect();
    Attr::affine_map(builder.ctx(), &format!("({}) -> ({})", dims.join(", "), results.join(", ")))
}

/// Whether the op changes a type's sign only, which memory does not know.
fn is_nothing(op: Op) -> bool {
    op.is("dynamo.bitcast") && signless(op.operand(0).ty().element()) == signless(op.result(0).ty().element())
}

/// One step of a reduction or scan.
fn combine(scalars: &Scalars, op: Op, accumulator: Value, value: Value) -> Result<Value, PassError> {
    scalars.combine(op, accumulator, value).ok_or_else(|| no_lowering(op))
}

fn no_lowering(op: Op) -> PassError {
    let ty = op.operands().first().map_or_else(|| op.result(0).ty(), |operand| operand.ty());
    PassError::at(op, format!("'{}' has no lowering at element type {}", op.name(), ty.element()))
}
