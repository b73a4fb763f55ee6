//! The loops around the tiles: over repetitions, groups of rows and chunks of panels, in that order. Each piece of work runs on one thread.
//!
//! ```text
//! for each panel:            copy it                                        (shared out among threads)
//! for each group, chunk:     for each piece of k, panel, tile: add products (shared out among threads)
//!                            for each panel: transpose the sums, epilogue
//! ```

use dynamlir_dialect::{
    ir::{Block as IrBlock, Builder, Op, Type, Value},
    ops,
};

use super::{
    attend,
    choose::{Form, Schedule, ceiling},
    code::{Code, fill},
    convolve, dots,
    epilogue::{self, Block, Sums},
    kernel::{self, Kernel},
    pack::{self, Lines},
    problem::{Problem, Side},
    tile::{self, Source, Tile},
};

/// Number of panels that are packed together from adjacent lines.
const PACKED_TOGETHER: i64 = 4;
/// Number of multiplications that take as long as one elementary operation elsewhere.
pub(super) const CHEAPER: i64 = 16;

/// Lowers a kernel with an anchor to loops on memory, and returns true. Leaves any other kernel alone. `parallel_work` is the minimum
/// number of elementary operations for which threads pay.
///
/// # Errors
/// Returns the reason if the kernel is left unchanged.
pub(crate) fn lower(function: Op, parallel_work: i64) -> Result<bool, &'static str> {
    if let Some(op) = convolve::find(function) {
        return convolve::lower(function, op, parallel_work).map(|()| true);
    }
    if let Some(op) = attend::find(function) {
        return attend::lower(function, op, parallel_work).map(|()| true);
    }
    let Some(product) = kernel::product(function) else { return Ok(false) };
    let (problem, roles) = kernel::matrices(product)?;
    let kernel = Kernel::read(function, product, roles)?;
    let memory = |i: usize| kernel::loaded(product.operand(i)).ok_or("the operands of a product must be in memory");
    let (lhs, rhs) = (memory(0)?, memory(1)?);
    let attr = ops::MATMUL.of(function).ok_or("a product without a schedule")?;
    if lhs.ty().element() != Type::f32(function.ctx()) {
        return Err("tiles of other types than f32 are not made");
    }
    let schedule = Schedule::from_attr(attr, &problem).ok_or("a schedule that does not suit the product")?;
    let scratch = schedule.scratch(&problem);
    if kernel.scratch.map_or(0, |memory| memory.ty().numel()) < scratch {
        return Err("less scratch memory than the schedule needs");
    }
    let end = function.body().and_then(IrBlock::terminator).ok_or("a kernel without a terminator")?;
    let code = Code { b: Builder::before(end).with_loc(product.loc()) };
    let parallel = problem.work() / CHEAPER >= parallel_work;
    let element = lhs.ty().element();
    let flat = |memory: Value, side: &Side| code.recast(memory, None, &[side.extent(&problem.outer, problem.k)], &[1]);
    let sides = [flat(lhs, &problem.lhs), flat(rhs, &problem.rhs)];
    let product_loops = Product {
        kernel: &kernel,
        problem: &problem,
        s: &schedule,
        rows: (sides[usize::from(!schedule.right)], schedule.rows_of(&problem)),
        lanes: (sides[usize::from(schedule.right)], schedule.lanes_of(&problem)),
        scratch: kernel.scratch.map(|memory| code.recast(memory, None, &[memory.ty().numel()], &[1])),
        parallel,
        element,
    };
    match schedule.form {
        Form::Panels => product_loops.panels(code),
        Form::Stream | Form::Dots => product_loops.blocks(code),
    }
    erase(function, kernel.root);
    Ok(true)
}

/// Erases the computation on tensors.
pub(super) fn erase(function: Op, root: Op) {
    for used in root.results().into_iter().flat_map(Value::uses) {
        used.op.erase();
    }
    root.erase();
    let on_tensors = |op: &Op| op.results().first().is_some_and(|result| result.ty().is_tensor());
    for op in function.body().map(IrBlock::ops).unwrap_or_default().into_iter().rev() {
        if on_tensors(&op) && op.is_unused() {
            op.erase();
        }
    }
}

