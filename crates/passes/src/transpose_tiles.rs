//! `dynamo-transpose-tiles`: processes memory that lies across the loops tile by tile.
//!
//! The innermost loop of a pointwise phase may take a large step in an operand whose neighbours are along another loop: a transposed
//! matrix, images whose channels come first or last. Then each element is in a different cache line, and if the step is a power of two all
//! these lines contend for a few sets of the cache: they are fetched once for each element. So both loops are cut into tiles, and a tile of
//! the operand is copied to a buffer in loop order, by vectors that are transposed in registers: each line is fetched once. A phase that
//! only copies needs no buffer. If all outputs lie across, both loops are interchanged first. Neighbours may have gaps of some elements
//! between them (`x[:, ::2].t()`), which are skipped as lines are loaded.
//!
//! ```mlir
//! linalg.generic {…} ins(%x : memref<64x64xf32, strided<[1, 64]>>) outs(%y : memref<64x64xf32>) { f }              // before
//!
//! %buffer = memref.alloca() : memref<32x64xf32>                                                                    // after
//! scf.for %i = %c0 to %c64 step %c32 {
//!   scf.for %j = %c0 to %c64 step %c64 {
//!     … vector.load %x…, vector.shuffle …, vector.store …, %buffer[…] …
//!     linalg.generic {…} ins(%of_buffer : …) outs(%of_y : memref<32x64xf32, strided<[64, 1], offset: ?>>) { f }
//!   }
//! }
//! ```
//!
//! If a phase uses an index, the start of the tile is added to it.

use std::collections::BTreeMap;

