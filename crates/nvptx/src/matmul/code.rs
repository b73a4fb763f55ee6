//! The code of one thread of a matrix product.
//!
//! The block advances along the summed dimension in steps. In each step its threads load a piece of either operand into shared memory, both
//! with the summed dimension innermost, which is the layout that the tensor cores take, and wait. Then every warp multiplies its quarter,
//! 32 by 32, as two by four fragments of 16 by 8. Rows of shared memory are padded by 16 bytes, so that the lanes of a warp find their
//! fragments in different banks.
//!
//! PTX defines which lane holds which element of a fragment. With `group = lane / 4` and `quad = lane % 4`:
//!
//! | fragment | register | elements of 16 bits (`mma.m16n8k16`) | elements of 32 bits (`mma.m16n8k8`) |
//! |---|---|---|---|
//! | left | 0 to 3 | row `group + 8 * (i % 2)`, depth `2 * quad + 8 * (i / 2)` and the next | depth `quad + 4 * (i / 2)` |
//! | right | 0, 1 | depth `2 * quad + 8 * i` and the next, column `group` | depth `quad + 4 * i` |
//! | result | 0 to 3 | row `group + 8 * (i / 2)`, column `2 * quad + i % 2` | the same |

use dynamlir_dialect::{
    ir::{Builder, Op, Type, Value},
    upstream::gpu,
};

use super::{Matrix, Product, STEP, THREADS, TILE};
use crate::{
    emit::{gpu_func, ops::Ops},
    launch::Launch,
    schedule::pieces,
};

/// Fragments of a warp: rows of 16, columns of 8.
const ROWS: i64 = 2;
const COLUMNS: i64 = 4;

/// The way an operand is loaded into shared memory.
pub(super) struct Staging {
    matrix: Matrix,
    /// The dimension that is summed over; the other one is the operand's own.
    summed: usize,
    /// The size of its own dimension.
    own: i64,
    /// The dimension whose neighbours are moved together, or read by neighbouring threads.
    along: usize,
    /// The number of elements moved together.
    pub(super) vector: i64,
}

/// The staging of the left operand.
pub(super) fn left(product: &Product) -> Staging {
    staging(product, product.left, 1, product.sizes[0])
}

/// The staging of the right operand.
pub(super) fn right(product: &Product) -> Staging {
    staging(product, product.right, 0, product.sizes[1])
}

fn staging(product: &Product, matrix: Matrix, summed: usize, own: i64) -> Staging {
    let along = if matrix.strides[summed] == 1 { summed } else { 1 - summed };
    let vector = matrix.vector(along, if along == summed { product.sizes[2] } else { own }, product.most());
    Staging { matrix, summed, own, along, vector }
}

/// The number of results, of the two adjacent ones in a lane, that are stored at once.
pub(super) fn pair(product: &Product) -> i64 {
    product.result.vector(1, product.sizes[1], 2)
}

/// The values that a thread uses.
struct Thread<'a> {
    product: &'a Product,
    arguments: &'a [Value],
    /// The operands, each viewed with the dimension last along which elements are moved together.
    operands: [Value; 2],
    /// Shared memory of each operand.
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
    let buffer = gpu::shared_memory(&[TILE, STEP + product.most()], product.element);
    let (_, builder) = gpu_func(device, function, &[buffer, buffer], launch);
    let ops = Ops::new(builder);
    let args = builder.block().args();
    let (arguments, shared) = args.split_at(launch.arguments.len());

    let number = ops.gpu_id(gpu::THREAD_ID, "x");
    let [rows, columns, depth] = product.sizes;
    let tile = ops.unravel(ops.gpu_id(gpu::BLOCK_ID, "x"), &[pieces(rows, TILE), pieces(columns, TILE)]);
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
    let zero = ops.float(Type::f32(ops.ctx()), 0.0);
    let start = vec![zero; (ROWS * COLUMNS * 4) as usize];
    let sums = ops.repeat(pieces(depth, STEP), &start, |ops, step, so_far| {
        let first = ops.scale(step, STEP);
        for (staging, place) in [(left(product), 0), (right(product), 1)] {
            thread.stage(ops, &staging, place, first);
        }
        ops.gpu_barrier();
        let sums = (0..STEP / thread.depth()).fold(so_far.to_vec(), |sums, part| thread.multiply(ops, part * thread.depth(), &sums));
        // Waits, so that no thread overwrites data that another still multiplies.
        ops.gpu_barrier();
        sums
    });
    thread.store(&ops, &sums);
    builder.gpu_return();
}

