//! `dynamo-block-sums`: adds a few terms of long sums in `f32` before they are added in `f64`.
//!
//! A sum of many `f32`s is computed in `f64` (`dynamo.long_sum`), for which each term is widened: twice the vectors, and conversions.
//! Eager's `f32` sums add only some tens of terms consecutively, in each of many lanes, and then add up the lanes. This pass does the same:
//! each lane adds at most [`DEPTH`] terms in `f32`, and everything else is `f64`. An intermediate sum that overflows `f32`, of four lanes
//! or within one, is infinite; eager also gives infinity for such sums, but adds different terms first.
//!
//! ```mlir
//! linalg.generic {…, ["reduction"]} ins(%x : memref<4096xf32>) outs(%s : memref<f64>) {                            // before
//!   %wide = arith.extf %in : f32 to f64   %sum = arith.addf %out, %wide …
//!
//! %total = scf.for %i = 0 to 4096 step 2048 iter_args(%sums = %zeros) -> vector<16xf64> {                          // after
//!   %four:4 = scf.for %j = %i to … step 64 iter_args(…) -> (vector<16xf32>, …) { … arith.addf %a, %x : vector<16xf32> … }
//!   … arith.extf %of_four : vector<16xf32> to vector<16xf64> … arith.addf %sums, … }
//! … vector.reduction <add>, %total …
//! ```
//!
//! If columns are summed row by row, a few rows are first added to a buffer of `f32`:
//! ```mlir
//! scf.for %i = 0 to 1024 { linalg.generic {…} ins(%row) outs(%sums : memref<256xf64>) }                            // before
//!
//! scf.for %i = 0 to 1024 step 32 {                                                                                 // after
//!   linalg.fill … outs(%few : memref<256xf32>)
//!   scf.for %j = %i to … { linalg.generic {…} ins(%row) outs(%few) }
//!   linalg.generic {…} ins(%few) outs(%sums)
//! }
//! ```
//!
//! Restriction: the terms are computed by operations that can be vectorized, from operands that are contiguous along the sum or do not vary
//! with it. Columns of rows with gaps are left unchanged.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{AffineMap, Block, Builder, DYNAMIC, Op, Target, Type, Value},
    ops,
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{
        arith,
        linalg::{self, indexing_maps, reductions},
        llvm, scf,
        vector::Reduction,
    },
};

use crate::schedule::vectors::is_vectorizable;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-block-sums",
    description: "Add blocks of terms of long sums in f32 before adding the blocks in f64",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[BLOCKED],
    run,
};

const BLOCKED: Statistic = Statistic { name: "blocked", description: "long sums computed block by block" };

/// The maximum number of terms added consecutively in `f32`.
const DEPTH: i64 = 32;
/// Number of vectors of sums processed at a time: about the latency of an addition.
const UNROLL: i64 = 4;

fn run(module: Op, pass: &Run) -> PassResult {
    let lanes = Target::of(module).vector_bits / 32;
    let mut found = Vec::new();
    module.walk(&mut |op| found.extend((op.is(linalg::GENERIC) && ops::LONG_SUM.is_on(op)).then_some(op)));
    if found.is_empty() {
        pass.counts_all();
    }
    for generic in found {
        ops::LONG_SUM.remove(generic);
        let Some(sum) = Sum::of(generic).filter(|_| lanes > 1) else { continue };
        let is_blocked = match sum.reduced {
            last if last + 1 == sum.rank => sum.along_rows(lanes),
            _ => sum.down_columns(),
        };
        pass.count(&BLOCKED, usize::from(is_blocked));
    }
    Ok(())
}

/// A sum of `f32`s computed in `f64`.
struct Sum {
    generic: Op,
    rank: usize,
    /// The loop along which terms are added.
    reduced: usize,
    /// The loops that each operand follows; the last is the sum's own memory.
    accesses: Vec<Vec<usize>>,
    /// The operations that compute a term.
    ops: Vec<Op>,
    /// The term, in `f32`.
    term: Value,
}

