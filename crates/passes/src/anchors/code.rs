//! Short names for building loops, addresses and vectors.

use dynamlir_dialect::{
    ir::{Builder, Ctx, DYNAMIC, Op, Type, Value},
    upstream::{arith::CmpI, vector::Reduction},
};

/// Emits code at one insertion point.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) b: Builder,
}

impl Code {
    pub(super) fn ctx(&self) -> Ctx {
        self.b.ctx()
    }
    pub(super) fn index(&self, value: i64) -> Value {
        self.b.index(value)
    }
    pub(super) fn add(&self, a: Value, b: Value) -> Value {
        self.b.addi(a, b)
    }
    pub(super) fn sub(&self, a: Value, b: Value) -> Value {
        self.b.subi(a, b)
    }
    pub(super) fn plus(&self, a: Value, constant: i64) -> Value {
        if constant == 0 { a } else { self.add(a, self.index(constant)) }
    }
    pub(super) fn times(&self, a: Value, constant: i64) -> Value {
        match constant {
            0 => self.index(0),
            1 => a,
            _ => self.b.muli(a, self.index(constant)),
        }
    }
    pub(super) fn at_most(&self, a: Value, constant: i64) -> Value {
        self.b.minui(a, self.index(constant))
    }
    pub(super) fn quotient(&self, a: Value, constant: i64) -> Value {
        if constant == 1 { a } else { self.b.divui(a, self.index(constant)) }
    }
    pub(super) fn remainder(&self, a: Value, constant: i64) -> Value {
        if constant == 1 { self.index(0) } else { self.b.remui(a, self.index(constant)) }
    }