impl Thread<'_> {
    /// Moves the block's next piece of an operand into shared memory; elements past an edge are zero there.
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
            let own_index = ops.addi(self.tile[place], own_inside);
            let summed_index = ops.addi(first, summed_inside);
            let (own_index, own_there) = edge(ops, own_index, own, TILE, if along_summed { 1 } else { vector });
            let (summed_index, summed_there) = edge(ops, summed_index, depth, STEP, if along_summed { vector } else { 1 });
            let indices = if along_summed { [own_index, summed_index] } else { [summed_index, own_index] };
            let loaded = self.load(ops, self.operands[place], &indices, vector, ops.both(own_there, summed_there));
            let shared = self.shared[place];
            if vector == 1 {
                ops.memref_store(loaded, shared, &[own_inside, summed_inside]);
            } else if along_summed {
                ops.vector_store(loaded, shared, &[own_inside, summed_inside]);
            } else {
                for lane in 0..vector {
                    let element = ops.vector_extract(loaded, lane);
                    ops.memref_store(element, shared, &[ops.offset(own_inside, lane), summed_inside]);
                }
            }
        }
    }

    fn load(&self, ops: &Ops, memory: Value, at: &[Value], vector: i64, there: Option<Value>) -> Value {
        let ty = if vector == 1 { self.product.element } else { Type::vector(&[vector], self.product.element) };
        let loaded = if vector == 1 { ops.memref_load(memory, at) } else { ops.vector_load(ty, memory, at) };
        there.map_or(loaded, |there| ops.select(there, loaded, ops.float(ty, 0.0)))
    }

    /// Depth of one `mma`.
    fn depth(&self) -> i64 {
        if self.product.is_tf32() { 8 } else { 16 }
    }

    /// A register of an operand's fragment: the elements at `own` and `depth` relative to the thread's position.
    fn register(&self, ops: &Ops, place: usize, own: i64, depth: i64) -> Value {
        let own = ops.addi(ops.offset(self.quarter[place], own), self.group);
        let (memory, element) = (self.shared[place], self.product.element);
        if self.product.is_tf32() {
            return ops.nvvm_to_tf32(ops.memref_load(memory, &[own, ops.offset(self.quad, depth)]));
        }
        let at = [own, ops.offset(ops.scale(self.quad, 2), depth)];
        let both = ops.vector_load(Type::vector(&[2], element), memory, &at);
        if element.is_f16() {
            return both;
        }
        // Elements of other types are passed as words.
        ops.vector_extract(ops.vector_bitcast(both, Type::vector(&[1], ops.int_type(32))), 0)
    }

    /// Adds the products of the piece's depths, from `depth` on, to the sums.
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
        let element = match self.product.element {
            element if element.is_f16() => "f16",
            element if element.is_bf16() => "bf16",
            _ => "tf32",
        };
        let all = ops.nvvm_mma_sync(element, self.depth(), left, right, sums);
        (0..4).map(|at| ops.llvm_extractvalue(all, at, Type::f32(ops.ctx()))).collect()
    }

    /// Writes the thread's results, as far as they are inside the matrix.
    fn store(&self, ops: &Ops, sums: &[Value]) {
        let [rows, columns, _] = self.product.sizes;
        let together = pair(self.product);
        for (at, sums) in sums.chunks_exact(4).enumerate() {
            let (row, column) = (at as i64 / COLUMNS, at as i64 % COLUMNS);
            for (half, sums) in sums.chunks_exact(2).enumerate() {
                let row = ops.addi(ops.offset(ops.addi(self.tile[0], self.quarter[0]), 16 * row + 8 * half as i64), self.group);
                let column = ops.addi(ops.offset(ops.addi(self.tile[1], self.quarter[1]), 8 * column), ops.scale(self.quad, 2));
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
        let rounded: Vec<_> = sums.iter().map(|&sum| if element == sum.ty() { sum } else { ops.truncf(sum, element) }).collect();
        if let [one] = rounded[..] {
            ops.memref_store(one, memory, &[row, column]);
        } else {
            ops.vector_store(ops.vector_from_elements(&rounded), memory, &[row, column]);
        }
    }
}

/// An operand with the dimension last along which its elements are moved: vector loads exist only along that dimension.
fn view(ops: &Ops, arguments: &[Value], staging: &Staging) -> Value {
    let memory = arguments[staging.matrix.argument];
    if staging.along == 1 {
        return memory;
    }
    let (shape, strides) = (memory.ty().shape(), staging.matrix.strides);
    let (shape, strides) = ([shape[1], shape[0]], [strides[1], strides[0]]);
    ops.memref_reinterpret_cast(memory, Type::memref(&shape, memory.ty().element(), &strides, 0))
}

/// Clamps an index that may be past the end to the last valid one, with a condition that it is valid; `None` if `tile` divides the size, so
/// that it always is.
fn edge(ops: &Ops, index: Value, size: i64, tile: i64, vector: i64) -> (Value, Option<Value>) {
    if size % tile == 0 {
        return (index, None);
    }
    (ops.at_most(index, size - vector), Some(ops.below(index, size)))
}
