//! Short names for building loops, addresses and vectors.

use dynamlir_dialect::ir::{Attr, Builder, Ctx, DYNAMIC, Op, Type, Value};

/// Emits at one place.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) b: Builder,
}

/// `arith.cmpi` ult.
const LESS: i64 = 6;

impl Code {
    pub(super) fn ctx(&self) -> Ctx {
        self.b.ctx()
    }
    fn index_type(&self) -> Type {
        Type::index(self.ctx())
    }
    pub(super) fn index(&self, value: i64) -> Value {
        let ty = self.index_type();
        self.b.value("arith.constant", &[], ty, &[("value", Attr::int_of(ty, value))])
    }
    pub(super) fn add(&self, a: Value, b: Value) -> Value {
        self.b.value("arith.addi", &[a, b], a.ty(), &[])
    }
    pub(super) fn sub(&self, a: Value, b: Value) -> Value {
        self.b.value("arith.subi", &[a, b], a.ty(), &[])
    }
    pub(super) fn plus(&self, a: Value, constant: i64) -> Value {
        if constant == 0 { a } else { self.add(a, self.index(constant)) }
    }
    pub(super) fn times(&self, a: Value, constant: i64) -> Value {
        match constant {
            0 => self.index(0),
            1 => a,
            _ => self.b.value("arith.muli", &[a, self.index(constant)], a.ty(), &[]),
        }
    }
    pub(super) fn at_most(&self, a: Value, constant: i64) -> Value {
        self.b.value("arith.minui", &[a, self.index(constant)], a.ty(), &[])
    }
    pub(super) fn quotient(&self, a: Value, constant: i64) -> Value {
        if constant == 1 { a } else { self.b.value("arith.divui", &[a, self.index(constant)], a.ty(), &[]) }
    }
    pub(super) fn remainder(&self, a: Value, constant: i64) -> Value {
        if constant == 1 { self.index(0) } else { self.b.value("arith.remui", &[a, self.index(constant)], a.ty(), &[]) }
    }

    /// `for i in from..to step step`, with values that each round hands to the next.
    pub(super) fn for_each(
        &self,
        (from, to, step): (Value, Value, i64),
        start: &[Value],
        round: impl FnOnce(Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<_> = start.iter().map(|value| value.ty()).collect();
        let operands = [&[from, to, self.index(step)], start].concat();
        let args = [&[self.index_type()], types.as_slice()].concat();
        let (op, body) = self.b.op_with_body("scf.for", &operands, &types, &[], &args);
        let inside = Self { b: Builder::at_end(body, self.b.loc) };
        let given = body.args();
        let next = round(inside, given[0], &given[1..]);
        inside.b.op("scf.yield", &next, &[], &[]);
        op.results()
    }
    /// The same over numbers known now, nothing handed on. A single round is no loop.
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
        let (end, number) = forall(self.b, count);
        round(Self { b: end }, number);
    }
    /// One way or the other.
    pub(super) fn choose(&self, condition: Value, yes: impl FnOnce(Self), no: impl FnOnce(Self)) {
        let op = self.b.detached("scf.if", &[condition], &[], &[], 2);
        for region in 0..2 {
            op.region(region).append(dynamlir_dialect::ir::Block::new(&[]));
        }
        self.b.insert(op);
        let inside = |region: usize| op.region(region).blocks().first().map(|&block| Self { b: Builder::at_end(block, self.b.loc) });
        if let Some(code) = inside(0) {
            yes(code);
            code.b.op("scf.yield", &[], &[], &[]);
        }
        if let Some(code) = inside(1) {
            no(code);
            code.b.op("scf.yield", &[], &[], &[]);
        }
    }
    pub(super) fn is_below(&self, a: Value, constant: i64) -> Value {
        let predicate = Attr::i64(self.ctx(), LESS);
        self.b.value("arith.cmpi", &[a, self.index(constant)], Type::int(self.ctx(), 1), &[("predicate", predicate)])
    }

    pub(super) fn least(&self, a: Value, b: Value) -> Value {
        self.b.value("arith.minui", &[a, b], a.ty(), &[])
    }
    pub(super) fn at_least(&self, a: Value, b: Value) -> Value {
        self.b.value("arith.maxui", &[a, b], a.ty(), &[])
    }
    /// Which lanes have a number from `begin` to below `end`.
    pub(super) fn between(&self, begin: Value, end: Value, lanes: i64) -> Value {
        let ty = self.vector_type(Type::int(self.ctx(), 1), lanes);
        let up_to = |value: Value| self.first_lanes(value, lanes);
        self.b.value("arith.xori", &[up_to(begin), up_to(end)], ty, &[])
    }
    pub(super) fn number(&self, element: Type, value: f64) -> Value {
        self.b.value("arith.constant", &[], element, &[("value", Attr::float_of(element, value))])
    }