    /// `for i in from..to step step`, with values that each iteration passes to the next.
    pub(super) fn for_each(
        &self,
        (from, to, step): (Value, Value, i64),
        start: &[Value],
        round: impl FnOnce(Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let (op, body) = self.b.scf_for([from, to, self.index(step)], start);
        let inside = Self { b: Builder::at_end(body, self.b.loc) };
        let given = body.args();
        let next = round(inside, given[0], &given[1..]);
        inside.b.scf_yield(&next);
        op.results()
    }
    /// The same with a constant trip count and without loop-carried values. A single iteration needs no loop.
    pub(super) fn times_do(&self, count: i64, round: impl FnOnce(Self, Value)) {
        if count == 1 {
            return round(*self, self.index(0));
        }
        self.for_each((self.index(0), self.index(count), 1), &[], |code, i, _| {
            round(code, i);
            Vec::new()
        });
    }
    /// The same, shared out among threads if `parallel`.
    pub(super) fn share_out(&self, count: i64, parallel: bool, round: impl FnOnce(Self, Value)) {
        if !parallel || count == 1 {
            return self.times_do(count, round);
        }
        let (end, number) = self.b.scf_forall(count);
        round(Self { b: end }, number);
    }
    /// Emits an `if` with both branches.
    pub(super) fn choose(&self, condition: Value, yes: impl FnOnce(Self), no: impl FnOnce(Self)) {
        let [then, otherwise] = self.b.scf_if_else(condition).map(|block| Self { b: Builder::at_end(block, self.b.loc) });
        yes(then);
        then.b.scf_yield(&[]);
        no(otherwise);
        otherwise.b.scf_yield(&[]);
    }
    pub(super) fn is_below(&self, a: Value, constant: i64) -> Value {
        self.b.cmpi(CmpI::Ult, a, self.index(constant))
    }

    pub(super) fn least(&self, a: Value, b: Value) -> Value {
        self.b.minui(a, b)
    }
    pub(super) fn at_least(&self, a: Value, b: Value) -> Value {
        self.b.maxui(a, b)
    }
    /// The mask of the lanes whose index is at least `begin` and less than `end`.
    pub(super) fn between(&self, begin: Value, end: Value, lanes: i64) -> Value {
        self.b.xori(self.first_lanes(begin, lanes), self.first_lanes(end, lanes))
    }
    pub(super) fn number(&self, element: Type, value: f64) -> Value {
        self.b.float(element, value)
    }

    /// A buffer on the thread's stack; see [`super::choose::LOCAL`].
    pub(super) fn local(&self, element: Type, elements: i64) -> Value {
        self.b.memref_alloca(Type::memref(&[elements], element, &[1], 0), 64)
    }
    /// Reinterprets memory with other sizes and strides, starting at an element.
    pub(super) fn recast(&self, memory: Value, from: Option<Value>, sizes: &[i64], strides: &[i64]) -> Value {
        let offset = if from.is_some() { DYNAMIC } else { 0 };
        let ty = Type::memref(sizes, memory.ty().element(), strides, offset);
        match from {
            Some(from) => self.b.memref_reinterpret_cast_from(memory, from, ty),
            None => self.b.memref_reinterpret_cast(memory, ty),
        }
    }
    /// A rectangular part of memory.
    pub(super) fn part(&self, memory: Value, offsets: &[Value], sizes: &[i64]) -> Value {
        let ty = memory.ty();
        let strides = ty.strided().map(|(strides, _)| strides).unwrap_or_default();
        // If all strides are 0, MLIR knows that every part has the same offset.
        let offset = if strides.iter().all(|&stride| stride == 0) { 0 } else { DYNAMIC };
        self.b.memref_subview(memory, offsets, Type::memref(sizes, ty.element(), &strides, offset))
    }

    pub(super) fn zero(&self, ty: Type) -> Value {
        self.b.float(ty, 0.0)
    }
    pub(super) fn load(&self, memory: Value, at: Value) -> Value {
        self.b.memref_load(memory, &[at])
    }
    pub(super) fn store(&self, value: Value, memory: Value, at: Value) {
        self.b.memref_store(value, memory, &[at]);
    }
    /// Loads `lanes` adjacent elements. Only the first `valid` are read; the others are 0.
    pub(super) fn load_vector(&self, memory: Value, at: Value, (lanes, valid): (i64, i64)) -> Value {
        let ty = Type::vector(&[lanes], memory.ty().element());
        if valid >= lanes {
            return self.b.vector_load_unaligned(ty, memory, &[at]);
        }
        self.load_some(memory, at, self.mask(lanes, valid), self.zero(ty))
    }
    /// Loads adjacent elements where the mask is set, and `others` elsewhere.
    pub(super) fn load_some(&self, memory: Value, at: Value, mask: Value, others: Value) -> Value {
        self.b.vector_masked_load(memory, &[at], mask, others)
    }
    /// Loads the elements at these offsets from an element.
    pub(super) fn gather(&self, memory: Value, at: Value, offsets: Value) -> Value {
        let lanes = offsets.ty().shape()[0];
        let ty = Type::vector(&[lanes], memory.ty().element());
        self.b.vector_gather(memory, at, offsets, self.mask(lanes, lanes), self.zero(ty))
    }
    pub(super) fn store_vector(&self, value: Value, memory: Value, at: Value) {
        self.b.vector_store_unaligned(value, memory, &[at]);
    }
    /// Prefetches memory that is read later. The address may be past the end.
    pub(super) fn prefetch(&self, memory: Value, at: Value) {
        self.b.memref_prefetch(memory, &[at]);
    }
    /// The mask of the lanes below a constant.
    pub(super) fn mask(&self, lanes: i64, valid: i64) -> Value {
        self.b.vector_constant_mask(lanes, valid)
    }
    pub(super) fn broadcast(&self, value: Value, lanes: i64) -> Value {
        self.b.vector_broadcast(value, lanes)
    }
    /// `a · b + c`, rounded once.
    pub(super) fn fma(&self, a: Value, b: Value, c: Value) -> Value {
        self.b.vector_fma(a, b, c)
    }
    /// The element-wise maximum; NaN is larger than any number.
    pub(super) fn largest(&self, a: Value, b: Value) -> Value {
        self.b.maximumf(a, b)
    }
    /// The reduction of all elements of a vector.
    pub(super) fn reduced(&self, kind: Reduction, value: Value) -> Value {
        self.b.vector_reduction(kind, value)
    }
    /// Multiples of a distance, one for each lane, which fit [32 bits](super::reaches_by_i32). Lanes from `valid` on repeat the last valid
    /// one.
    pub(super) fn steps(&self, distance: i64, lanes: i64, valid: i64) -> Value {
        let list: Vec<_> = (0..lanes).map(|lane| (lane.min(valid - 1) * distance) as i32).collect();
        self.b.int_vector(&list)
    }
    /// The mask of the lanes below a count known at run time.
    pub(super) fn first_lanes(&self, count: Value, lanes: i64) -> Value {
        self.b.vector_create_mask(lanes, count)
    }
    pub(super) fn shuffle(&self, a: Value, b: Value, lanes: &[i64]) -> Value {
        self.b.vector_shuffle(a, b, lanes)
    }
}

/// Returns an operation that fills memory; only used through `linalg`, which lowers it to a loop.
pub(super) fn fill(code: &Code, memory: Value) -> Op {
    code.b.linalg_fill(code.number(memory.ty().element(), 0.0), memory, &[])
}
