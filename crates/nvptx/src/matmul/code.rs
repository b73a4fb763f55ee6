//! The code of one thread of a product.
//!
//! The block goes along the summed dimension in steps. In each, its threads put a piece of either operand into shared memory –
//! both with the summed dimension innermost, which is how the tensor cores take them – and wait; then every warp multiplies its
//! quarter, 32 by 32, as two by four fragments of 16 by 8. Rows of shared memory are padded by 16 bytes, so that the lanes of a
//! warp find their fragments in different banks.
//!
//! Which lane holds which element of a fragment is defined by PTX. With `group = lane / 4` and `quad = lane % 4`:
//!
//! | fragment | register | elements of 16 bits (`mma.m16n8k16`) | elements of 32 bits (`mma.m16n8k8`) |
//! |---|---|---|---|
//! | left | 0 to 3 | row `group + 8 * (i % 2)`, depth `2 * quad + 8 * (i / 2)` and the next | depth `quad + 4 * (i / 2)` |
//! | right | 0, 1 | depth `2 * quad + 8 * i` and the next, column `group` | depth `quad + 4 * i` |
//! | result | 0 to 3 | row `group + 8 * (i / 2)`, column `2 * quad + i % 2` | the same |

use dynamlir_dialect::ir::{Attr, Builder, Op, Type, Value};

use super::{Matrix, Product, STEP, THREADS, TILE};
use crate::{
    emit::{gpu_func, ops::Ops},
    launch::Launch,
    schedule::pieces,
};

/// Fragments of a warp: rows of 16, columns of 8.
const ROWS: i64 = 2;
const COLUMNS: i64 = 4;

/// How an operand gets into shared memory.
pub(super) struct Staging {
    matrix: Matrix,
    /// Which of its dimensions is summed over; the other one is the operand's own.
    summed: usize,
    /// The size of its own dimension.
    own: i64,
    /// The dimension whose neighbours are moved together, or read by neighbouring threads.
    along: usize,
    /// How many are moved together.
    pub(super) vector: i64,
}

/// How the left operand is staged.
pub(super) fn left(product: &Product) -> Staging {
    staging(product, product.left, 1, product.sizes[0])
}

/// How the right operand is staged.
pub(super) fn right(product: &Product) -> Staging {
    staging(product, product.right, 0, product.sizes[1])
}

fn staging(product: &Product, matrix: Matrix, summed: usize, own: i64) -> Staging {
    let along = if matrix.strides[summed] == 1 { summed } else { 1 - summed };
    let vector = matrix.vector(along, if along == summed { product.sizes[2] } else { own }, product.most());
    Staging { matrix, summed, own, along, vector }
}

/// How many results, of two that a lane has side by side, are stored at once.
pub(super) fn pair(product: &Product) -> i64 {
    product.result.vector(1, product.sizes[1], 2)
}

/// What a thread knows of itself.
struct Thread<'a> {
    product: &'a Product,
    arguments: &'a [Value],
    /// Either operand, seen so that neighbours of its last dimension are what is moved together.
    operands: [Value; 2],
    /// Shared memory of either operand.
    shared: [Value; 2],
    /// Its number in the block.
    number: Value,
    /// First row and column of the block's tile.
    tile: [Value; 2],
    /// First row and column of its warp's quarter in the tile.
    quarter: [Value; 2],
    /// `lane / 4` and `lane % 4`.
    group: Value,
    quad: Value,
}