use dynamlir_dialect::{
    ir::{AffineMap, Attr, Block, Builder, DYNAMIC, Op, Target, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{
        arith::CmpI,
        linalg::{self, index_dim, indexing_maps, reductions},
    },
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-transpose-tiles",
    description: "Copy tiles of operands that loops would read across their rows into transposed buffers",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[TURNED],
    run,
};

const TURNED: Statistic = Statistic { name: "turned", description: "operands copied tile by tile" };

/// Iterations in a tile of the loop along the operand's neighbours, and of the innermost loop: a few cache lines of each.
const TILE: [i64; 2] = [32, 64];
/// The maximum number of vectors that are transposed together: half of the registers.
const MOST_LANES: i64 = 16;
/// The minimum number of iterations of either loop for tiling.
const FEWEST: i64 = 8;
/// The maximum step between neighbours: at least one in this many elements of a cache line must be used.
const GAP: i64 = 4;

fn run(module: Op, pass: &Run) -> PassResult {
    let bits = Target::of(module).vector_bits;
    let mut found = Vec::new();
    module.walk(&mut |op| found.extend(op.is(linalg::GENERIC).then_some(op)));
    if bits > 0 {
        for generic in found {
            interchange(generic);
            let Some(crossing) = Crossing::of(generic) else { continue };
            pass.count(&TURNED, crossing.operands.len());
            crossing.turn(bits);
        }
    }
    Ok(())
}

/// A phase with operands that lie across its innermost loop.
struct Crossing {
    generic: Op,
    /// The loop that each dimension of each operand follows.
    accesses: Vec<Vec<usize>>,
    /// The loop along which the operands are contiguous.
    along: usize,
    /// The numbers of these operands.
    operands: Vec<usize>,
}

/// A number that is static, or a value.
#[derive(Clone, Copy)]
enum Extent {
    Number(i64),
    Value(Value),
}

impl Extent {
    fn value(self, b: Builder) -> Value {
        match self {
            Self::Number(number) => b.index(number),
            Self::Value(value) => value,
        }
    }
    /// The form used in a type.
    fn said(self) -> i64 {
        match self {
            Self::Number(number) => number,
            Self::Value(_) => DYNAMIC,
        }
    }
    /// The extents that are values.
    fn values(extents: &[Self]) -> Vec<Value> {
        extents.iter().filter_map(|extent| if let Self::Value(value) = extent { Some(*value) } else { None }).collect()
    }
}

/// The loop along which an operand is contiguous, if that is not the innermost loop and the operand has a large step along the innermost
/// one. An operand that does not move along the innermost loop does not count: it is read only once per run of that loop.
pub(crate) fn crossed(access: &[usize], shape: &[i64], strides: &[i64], innermost: usize) -> Option<usize> {
    let is_long = |place: usize| shape[place] == DYNAMIC || shape[place] >= FEWEST;
    let inner = access.iter().position(|&dim| dim == innermost).filter(|&place| !matches!(strides[place], 0 | 1) && is_long(place))?;
    let step = strides.iter().copied().filter(|stride| (1..=GAP).contains(stride)).min()?;
    let along = strides.iter().position(|&stride| stride == step).filter(|&place| place != inner && is_long(place))?;
    Some(access[along])
}

/// For a phase that can be cut into tiles, the loops that the dimensions of each operand follow.
fn accesses(generic: Op) -> Option<Vec<Vec<usize>>> {
    let iterators = reductions(generic);
    if iterators.is_empty() || generic.num_results() > 0 || iterators.contains(&true) {
        return None;
    }
    indexing_maps(generic)?.into_iter().map(AffineMap::result_dims).collect()
}

/// Interchanges the innermost loop and the loop along which all outputs are contiguous.
fn interchange(generic: Op) {
    let Some(accesses) = accesses(generic) else { return };
    let innermost = reductions(generic).len() - 1;
    let written = generic.num_operands() - linalg::outputs(generic)..generic.num_operands();
    let crossed_by = |i: usize| {
        let ty = generic.operand(i).ty();
        ty.is_memref().then(|| crossed(&accesses[i], &ty.shape(), &ty.strides(), innermost))?
    };
    let Some(along) = written.clone().next().and_then(crossed_by).filter(|&along| written.clone().all(|i| crossed_by(i) == Some(along)))
    else {
        return;
    };
    let swapped = |dim: usize| match dim {
        dim if dim == along => innermost,
        dim if dim == innermost => along,
        dim => dim,
    };
    for (op, dim) in positions(generic) {
        op.result(0).replace_all_uses_with(Builder::before(op).linalg_index(swapped(dim)));
        op.erase();
    }
    let ctx = generic.ctx();
    let maps = accesses.iter().map(|access| AffineMap::of_dims(ctx, innermost + 1, access.iter().copied().map(swapped)).as_attr());
    generic.set_attr("indexing_maps", Attr::array(ctx, &maps.collect::<Vec<_>>()));
}

/// The operations of a phase that query an index, with the loop.
fn positions(generic: Op) -> Vec<(Op, usize)> {
    let ops = generic.body().map(Block::ops).unwrap_or_default();
    ops.into_iter().filter_map(|op| Some((op, index_dim(op)? as usize))).collect()
}

impl Crossing {
    fn of(generic: Op) -> Option<Self> {
        let accesses = accesses(generic)?;
        let innermost = reductions(generic).len() - 1;
        let crossed_by = |i: usize| {
            let ty = generic.operand(i).ty();
            let is_read = generic.body()?.args()[i].has_uses();
            let fits = is_read && ty.is_memref() && matches!(ty.element().width(), 8 | 16 | 32 | 64);
            fits.then(|| crossed(&accesses[i], &ty.shape(), &ty.strides(), innermost))?
        };
        let inputs = 0..generic.num_operands() - linalg::outputs(generic);
        let along = inputs.clone().find_map(crossed_by)?;
        let operands = inputs.filter(|&i| crossed_by(i) == Some(along)).collect();
        // Tiling does not help if outputs lie across the loops.
        let is_straight = |i: usize| crossed_by(i) != Some(along);
        let written = generic.num_operands() - linalg::outputs(generic)..generic.num_operands();
        written.clone().all(is_straight).then_some(Self { generic, accesses, along, operands })
    }

    fn innermost(&self) -> usize {
        reductions(self.generic).len() - 1
    }

    /// The trip count of a loop, read from an operand that follows it.
    fn extent(&self, b: Builder, dim: usize) -> Extent {
        let places = self.accesses.iter().enumerate().flat_map(|(i, access)| access.iter().enumerate().map(move |(d, &of)| (i, d, of)));
        let places: Vec<_> = places.filter(|&(_, _, of)| of == dim).collect();
        let size = |&(i, place, _): &(usize, usize, usize)| self.generic.operand(i).ty().shape()[place];
        if let Some(number) = places.iter().map(size).find(|&size| size != DYNAMIC) {
            return Extent::Number(number);
        }
        let (i, place, _) = places[0];
        let operand = self.generic.operand(i);
        Extent::Value(b.memref_extract_strided_metadata(operand).result(2 + place))
    }

    /// Rewrites the phase.
    fn turn(&self, bits: i64) {
        let (generic, innermost) = (self.generic, self.innermost());
        let outside = Builder::before(generic);
        let extents: Vec<_> = (0..=innermost).map(|dim| self.extent(outside, dim)).collect();
        let copied = self.copied();
        let buffers: BTreeMap<usize, Value> =
            self.operands.iter().filter(|_| copied.is_none()).map(|&i| (i, self.buffer(outside, i))).collect();

        let mut b = outside;
        let (zero, one) = (outside.index(0), outside.index(1));
        let mut at = vec![zero; extents.len()];
        let mut sizes = vec![Extent::Number(1); extents.len()];
        let order = (0..innermost).filter(|&dim| dim != self.along).chain([self.along, innermost]);
        let ends: Vec<_> = extents.iter().map(|extent| extent.value(outside)).collect();
        let steps = TILE.map(|tile| outside.index(tile));
        for dim in order {
            let tile = if dim == self.along { Some(0) } else { (dim == innermost).then_some(1) };
            let (_, body) = b.scf_for([zero, ends[dim], tile.map_or(one, |tile| steps[tile])], &[]);
            b = enter(body, b);
            at[dim] = body.args()[0];
            if let Some(tile) = tile {
                sizes[dim] = match extents[dim] {
                    Extent::Number(all) if all % TILE[tile] == 0 => Extent::Number(TILE[tile]),
                    Extent::Number(all) if all < TILE[tile] => Extent::Number(all),
                    _ => Extent::Value(b.minsi(steps[tile], b.subi(ends[dim], at[dim]))),
                };
            }
        }
        let windows: Vec<_> = (0..generic.num_operands()).map(|i| self.window(b, i, &at, &sizes)).collect();
        let network = Network { along: sizes[self.along], inner: sizes[innermost], bits };
        if let Some(from) = copied {
            let from = self.plane(b, from, windows[from], &sizes, [innermost, self.along]);
            let to = self.plane(b, windows.len() - 1, windows[windows.len() - 1], &sizes, [self.along, innermost]);
            network.turn(b, from, to.memory);
        } else {
            let mut operands = windows.clone();
            for (&i, &buffer) in &buffers {
                network.turn(b, self.plane(b, i, windows[i], &sizes, [innermost, self.along]), buffer);
                operands[i] = self.of_buffer(b, i, buffer, &sizes);
            }
            let tiled = generic.clone_detached();
            b.insert(tiled);
            operands.into_iter().enumerate().for_each(|(i, operand)| tiled.set_operand(i, operand));
            for (op, dim) in positions(tiled) {
                let inside = Builder::before(op);
                op.result(0).replace_all_uses_with(inside.addi(inside.linalg_index(dim), at[dim]));
                op.erase();
            }
        }
        generic.erase();
    }

    /// If the phase only copies an operand to memory that is contiguous along the innermost loop, returns that operand.
    fn copied(&self) -> Option<usize> {
        let (generic, body) = (self.generic, self.generic.body()?);
        let [only] = body.ops()[..] else { return None };
        let from = only.operand(0).arg_index().filter(|from| self.operands == [*from] && only.num_operands() == 1)?;
        let to = generic.num_operands() - 1;
        let ty = generic.operand(to).ty();
        let inner = self.accesses[to].iter().position(|&dim| dim == self.innermost())?;
        let has_rows = self.accesses[to].contains(&self.along) && ty.strides()[inner] == 1;
        (has_rows && generic.operand(from).ty().element() == ty.element()).then_some(from)
    }

    /// Memory for a tile of an operand, contiguous along the innermost loop.
    fn buffer(&self, b: Builder, i: usize) -> Value {
        let ty = Type::memref(&TILE, self.generic.operand(i).ty().element(), &[TILE[1], 1], 0);
        b.memref_alloca(ty, 64)
    }

    /// The tile of a buffer, as an operand of the phase.
    fn of_buffer(&self, b: Builder, i: usize, buffer: Value, sizes: &[Extent]) -> Value {
        let extents: Vec<_> = self.accesses[i].iter().map(|&dim| sizes[dim]).collect();
        let stride = |&dim: &usize| match dim {
            dim if dim == self.innermost() => 1,
            dim if dim == self.along => TILE[1],
            _ => TILE[0] * TILE[1],
        };
        let strides: Vec<_> = self.accesses[i].iter().map(stride).collect();
        let shape: Vec<_> = extents.iter().map(|size| size.said()).collect();
        let ty = Type::memref(&shape, buffer.ty().element(), &strides, 0);
        b.memref_reinterpret_cast_to(buffer, &Extent::values(&extents), &[], ty)
    }

    /// The tile of an operand.
    fn window(&self, b: Builder, i: usize, at: &[Value], sizes: &[Extent]) -> Value {
        let (operand, access) = (self.generic.operand(i), &self.accesses[i]);
        if !operand.ty().is_memref() || access.is_empty() {
            return operand;
        }
        let offsets: Vec<_> = access.iter().map(|&dim| at[dim]).collect();
        let extents: Vec<_> = access.iter().map(|&dim| sizes[dim]).collect();
        let shape: Vec<_> = extents.iter().map(|size| size.said()).collect();
        let ty = Type::memref(&shape, operand.ty().element(), &operand.ty().strides(), DYNAMIC);
        b.memref_window(operand, &offsets, &Extent::values(&extents), ty)
    }

    /// A tile of an operand as rows of adjacent elements. `rows` is the loop from row to row, `columns` the loop along them.
    fn plane(&self, b: Builder, i: usize, window: Value, sizes: &[Extent], [rows, columns]: [usize; 2]) -> Plane {
        let place = |dim: usize| self.accesses[i].iter().position(|&of| of == dim).expect("an operand of both loops");
        let metadata = b.memref_extract_strided_metadata(window);
        let (rank, strides) = (window.ty().rank(), window.ty().strides());
        let stride = match strides[place(rows)] {
            DYNAMIC => Extent::Value(metadata.result(2 + rank + place(rows))),
            number => Extent::Number(number),
        };
        let step = strides[place(columns)];
        let length = match sizes[columns] {
            Extent::Number(number) => Extent::Number(number * step),
            Extent::Value(value) if step == 1 => Extent::Value(value),
            Extent::Value(value) => Extent::Value(b.muli(value, b.index(step))),
        };
        let extents = [sizes[rows], length];
        let ty = Type::memref(&extents.map(Extent::said), window.ty().element(), &[stride.said(), 1], DYNAMIC);
        let offset = metadata.result(1);
        let memory = b.memref_reinterpret_cast_at(metadata.result(0), offset, &Extent::values(&extents), &Extent::values(&[stride]), ty);
        Plane { memory, step }
    }
}

/// Rows of memory in which only every `step`th element is used.
#[derive(Clone, Copy)]
struct Plane {
    memory: Value,
    step: i64,
}

impl Plane {
    /// The index of an element along a row.
    fn place(self, b: Builder, column: Value) -> Value {
        if self.step == 1 { column } else { b.muli(column, b.index(self.step)) }
    }

    /// Loads elements of a row, starting at one. For neighbours with gaps, contiguous vectors are loaded and every `step`th element is
    /// kept. The last vector ends at the last element, since there may be no memory behind it.
    fn load(self, b: Builder, ty: Type, row: Value, column: Value) -> Value {
        let lanes = ty.shape()[0];
        let first = self.place(b, column);
        let load = |from: i64| b.vector_load_unaligned(ty, self.memory, &[row, further(b, first, from)]);
        let mut elements = load(0);
        for part in 1..self.step {
            let from = (part * lanes).min(self.step * (lanes - 1) + 1 - lanes);
            // Elements kept from previous vectors come first.
            let kept = (part * lanes + self.step - 1) / self.step;
            let lane = |i: i64| match i {
                i if i >= kept => lanes + (i * self.step - from).clamp(0, lanes - 1),
                i if part > 1 => i,
                i => i * self.step,
            };
            elements = b.vector_shuffle(elements, load(from), &(0..lanes).map(lane).collect::<Vec<_>>());
        }
        elements
    }
}

/// A builder for a body, to which it adds the terminator.
fn enter(body: Block, at: Builder) -> Builder {
    Builder::before(Builder::at_end(body, at.loc).scf_yield(&[]))
}

/// The index `by` elements after `at`.
fn further(b: Builder, at: Value, by: i64) -> Value {
    if by == 0 { at } else { b.addi(at, b.index(by)) }
}

/// Copies a tile and transposes it on the way.
struct Network {
    along: Extent,
    inner: Extent,
    bits: i64,
}

impl Network {
    /// Copies from rows along one loop to rows along the other.
    fn turn(&self, b: Builder, from: Plane, to: Value) {
        let element = to.ty().element();
        let lanes = (self.bits / i64::from(element.width())).clamp(4, MOST_LANES);
        let step = b.index(lanes);
        let (zero, one) = (b.index(0), b.index(1));
        let (rows, columns) = (self.inner.value(b), self.along.value(b));
        let (_, body) = b.scf_for([zero, rows, step], &[]);
        let (outer, row) = (enter(body, b), body.args()[0]);
        let (_, body) = outer.scf_for([zero, columns, step], &[]);
        let (inside, column) = (enter(body, b), body.args()[0]);
        let is_whole = |extent: Extent| matches!(extent, Extent::Number(number) if number % lanes == 0);
        if is_whole(self.along) && is_whole(self.inner) {
            return turn_square(inside, from, to, [row, column], lanes);
        }
        let fits = |b: Builder, at: Value, end: Value| b.cmpi(CmpI::Sle, b.addi(at, step), end);
        let both = inside.andi(fits(inside, row, rows), fits(inside, column, columns));
        let [yes, no] = inside.scf_if_else(both);
        turn_square(enter(yes, b), from, to, [row, column], lanes);
        // The remainders at the ends, element by element.
        let rest = enter(no, b);
        let end = |at: Value, end: Value| rest.minsi(rest.addi(at, step), end);
        let (last_row, last_column) = (end(row, rows), end(column, columns));
        let (_, body) = rest.scf_for([row, last_row, one], &[]);
        let (down, i) = (enter(body, b), body.args()[0]);
        let (_, body) = down.scf_for([column, last_column, one], &[]);
        let (across, j) = (enter(body, b), body.args()[0]);
        across.memref_store(across.memref_load(from.memory, &[i, from.place(across, j)]), to, &[j, i]);
    }
}

/// Transposes a square in registers: each step interleaves the first half of the vectors with the second half.
fn turn_square(b: Builder, from: Plane, to: Value, [row, column]: [Value; 2], lanes: i64) {
    let ty = Type::vector(&[lanes], to.ty().element());
    let count = lanes as usize;
    let mut vectors: Vec<_> = (0..count).map(|i| from.load(b, ty, further(b, row, i as i64), column)).collect();
    let between = |first: i64| (0..lanes).map(|lane| first + lane / 2 + (lane % 2) * lanes).collect::<Vec<_>>();
    let halves = [between(0), between(lanes / 2)];
    for _ in 0..lanes.ilog2() {
        let (first, second) = vectors.split_at(count / 2);
        vectors = first.iter().zip(second).flat_map(|(&x, &y)| halves.iter().map(move |half| b.vector_shuffle(x, y, half))).collect();
    }
    for (i, vector) in vectors.into_iter().enumerate() {
        b.vector_store_unaligned(vector, to, &[further(b, column, i as i64), row]);
    }
}