impl Sum {
    fn of(generic: Op) -> Option<Self> {
        let (iterators, body) = (reductions(generic), generic.body()?);
        let mut sums = (0..iterators.len()).filter(|&dim| iterators[dim]);
        let (reduced, None) = (sums.next()?, sums.next()) else { return None };
        let accesses = indexing_maps(generic)?.into_iter().map(AffineMap::result_dims).collect::<Option<Vec<_>>>()?;
        let out = generic.num_operands() - 1;
        if generic.num_results() > 0 || linalg::outputs(generic) != 1 || !generic.operand(out).ty().is_memref() {
            return None;
        }
        let total = body.terminator()?.operand(0).def().filter(|op| op.is(arith::ADDF) && op.result(0).ty().is_f64())?;
        let own = body.args()[out];
        let wide = total.operands().into_iter().find(|&term| term != own)?.def().filter(|op| op.is(arith::EXTF))?;
        let term = wide.operand(0);
        let alone = |value: Value| value.uses().len() == 1;
        let is_sum = total.operands().contains(&own) && alone(own) && alone(wide.result(0)) && wide.block() == Some(body);
        let ops: Vec<_> = body.ops().into_iter().filter(|&op| op != total && op != wide && !op.is(linalg::YIELD)).collect();
        (is_sum && term.ty().is_f32()).then_some(Self { generic, rank: iterators.len(), reduced, accesses, ops, term })
    }

    /// Returns true if the innermost loop can be vectorized.
    fn is_for_vectors(&self) -> bool {
        let fits = |i: usize| {
            let ty = self.generic.operand(i).ty();
            let access = &self.accesses[i];
            let moves = access.iter().position(|&dim| dim == self.reduced);
            let is_straight = moves.is_none_or(|place| place + 1 == access.len() && ty.strides().last() == Some(&1));
            !ty.is_memref() || (is_straight && ty.element().width() > 1)
        };
        let is_number = |value: &Value| (value.ty().is_float() || value.ty().is_int()) && !value.ty().is_vector();
        let is_computed = |op: &Op| is_vectorizable(*op) && op.num_results() == 1 && op.operands().iter().all(is_number);
        (0..self.generic.num_operands() - 1).all(fits) && self.ops.iter().all(is_computed)
    }

    /// The trip count of a loop: as a number, if it is static, and as a value.
    fn extent(&self, b: Builder, dim: usize) -> Option<(Option<i64>, Value)> {
        let places =
            self.accesses.iter().enumerate().flat_map(|(i, access)| access.iter().enumerate().map(move |(place, &of)| (i, place, of)));
        let places: Vec<_> = places.filter(|&(_, _, of)| of == dim).collect();
        let size = |&(i, place, _): &(usize, usize, usize)| self.generic.operand(i).ty().shape()[place];
        if let Some(number) = places.iter().map(size).find(|&size| size != DYNAMIC) {
            return Some((Some(number), b.index(number)));
        }
        let &(i, place, _) = places.first()?;
        Some((None, b.memref_extract_strided_metadata(self.generic.operand(i)).result(2 + place)))
    }