pub(super) fn write(product: &Product, function: Op, device: &Builder, launch: &Launch) {
    let buffer = format!("memref<{TILE}x{}x{}, #gpu.address_space<workgroup>>", STEP + product.most(), product.element);
    let buffer = Type::parse(function.ctx(), &buffer).expect("the gpu dialect is registered");
    let (_, builder) = gpu_func(device, function, &[buffer, buffer], launch);
    let ops = Ops::new(builder);
    let args = builder.block().args();
    let (arguments, shared) = args.split_at(launch.arguments.len());

    let number = ops.id("gpu.thread_id", "x");
    let [rows, columns, depth] = product.sizes;
    let tile = ops.unravel(ops.id("gpu.block_id", "x"), &[pieces(rows, TILE), pieces(columns, TILE)]);
    let inside = ops.unravel(number, &[2, 2, 8, 4]);
    let thread = Thread {
        product,
        arguments,
        operands: [view(&ops, arguments, &left(product)), view(&ops, arguments, &right(product))],
        shared: [shared[0], shared[1]],
        number,
        tile: [ops.scale(tile[0], TILE), ops.scale(tile[1], TILE)],
        quarter: [ops.scale(inside[0], TILE / 2), ops.scale(inside[1], TILE / 2)],
        group: inside[2],
        quad: inside[3],
    };
    let zero = zero(&ops, Type::f32(ops.ctx()));
    let start = vec![zero; (ROWS * COLUMNS * 4) as usize];
    let sums = ops.repeat(pieces(depth, STEP), &start, |ops, step, so_far| {
        let first = ops.scale(step, STEP);
        for (staging, place) in [(left(product), 0), (right(product), 1)] {
            thread.stage(ops, &staging, place, first);
        }
        ops.barrier();
        let sums = (0..STEP / thread.depth()).fold(so_far.to_vec(), |sums, part| thread.multiply(ops, part * thread.depth(), &sums));
        // Nobody overwrites what somebody still multiplies.
        ops.barrier();
        sums
    });
    thread.store(&ops, &sums);
    builder.op("gpu.return", &[], &[], &[]);
}