    /// A buffer on the thread's stack; see [`super::choose::LOCAL`].
    pub(super) fn local(&self, element: Type, elements: i64) -> Value {
        let attrs = [("alignment", Attr::i64(self.ctx(), 64)), ("operandSegmentSizes", self.segments(&[0, 0]))];
        self.b.value("memref.alloca", &[], Type::memref(&[elements], element, &[1], 0), &attrs)
    }
    /// Memory in another form, from an element on.
    pub(super) fn recast(&self, memory: Value, from: Option<Value>, sizes: &[i64], strides: &[i64]) -> Value {
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let offset = if from.is_some() { DYNAMIC } else { 0 };
        let attrs = [
            ("static_offsets", list(&[offset])),
            ("static_sizes", list(sizes)),
            ("static_strides", list(strides)),
            ("operandSegmentSizes", self.segments(&[1, i32::from(from.is_some()), 0, 0])),
        ];
        let operands: Vec<_> = std::iter::once(memory).chain(from).collect();
        self.b.value("memref.reinterpret_cast", &operands, Type::memref(sizes, memory.ty().element(), strides, offset), &attrs)
    }
    /// A rectangular part.
    pub(super) fn part(&self, memory: Value, offsets: &[Value], sizes: &[i64]) -> Value {
        let ty = memory.ty();
        let rank = offsets.len();
        let strides = ty.strided().map(|(strides, _)| strides).unwrap_or_default();
        let list = |values: &[i64]| Attr::i64s(self.ctx(), values);
        let attrs = [
            ("static_offsets", list(&vec![DYNAMIC; rank])),
            ("static_sizes", list(sizes)),
            ("static_strides", list(&vec![1; rank])),
            ("operandSegmentSizes", self.segments(&[1, rank as i32, 0, 0])),
        ];
        // Where all is one element, MLIR knows that no part starts elsewhere.
        let offset = if strides.iter().all(|&stride| stride == 0) { 0 } else { DYNAMIC };
        let result = Type::memref(sizes, ty.element(), &strides, offset);
        self.b.value("memref.subview", &[&[memory], offsets].concat(), result, &attrs)
    }
    pub(super) fn segments(&self, sizes: &[i32]) -> Attr {
        let text: Vec<_> = sizes.iter().map(i32::to_string).collect();
        Attr::parse(self.ctx(), &format!("array<i32: {}>", text.join(", "))).unwrap_or_else(|| Attr::unit(self.ctx()))
    }