struct Product<'a> {
    kernel: &'a Kernel,
    problem: &'a Problem,
    s: &'a Schedule,
    rows: (Value, &'a Side),
    lanes: (Value, &'a Side),
    scratch: Option<Value>,
    parallel: bool,
    element: Type,
}

/// One piece of work: a group of rows with a chunk of panels.
struct Piece {
    outer: Vec<Value>,
    /// First row, and the number of rows.
    rows: (Value, i64),
    /// The first panel, and the one after the last.
    panels: (Value, Value),
    /// The start of this repetition's first panel.
    packed: Value,
}

/// A thread's buffers for a piece of work.
struct Buffers {
    sums: Value,
    turned: Option<Value>,
    copied: Option<Value>,
}

impl Product<'_> {
    fn k(&self) -> i64 {
        self.problem.k
    }
    /// The index of a repetition along each outer dimension.
    fn outer(&self, code: Code, number: Value) -> Vec<Value> {
        let mut left = number;
        let mut found = Vec::new();
        for (at, &size) in self.problem.outer.iter().enumerate().rev() {
            found.push(if at == 0 { left } else { code.remainder(left, size) });
            left = if at == 0 { left } else { code.quotient(left, size) };
        }
        found.reverse();
        found
    }
    fn lines<'a>(code: Code, (memory, side): (Value, &'a Side), outer: &[Value]) -> Lines<'a> {
        let each = outer.iter().zip(&side.outer).map(|(&index, &stride)| code.times(index, stride));
        Lines { memory, base: each.fold(code.index(0), |base, step| code.add(base, step)), side }
    }
    /// The block of the result with these rows and lanes.
    fn block(&self, outer: &[Value], rows: (Value, i64), lanes: (Value, i64)) -> Block {
        let (left, right) = if self.s.right { (rows, lanes) } else { (lanes, rows) };
        Block { outer: outer.to_vec(), left, right }
    }
    /// The strides of lines and columns, given those of rows and lanes.
    fn strides(&self, rows: i64, lanes: i64) -> (i64, i64) {
        if self.s.right { (rows, lanes) } else { (lanes, rows) }
    }

    fn panels(&self, code: Code) {
        let (s, problem) = (self.s, self.problem);
        let Some(scratch) = self.scratch else { return };
        let (panels, lanes) = (s.panels(problem), s.lanes());
        let copies = if self.lanes.1.is_shared() { 1 } else { problem.repeats() };
        self.pack(code, scratch, copies);

        let (chunks, groups) = (ceiling(panels, s.chunk), ceiling(self.rows.1.size, s.group));
        let rest = self.rows.1.size - (groups - 1) * s.group;
        code.share_out(problem.repeats() * chunks * groups, self.parallel, |code, i| {
            // All chunks of a group are consecutive, so that its rows stay in the cache.
            let (chunk, others) = (code.remainder(i, chunks), code.quotient(i, chunks));
            let (group, number) = (code.remainder(others, groups), code.quotient(others, groups));
            let first = code.times(chunk, s.chunk);
            let behind = code.at_most(code.plus(first, s.chunk), panels);
            let packed = if copies == 1 { code.index(0) } else { code.times(number, panels * lanes * self.k()) };
            let outer = self.outer(code, number);
            let row = code.times(group, s.group);
            let buffers = self.buffers(code);
            let piece = |rows| Piece { outer: outer.clone(), rows: (row, rows), panels: (first, behind), packed };
            if rest == s.group || groups == 1 {
                self.piece(code, scratch, &buffers, &piece(rest));
            } else {
                let is_whole = code.is_below(group, groups - 1);
                code.choose(
                    is_whole,
                    |code| self.piece(code, scratch, &buffers, &piece(s.group)),
                    |code| self.piece(code, scratch, &buffers, &piece(rest)),
                );
            }
        });
    }

    /// Packs all panels.
    fn pack(&self, code: Code, scratch: Value, copies: i64) {
        let (s, k, lanes) = (self.s, self.k(), self.s.lanes());
        let panels = s.panels(self.problem);
        let (size, form) = (self.lanes.1.size, (s.vectors, s.width));
        let together = if self.lanes.1.stride == 1 && size >= s.width { PACKED_TOGETHER.min(panels) } else { 1 };
        let blocks = ceiling(panels, together);
        code.share_out(copies * blocks, self.parallel, |code, i| {
            let (number, block) = (code.quotient(i, blocks), code.remainder(i, blocks));
            let lines = Self::lines(code, self.lanes, &self.outer(code, number));
            let first = code.times(block, together * lanes);
            let into = code.add(code.times(number, panels * lanes * k), code.times(block, together * lanes * k));
            if self.lanes.1.stride != 1 || size < s.width {
                return pack::panel(code, lines, first, k, form, (scratch, into));
            }
            let some = |code: Code, left: i64, count: i64| pack::side_by_side(code, lines, (first, left, count), k, form, (scratch, into));
            // The last block may have fewer panels, and the last panel fewer lines.
            let done = (blocks - 1) * together;
            let last = |code: Code| some(code, size - done * lanes, panels - done);
            if blocks == 1 || size % (together * lanes) == 0 {
                last(code);
            } else {
                code.choose(code.is_below(block, blocks - 1), |code| some(code, together * lanes, together), last);
            }
        });
    }

    /// The rows of a block of sums, rounded up for blocks that are transposed by squares.
    fn tall(&self, rows: i64) -> i64 {
        if self.s.is_turned() { ceiling(rows, self.s.width) * self.s.width } else { rows }
    }

    /// Buffers for groups of any size.
    fn buffers(&self, code: Code) -> Buffers {
        let (s, depth) = (self.s, self.s.depth.min(self.k()));
        let rows = s.group.min(self.rows.1.size);
        let area = self.tall(rows) * s.lanes();
        let (stride, along_k) = pack::copy_strides(self.rows.1, rows, depth);
        Buffers {
            sums: code.local(self.element, if depth == self.k() { area } else { area * s.chunk }),
            turned: s.is_turned().then(|| code.local(self.element, area)),
            copied: s.copied.then(|| code.local(self.element, if along_k == 1 { rows * stride } else { depth * along_k })),
        }
    }

    fn piece(&self, code: Code, scratch: Value, buffers: &Buffers, piece: &Piece) {
        let (s, k, lanes) = (self.s, self.k(), self.s.lanes());
        let rows = piece.rows.1;
        let Buffers { sums, turned, copied } = *buffers;
        let tall = self.tall(rows);
        let area = tall * lanes;
        let pieces = ceiling(k, s.depth);
        let source = Self::lines(code, self.rows, &piece.outer);
        let copy_strides = pack::copy_strides(self.rows.1, rows, s.depth.min(k));
        // The rows of this piece, starting at `from` along k.
        let rows_from = |code: Code, from: Value, count: Value| {
            if let Some(memory) = copied {
                pack::rows(code, source, piece.rows, (from, count, s.depth.min(k)), s.width, memory);
                return Source { memory, base: code.index(0), stride: copy_strides.0, along_k: copy_strides.1, ahead: 0 };
            }
            let side = self.rows.1;
            let base = code.add(source.base, code.times(piece.rows.0, side.stride));
            let base = code.add(base, code.times(from, side.along_k));
            Source { memory: source.memory, base, stride: side.stride, along_k: side.along_k, ahead: 0 }
        };
        let panel = |code: Code, number: Value, from: Value| {
            let base = code.add(piece.packed, code.times(number, lanes * k));
            Source { memory: scratch, base: code.add(base, code.times(from, lanes)), stride: 1, along_k: lanes, ahead: 0 }
        };
        let zero = code.index(0);
        let all = (piece.panels.0, piece.panels.1, 1);
        if pieces == 1 {
            let rows_source = rows_from(code, zero, code.index(k));
            code.for_each(all, &[], |code, number, _| {
                fill(&code, sums);
                let panel = panel(code, number, code.index(0));
                self.tiles(code, rows, (rows_source, panel), code.index(k), (sums, code.index(0)));
                self.finish(code, piece, number, (sums, None), turned, tall);
                Vec::new()
            });
            return;
        }
        fill(&code, sums);
        code.times_do(pieces, |code, step| {
            let from = code.times(step, s.depth);
            let count = code.at_most(code.sub(code.index(k), from), s.depth);
            let rows_source = rows_from(code, from, count);
            code.for_each(all, &[], |code, number, _| {
                let at = code.times(code.sub(number, piece.panels.0), area);
                self.tiles(code, rows, (rows_source, panel(code, number, from)), count, (sums, at));
                Vec::new()
            });
        });
        code.for_each(all, &[], |code, number, _| {
            let at = code.times(code.sub(number, piece.panels.0), area);
            self.finish(code, piece, number, (sums, Some(at)), turned, tall);
            Vec::new()
        });
    }

    /// Adds to a block of sums, tile by tile.
    fn tiles(&self, code: Code, rows: i64, (source, panel): (Source, Source), count: Value, (sums, at): (Value, Value)) {
        let lanes = self.s.lanes();
        tile::for_each(code, rows, self.s.rows, |code, row, tall| {
            let source = Source { base: code.add(source.base, code.times(row, source.stride)), ..source };
            let tile = Tile { rows: tall, lanes, width: self.s.width };
            tile::accumulate(code, tile, source, panel, count, (sums, code.add(at, code.times(row, lanes)), lanes));
        });
    }

    /// Computes the results from a panel's sums.
    fn finish(&self, code: Code, piece: &Piece, number: Value, sums: (Value, Option<Value>), turned: Option<Value>, tall: i64) {
        let lanes = self.s.lanes();
        let sums = match turned {
            Some(memory) => {
                let base = sums.1.unwrap_or_else(|| code.index(0));
                pack::turn(code, (sums.0, base), memory, (tall, lanes, tall), self.s.width);
                Sums { memory, from: None, strides: self.strides(1, tall) }
            }
            None => Sums { memory: sums.0, from: sums.1, strides: self.strides(lanes, 1) },
        };
        let first = code.times(number, lanes);
        let some = |code: Code, valid: i64| {
            epilogue::apply(code, self.kernel, &self.block(&piece.outer, piece.rows, (first, valid)), sums);
        };
        let panels = self.s.panels(self.problem);
        let rest = self.lanes.1.size - (panels - 1) * lanes;
        if rest == lanes || panels == 1 {
            some(code, rest);
        } else {
            code.choose(code.is_below(number, panels - 1), |code| some(code, lanes), |code| some(code, rest));
        }
    }

    /// Forms without panels: blocks of columns with all rows.
    fn blocks(&self, code: Code) {
        let size = self.lanes.1.size;
        let blocks = ceiling(size, self.s.chunk);
        let rest = size - (blocks - 1) * self.s.chunk;
        code.share_out(self.problem.repeats() * blocks, self.parallel, |code, i| {
            let outer = self.outer(code, code.quotient(i, blocks));
            let number = code.remainder(i, blocks);
            let first = code.times(number, self.s.chunk);
            if blocks == 1 || rest == self.s.chunk {
                self.columns(code, &outer, first, rest);
            } else {
                let is_whole = code.is_below(number, blocks - 1);
                code.choose(
                    is_whole,
                    |code| self.columns(code, &outer, first, self.s.chunk),
                    |code| self.columns(code, &outer, first, rest),
                );
            }
        });
    }

    fn columns(&self, code: Code, outer: &[Value], first: Value, columns: i64) {
        let s = self.s;
        let all_rows = self.rows.1.size;
        let pitch = ceiling(columns, s.width) * s.width;
        let sums = code.local(self.element, all_rows * pitch);
        if s.form == Form::Stream {
            fill(&code, sums);
            self.stream(code, outer, (first, columns), (sums, pitch));
        } else {
            self.dots(code, outer, (first, columns), (sums, pitch));
        }
        let sums = Sums { memory: sums, from: None, strides: self.strides(pitch, 1) };
        epilogue::apply(code, self.kernel, &self.block(outer, (code.index(0), all_rows), (first, columns)), sums);
    }

    /// An operand's elements, starting at a line and a position along k.
    fn from(code: Code, lines: Lines<'_>, line: Value, k: Value) -> Source {
        let base = code.add(lines.base, code.times(line, lines.side.stride));
        let base = code.add(base, code.times(k, lines.side.along_k));
        Source { memory: lines.memory, base, stride: lines.side.stride, along_k: lines.side.along_k, ahead: 0 }
    }

    /// Computes the sums of a block of columns, a few lines along k at a time: as many as the streams that the processor can follow.
    fn stream(&self, code: Code, outer: &[Value], (first, columns): (Value, i64), (sums, pitch): (Value, i64)) {
        let s = self.s;
        let (rows, lanes) = (Self::lines(code, self.rows, outer), Self::lines(code, self.lanes, outer));
        let tiles = |code: Code, from: Value, count: Value, column: Value, wide: i64| {
            tile::for_each(code, self.rows.1.size, s.rows, |code, row, tall| {
                let tile = Tile { rows: tall, lanes: wide, width: s.width };
                let right = Source { ahead: s.depth, ..Self::from(code, lanes, code.add(first, column), from) };
                let place = code.add(code.times(row, pitch), column);
                tile::accumulate(code, tile, Self::from(code, rows, row, from), right, count, (sums, place, pitch));
            });
        };
        let wide = s.vectors * s.width;
        code.for_each((code.index(0), code.index(self.k()), s.depth), &[], |code, from, _| {
            let count = code.at_most(code.sub(code.index(self.k()), from), s.depth);
            code.times_do(columns / wide, |code, i| tiles(code, from, count, code.times(i, wide), wide));
            if columns % wide > 0 {
                tiles(code, from, count, code.index(columns / wide * wide), columns % wide);
            }
            Vec::new()
        });
    }

    /// Computes the sums of a block of columns, by whole lines of both operands.
    fn dots(&self, code: Code, outer: &[Value], (first, columns): (Value, i64), (sums, pitch): (Value, i64)) {
        let s = self.s;
        let (rows, lanes) = (Self::lines(code, self.rows, outer), Self::lines(code, self.lanes, outer));
        tile::for_each(code, self.rows.1.size, s.rows, |code, row, tall| {
            let source = Self::from(code, rows, row, code.index(0));
            let width = s.vectors.min(1 << columns.ilog2());
            code.times_do(ceiling(columns, width), |code, i| {
                // The last tile may overlap the previous one, and recomputes the same sums.
                let column = code.at_most(code.times(i, width), columns - width);
                let right = Self::from(code, lanes, code.add(first, column), code.index(0));
                let place = (sums, code.add(code.times(row, pitch), column), pitch);
                dots::store(code, (tall, width, s.width), (source, right), self.k(), place);
            });
        });
    }
}