impl Thread<'_> {
    /// Moves the block's next piece of an operand into shared memory; what is past an edge is zero there.
    fn stage(&self, ops: &Ops, staging: &Staging, place: usize, first: Value) {
        let Staging { summed, own, along, vector, .. } = *staging;
        let depth = self.product.sizes[2];
        let along_summed = along == summed;
        // Indices in the piece: the slow one, and the fast one in vectors.
        let sizes = if along_summed { [TILE, STEP / vector] } else { [STEP, TILE / vector] };
        for round in 0..TILE * STEP / vector / THREADS {
            let linear = ops.offset(self.number, round * THREADS);
            let indices = ops.unravel(linear, &sizes);
            let fast = ops.scale(indices[1], vector);
            let [own_inside, summed_inside] = if along_summed { [indices[0], fast] } else { [fast, indices[0]] };
            let own_index = ops.add(self.tile[place], own_inside);
            let summed_index = ops.add(first, summed_inside);
            let (own_index, own_there) = edge(ops, own_index, own, TILE, if along_summed { 1 } else { vector });
            let (summed_index, summed_there) = edge(ops, summed_index, depth, STEP, if along_summed { vector } else { 1 });
            let indices = if along_summed { [own_index, summed_index] } else { [summed_index, own_index] };
            let operands = [self.operands[place], indices[0], indices[1]];
            let loaded = self.load(ops, &operands, vector, ops.both(own_there, summed_there));
            let shared = self.shared[place];
            if vector == 1 {
                ops.op("memref.store", &[loaded, shared, own_inside, summed_inside], &[], &[]);
            } else if along_summed {
                ops.op("vector.store", &[loaded, shared, own_inside, summed_inside], &[], &[self.alignment(ops, vector)]);
            } else {
                for lane in 0..vector {
                    let element = extract(ops, loaded, lane, self.product.element);
                    ops.op("memref.store", &[element, shared, ops.offset(own_inside, lane), summed_inside], &[], &[]);
                }
            }
        }
    }

    fn load(&self, ops: &Ops, operands: &[Value], vector: i64, there: Option<Value>) -> Value {
        let element = self.product.element;
        let ty = if vector == 1 { element } else { vector_of(element, vector) };
        let loaded = if vector == 1 {
            ops.value("memref.load", operands, ty, &[])
        } else {
            ops.value("vector.load", operands, ty, &[self.alignment(ops, vector)])
        };
        there.map_or(loaded, |there| ops.select(there, loaded, zero(ops, ty)))
    }

    fn alignment(&self, ops: &Ops, vector: i64) -> (&'static str, Attr) {
        ("alignment", Attr::i64(ops.ctx(), vector * i64::from(self.product.element.width() / 8)))
    }

    /// Depth of one `mma`.
    fn depth(&self) -> i64 {
        if self.product.is_tf32() { 8 } else { 16 }
    }

    /// A register of an operand's fragment: what lies at `own` and `depth` from the thread's own place.
    fn register(&self, ops: &Ops, place: usize, own: i64, depth: i64) -> Value {
        let own = ops.add(ops.offset(self.quarter[place], own), self.group);
        let word = ops.int_type(32);
        let (memory, element) = (self.shared[place], self.product.element);
        if self.product.is_tf32() {
            let single = ops.value("memref.load", &[memory, own, ops.offset(self.quad, depth)], element, &[]);
            let nearest = Attr::parse(ops.ctx(), "#nvvm.fp_rnd_mode<rna>").expect("the nvvm dialect is registered");
            return ops.value("nvvm.convert.float.to.tf32", &[single], word, &[("rnd", nearest)]);
        }
        let operands = [memory, own, ops.offset(ops.scale(self.quad, 2), depth)];
        let both = ops.value("vector.load", &operands, vector_of(element, 2), &[self.alignment(ops, 2)]);
        if element.to_string() == "f16" {
            return both;
        }
        // Numbers of other types go as words.
        let words = ops.value("vector.bitcast", &[both], vector_of(word, 1), &[]);
        extract(ops, words, 0, word)
    }

    /// Adds the products of the piece's depths from `depth` on to the sums.
    fn multiply(&self, ops: &Ops, depth: i64, sums: &[Value]) -> Vec<Value> {
        let half = self.depth() / 2;
        let register = |place: usize, own: i64, summed: i64| self.register(ops, place, own, depth + summed);
        let left: Vec<Vec<_>> =
            (0..ROWS).map(|row| (0..4).map(|i| register(0, 16 * row + 8 * (i % 2), half * (i / 2))).collect()).collect();
        let right: Vec<Vec<_>> = (0..COLUMNS).map(|column| (0..2).map(|i| register(1, 8 * column, half * i)).collect()).collect();
        let mut after = Vec::new();
        for (at, sums) in sums.chunks_exact(4).enumerate() {
            let (row, column) = (at / COLUMNS as usize, at % COLUMNS as usize);
            after.extend(self.mma(ops, &left[row], &right[column], sums));
        }
        after
    }

    fn mma(&self, ops: &Ops, left: &[Value], right: &[Value], sums: &[Value]) -> Vec<Value> {
        let parse = |text: &str| Attr::parse(ops.ctx(), text).expect("the nvvm dialect is registered");
        let name = if self.product.is_tf32() { "tf32".into() } else { self.product.element.to_string() };
        let element = parse(&format!("#nvvm.mma_type<{name}>"));
        let attrs = [
            ("layoutA", parse("#nvvm.mma_layout<row>")),
            ("layoutB", parse("#nvvm.mma_layout<col>")),
            ("multiplicandAPtxType", element),
            ("multiplicandBPtxType", element),
            ("operandSegmentSizes", parse("array<i32: 4, 2, 4>")),
            ("shape", parse(&format!("#nvvm.shape<m = 16, n = 8, k = {}>", self.depth()))),
        ];
        let result = Type::parse(ops.ctx(), "!llvm.struct<(f32, f32, f32, f32)>").expect("the llvm dialect is registered");
        let operands: Vec<_> = left.iter().chain(right).chain(sums).copied().collect();
        let all = ops.value("nvvm.mma.sync", &operands, result, &attrs);
        let one = |at| ops.value("llvm.extractvalue", &[all], Type::f32(ops.ctx()), &[("position", Attr::i64s(ops.ctx(), &[at]))]);
        (0..4).map(one).collect()
    }

    /// Writes the thread's results, as far as they are inside the matrix.
    fn store(&self, ops: &Ops, sums: &[Value]) {
        let [rows, columns, _] = self.product.sizes;
        let together = pair(self.product);
        for (at, sums) in sums.chunks_exact(4).enumerate() {
            let (row, column) = (at as i64 / COLUMNS, at as i64 % COLUMNS);
            for (half, sums) in sums.chunks_exact(2).enumerate() {
                let row = ops.add(ops.offset(ops.add(self.tile[0], self.quarter[0]), 16 * row + 8 * half as i64), self.group);
                let column = ops.add(ops.offset(ops.add(self.tile[1], self.quarter[1]), 8 * column), ops.scale(self.quad, 2));
                let row_there = (rows % TILE != 0).then(|| ops.below(row, rows));
                for (lane, sums) in sums.chunks_exact(together as usize).enumerate() {
                    let column = ops.offset(column, lane as i64);
                    let there = ops.both(row_there, (columns % TILE != 0).then(|| ops.below(column, columns)));
                    ops.when(there, |ops| self.put(ops, row, column, sums));
                }
            }
        }
    }

    fn put(&self, ops: &Ops, row: Value, column: Value, sums: &[Value]) {
        let memory = self.arguments[self.product.result.argument];
        let element = memory.ty().element();
        let rounded: Vec<_> =
            sums.iter().map(|&sum| if element == sum.ty() { sum } else { ops.value("arith.truncf", &[sum], element, &[]) }).collect();
        if let [one] = rounded[..] {
            ops.op("memref.store", &[one, memory, row, column], &[], &[]);
            return;
        }
        let vector = ops.value("vector.from_elements", &rounded, vector_of(element, 2), &[]);
        let alignment = Attr::i64(ops.ctx(), 2 * i64::from(element.width() / 8));
        ops.op("vector.store", &[vector, memory, row, column], &[], &[("alignment", alignment)]);
    }
}