    /// Rewrites sums that run along their terms' memory, using vectors; returns true if it did.
    fn along_rows(&self, lanes: i64) -> bool {
        let (generic, step) = (self.generic, UNROLL * lanes);
        let mut b = Builder::before(generic);
        if !self.is_for_vectors() {
            return false;
        }
        let Some(extents) = (0..self.rank).map(|dim| self.extent(b, dim)).collect::<Option<Vec<_>>>() else { return false };
        let (length, end) = extents[self.reduced];
        if length.is_some_and(|length| length < step) {
            return false;
        }
        let ctx = generic.ctx();
        let [single, double] = [Type::f32(ctx), Type::f64(ctx)];
        let [few, wide] = [single, double].map(|element| Type::vector(&[lanes], element));
        let (zero, one, step_value) = (b.index(0), b.index(1), b.index(step));
        let (block, rest) = (b.index(DEPTH * step), b.remsi(end, step_value));
        let main = length.map_or_else(|| b.subi(end, rest), |length| b.index(length - length % step));
        let (no_sums, nothing) = (b.float(wide, 0.0), b.float(few, 0.0));
        let mut at = vec![zero; self.rank];
        for dim in 0..self.reduced {
            let (_, body) = b.scf_for([zero, extents[dim].1, one], &[]);
            b = Builder::before(Builder::at_end(body, b.loc).scf_yield(&[]));
            at[dim] = body.args()[0];
        }
        let (blocks, body) = b.scf_for([zero, main, block], &[no_sums]);
        let (outer, first, sums) = (Builder::at_end(body, b.loc), body.args()[0], body.args()[1]);
        let last = outer.minsi(outer.addi(first, block), main);
        let (vectors, body) = outer.scf_for([first, last, step_value], &vec![nothing; UNROLL as usize]);
        let inner = Builder::at_end(body, b.loc);
        let added = (0..UNROLL).map(|i| {
            let mut at = at.clone();
            at[self.reduced] = inner.addi(body.args()[0], inner.index(i * lanes));
            inner.addf(body.args()[1 + i as usize], self.compute(inner, &at, Some(lanes)))
        });
        let added: Vec<_> = added.collect();
        inner.scf_yield(&added);
        // Adds neighbours first, which minimizes the number of consecutive additions.
        let mut parts = vectors.results();
        while parts.len() > 1 {
            parts = parts.chunks(2).map(|pair| outer.addf(pair[0], pair[1])).collect();
        }
        outer.scf_yield(&[outer.addf(sums, outer.extf(parts[0], wide))]);
        let mut total = b.vector_reduction(Reduction::Add, blocks.result(0));
        if length.is_none_or(|length| length % step != 0) {
            let (terms, body) = b.scf_for([main, end, one], &[total]);
            let inside = Builder::at_end(body, b.loc);
            at[self.reduced] = body.args()[0];
            let term = self.compute(inside, &at, None);
            inside.scf_yield(&[inside.addf(body.args()[1], inside.extf(term, double))]);
            total = terms.result(0);
        }
        let out = generic.num_operands() - 1;
        let place: Vec<_> = self.accesses[out].iter().map(|&dim| at[dim]).collect();
        let memory = generic.operand(out);
        b.memref_store(b.addf(b.memref_load(memory, &place), total), memory, &place);
        generic.erase();
        true
    }

    /// A term, or the terms of `lanes` neighbours.
    fn compute(&self, b: Builder, at: &[Value], lanes: Option<i64>) -> Value {
        let ty = |element: Type| lanes.map_or(element, |lanes| Type::vector(&[lanes], element));
        let spread = |value: Value| lanes.map_or(value, |lanes| b.vector_broadcast(value, lanes));
        let mut values = HashMap::new();
        for (i, &arg) in self.generic.body().map(Block::args).unwrap_or_default().iter().enumerate() {
            let (operand, access) = (self.generic.operand(i), &self.accesses[i]);
            if !arg.has_uses() || i + 1 == self.generic.num_operands() {
                continue;
            }
            let place: Vec<_> = access.iter().map(|&dim| at[dim]).collect();
            let value = match lanes {
                _ if !operand.ty().is_memref() => spread(operand),
                Some(_) if access.contains(&self.reduced) => b.vector_load_unaligned(ty(arg.ty()), operand, &place),
                _ => spread(b.memref_load(operand, &place)),
            };
            values.insert(arg, value);
        }
        for &op in &self.ops {
            let operands: Vec<_> =
                op.operands().into_iter().map(|operand| values.get(&operand).copied().unwrap_or_else(|| spread(operand))).collect();
            let attrs = op.attrs();
            let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
            let result = op.result(0);
            let value = if op.is(arith::CONSTANT) {
                spread(b.value(&op.name(), &[], result.ty(), &attrs))
            } else {
                b.value(&op.name(), &operands, ty(result.ty()), &attrs)
            };
            values.insert(result, value);
        }
        values.get(&self.term).copied().unwrap_or_else(|| spread(self.term))
    }