    pub(super) fn vector_type(&self, element: Type, lanes: i64) -> Type {
        Type::parse(self.ctx(), &format!("vector<{lanes}x{element}>")).unwrap_or(element)
    }
    pub(super) fn zero(&self, ty: Type) -> Value {
        let zero = Attr::splat(ty, Attr::float_of(ty.element(), 0.0));
        self.b.value("arith.constant", &[], ty, &[("value", zero)])
    }
    pub(super) fn load(&self, memory: Value, at: Value) -> Value {
        self.b.value("memref.load", &[memory, at], memory.ty().element(), &[])
    }
    pub(super) fn store(&self, value: Value, memory: Value, at: Value) {
        self.b.op("memref.store", &[value, memory, at], &[], &[]);
    }
    /// `lanes` neighbours, of which the first `valid` are read; the others are 0.
    pub(super) fn load_vector(&self, memory: Value, at: Value, (lanes, valid): (i64, i64)) -> Value {
        let ty = self.vector_type(memory.ty().element(), lanes);
        if valid >= lanes {
            return self.b.value("vector.load", &[memory, at], ty, &[]);
        }
        self.b.value("vector.maskedload", &[memory, at, self.mask(lanes, valid), self.zero(ty)], ty, &[])
    }
    /// Neighbours where the mask says so, `others` elsewhere.
    pub(super) fn load_some(&self, memory: Value, at: Value, mask: Value, others: Value) -> Value {
        self.b.value("vector.maskedload", &[memory, at, mask, others], others.ty(), &[])
    }
    /// An element from each of these distances from an element.
    pub(super) fn gather(&self, memory: Value, at: Value, offsets: Value) -> Value {
        let lanes = offsets.ty().shape()[0];
        let ty = self.vector_type(memory.ty().element(), lanes);
        self.b.value("vector.gather", &[memory, at, offsets, self.mask(lanes, lanes), self.zero(ty)], ty, &[])
    }
    pub(super) fn store_vector(&self, value: Value, memory: Value, at: Value) {
        self.b.op("vector.store", &[value, memory, at], &[], &[]);
    }
    /// Asks for memory that is read later. It may be past the end.
    pub(super) fn prefetch(&self, memory: Value, at: Value) {
        let attrs = [
            ("isWrite", Attr::bool(self.ctx(), false)),
            ("localityHint", Attr::parse(self.ctx(), "3 : i32").unwrap_or_else(|| Attr::unit(self.ctx()))),
            ("isDataCache", Attr::bool(self.ctx(), true)),
        ];
        self.b.op("memref.prefetch", &[memory, at], &[], &attrs);
    }
    /// Which lanes are below a number.
    pub(super) fn mask(&self, lanes: i64, valid: i64) -> Value {
        let ty = self.vector_type(Type::int(self.ctx(), 1), lanes);
        self.b.value("vector.constant_mask", &[], ty, &[("mask_dim_sizes", Attr::i64s(self.ctx(), &[valid]))])
    }
    pub(super) fn broadcast(&self, value: Value, lanes: i64) -> Value {
        self.b.value("vector.broadcast", &[value], self.vector_type(value.ty(), lanes), &[])
    }
    /// `a · b + c`, rounded once.
    pub(super) fn fma(&self, a: Value, b: Value, c: Value) -> Value {
        self.b.value("vector.fma", &[a, b, c], c.ty(), &[])
    }
    /// The larger of each two elements; NaN is larger than all.
    pub(super) fn largest(&self, a: Value, b: Value) -> Value {
        self.b.value("arith.maximumf", &[a, b], a.ty(), &[])
    }
    /// All elements combined (`add`, in any order, or `maximumf`).
    pub(super) fn reduced(&self, kind: &str, value: Value) -> Value {
        let parse = |text: &str| Attr::parse(self.ctx(), text).unwrap_or_else(|| Attr::unit(self.ctx()));
        let attrs = [("kind", parse(&format!("#vector.kind<{kind}>"))), ("fastmath", parse("#arith.fastmath<reassoc>"))];
        let attrs = if kind == "add" { &attrs[..] } else { &attrs[..1] };
        self.b.value("vector.reduction", &[value], value.ty().element(), attrs)
    }
    /// Multiples of a distance, one for each lane; those from `valid` on are the last one of the others.
    pub(super) fn steps(&self, distance: i64, lanes: i64, valid: i64) -> Value {
        let ty = self.vector_type(Type::int(self.ctx(), 32), lanes);
        let list: Vec<_> = (0..lanes).map(|lane| (lane.min(valid - 1) * distance).to_string()).collect();
        let value = Attr::parse(self.ctx(), &format!("dense<[{}]> : {ty}", list.join(", "))).unwrap_or_else(|| Attr::unit(self.ctx()));
        self.b.value("arith.constant", &[], ty, &[("value", value)])
    }
    /// Which lanes are below a number known at run time.
    pub(super) fn first_lanes(&self, count: Value, lanes: i64) -> Value {
        self.b.value("vector.create_mask", &[count], self.vector_type(Type::int(self.ctx(), 1), lanes), &[])
    }
    pub(super) fn shuffle(&self, a: Value, b: Value, lanes: &[i64]) -> Value {
        let ty = self.vector_type(a.ty().element(), lanes.len() as i64);
        self.b.value("vector.shuffle", &[a, b], ty, &[("mask", Attr::i64s(self.ctx(), lanes))])
    }
}

/// A parallel loop over so many numbers; a builder for its body, and the number.
pub(crate) fn forall(b: Builder, count: i64) -> (Builder, Value) {
    let ctx = b.ctx();
    let list = |value: i64| Attr::i64s(ctx, &[value]);
    let segments = Attr::parse(ctx, "array<i32: 0, 0, 0, 0>").unwrap_or_else(|| Attr::unit(ctx));
    let attrs =
        [("staticLowerBound", list(0)), ("staticUpperBound", list(count)), ("staticStep", list(1)), ("operandSegmentSizes", segments)];
    let (_, body) = b.op_with_body("scf.forall", &[], &[], &attrs, &[Type::index(ctx)]);
    let (end, _) = Builder::at_end(body, b.loc).op_with_body("scf.forall.in_parallel", &[], &[], &[], &[]);
    (Builder::before(end), body.args()[0])
}

/// The operation that fills memory; only used through `linalg`, which makes a loop of it.
pub(super) fn fill(code: &Code, memory: Value) -> Op {
    let element = memory.ty().element();
    let zero = code.number(element, 0.0);
    let attrs = [("operandSegmentSizes", code.segments(&[1, 1]))];
    let (op, body) = code.b.op_with_body("linalg.fill", &[zero, memory], &[], &attrs, &[element, element]);
    Builder::at_end(body, code.b.loc).op("linalg.yield", &[body.args()[0]], &[], &[]);
    op
}