/// An operand with the dimension last that its elements are moved along: only along that one are there loads of vectors.
fn view(ops: &Ops, arguments: &[Value], staging: &Staging) -> Value {
    let memory = arguments[staging.matrix.argument];
    if staging.along == 1 {
        return memory;
    }
    let (shape, strides) = (memory.ty().shape(), staging.matrix.strides);
    let (shape, strides) = ([shape[1], shape[0]], [strides[1], strides[0]]);
    let ty = Type::memref(&shape, memory.ty().element(), &strides, 0);
    let numbers = |values: &[i64]| Attr::i64s(ops.ctx(), values);
    let attrs = [
        ("operandSegmentSizes", Attr::parse(ops.ctx(), "array<i32: 1, 0, 0, 0>").expect("well-formed")),
        ("static_offsets", numbers(&[0])),
        ("static_sizes", numbers(&shape)),
        ("static_strides", numbers(&strides)),
    ];
    ops.value("memref.reinterpret_cast", &[memory], ty, &attrs)
}

/// An index that may be past the end, and pieces of `tile` do not tell: the last valid one then, and whether it is valid.
fn edge(ops: &Ops, index: Value, size: i64, tile: i64, vector: i64) -> (Value, Option<Value>) {
    if size % tile == 0 {
        return (index, None);
    }
    (ops.at_most(index, size - vector), Some(ops.below(index, size)))
}

fn zero(ops: &Ops, ty: Type) -> Value {
    let number = Attr::float_of(ty.element(), 0.0);
    ops.value("arith.constant", &[], ty, &[("value", if ty.is_vector() { Attr::splat(ty, number) } else { number })])
}

fn vector_of(element: Type, count: i64) -> Type {
    Type::parse(element.ctx(), &format!("vector<{count}x{element}>")).expect("elements of matrices are elements of vectors")
}

fn extract(ops: &Ops, vector: Value, lane: i64, element: Type) -> Value {
    ops.value("vector.extract", &[vector], element, &[("static_position", Attr::i64s(ops.ctx(), &[lane]))])
}