    /// Rewrites columns that are summed row by row, in an enclosing loop; returns true if it did.
    fn down_columns(&self) -> bool {
        let generic = self.generic;
        let out = generic.num_operands() - 1;
        let memory = generic.operand(out);
        let Some(rows) = generic.parent().filter(|op| op.is(scf::FOR) && op.num_results() == 0) else { return false };
        let Some(body) = rows.body() else { return false };
        let (row, ops) = (body.args()[0], body.ops());
        let is_alone = ops.iter().all(|&op| op == generic || op.is_pure() || op.is(llvm::INTR_PREFETCH) || op.is(scf::YIELD));
        let shape = memory.ty().shape();
        let is_outside = memory.def().is_none_or(|def| def.block() != Some(body));
        // For rows with gaps, the last vectors are read element by element, and vectors of `f32` are twice as long.
        let is_dense = self.accesses[..out].iter().enumerate().all(|(i, access)| {
            let ty = generic.operand(i).ty();
            !ty.is_memref() || access.last() != Some(&(self.rank - 1)) || ty.strides().last() == Some(&1)
        });
        let one_row = self.extent(Builder::before(generic), self.reduced).is_some_and(|(length, _)| length == Some(1));
        if !is_alone || !is_outside || !is_dense || !one_row || shape.contains(&DYNAMIC) || row.uses().is_empty() {
            return false;
        }
        let b = Builder::before(rows);
        let few = b.memref_alloca(Type::memref(&shape, Type::f32(b.ctx()), &row_major(&shape), 0), 64);
        let [start, end, step] = [0, 1, 2].map(|i| rows.operand(i));
        let block = b.muli(step, b.index(DEPTH));
        let (_, outer) = b.scf_for([start, end, block], &[]);
        let outside = Builder::before(Builder::at_end(outer, b.loc).scf_yield(&[]));
        outside.linalg_fill(outside.float(Type::f32(b.ctx()), 0.0), few, &[]);
        let last = outside.minsi(outside.addi(outer.args()[0], block), end);
        rows.move_before(outer.terminator().expect("a loop ends"));
        rows.set_operand(0, outer.args()[0]);
        rows.set_operand(1, last);

        // The same, in f32.
        let maps = indexing_maps(generic).unwrap_or_default();
        let at = Builder::before(generic);
        let inputs = &generic.operands()[..out];
        let (_, block) = at.linalg_generic(inputs, &[few], &maps, &reductions(generic), &[]);
        let inside = Builder::at_end(block, b.loc);
        let mut values: HashMap<_, _> = generic.body().map(Block::args).unwrap_or_default().into_iter().zip(block.args()).collect();
        for op in &self.ops {
            let copy = op.clone_detached();
            inside.insert(copy);
            for (i, operand) in op.operands().into_iter().enumerate() {
                copy.set_operand(i, values.get(&operand).copied().unwrap_or(operand));
            }
            values.insert(op.result(0), copy.result(0));
        }
        let term = values.get(&self.term).copied().unwrap_or(self.term);
        inside.linalg_yield(&[inside.addf(block.args()[out], term)]);
        generic.erase();

        let rank = shape.len();
        let after = Builder::before(outer.terminator().expect("a loop ends"));
        let (_, block) = after.linalg_generic(&[few], &[memory], &[AffineMap::identity(b.ctx(), rank); 2], &vec![false; rank], &[]);
        let inside = Builder::at_end(block, b.loc);
        let wide = inside.extf(block.args()[0], Type::f64(b.ctx()));
        inside.linalg_yield(&[inside.addf(block.args()[1], wide)]);
        true
    }
}

/// Row-major strides.
fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    strides
}
