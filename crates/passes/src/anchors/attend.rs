//! Attention: scores of a block of queries, their softmax, and the values weighted by it.
//!
//! ```text
//! for each batch, head, block of queries:   (shared out among threads)
//!     for each panel of keys: copy it
//!         for each tile of queries: scores
//!     for each query: exponentials of its scores, and their sum
//!     for each panel of values, tile of queries: results
//!     divide by the sums, epilogue
//! ```
//! A block's scores are materialized as a whole, in the cache. Values are read in place.

use dynamlir_dialect::{
    ir::{Block as IrBlock, Builder, Op, Type, Value},
    ops::{self, AttentionOp},
};

use super::{
    attention::{HeadSchedule, Heads, choose},
    choose::ceiling,
    code::{Code, fill},
    epilogue::{self, Block, Sums},
    kernel::{Kernel, Role, loaded},
    lower::{CHEAPER, erase},
    pack::{self, Lines},
    problem::Side,
    softmax,
    tile::{self, Source, Tile},
};

/// Returns the attention of a kernel at stage 05.
pub(super) fn find(function: Op) -> Option<Op> {
    function.body()?.ops().into_iter().find(|op| op.is(AttentionOp::NAME))
}

/// Lowers the attention to loops.
///
/// # Errors
/// Returns the reason if that is impossible.
pub(super) fn lower(function: Op, op: Op, parallel_work: i64) -> Result<(), &'static str> {
    let memories: Option<Vec<Value>> = op.operands().into_iter().map(loaded).collect();
    let memories = memories.ok_or("the operands of attention must be in memory")?;
    let single = Type::f32(op.ctx());
    if memories.iter().any(|memory| memory.ty().element() != single) {
        return Err("attention to other types than f32 is not made");
    }
    let strides: Option<Vec<_>> = memories.iter().map(|memory| Some(memory.ty().strided()?.0)).collect();
    let heads = strides.and_then(|strides| Heads::of(op, &strides)).ok_or("attention to memory that runs backwards")?;
    let domain = [heads.outer[0], heads.outer[1], heads.queries, heads.width];
    let roles = [Role::Outer(0), Role::Outer(1), Role::Left, Role::Right];
    let (sizes, roles): (Vec<i64>, Vec<Role>) = domain.into_iter().zip(roles).filter(|&(size, _)| size != 1).unzip();
    if op.result(0).ty().shape() != sizes {
        return Err("the result of attention must have the kernel's dimensions");
    }
    let kernel = Kernel::read(function, op, roles)?;
    let given = ops::MATMUL.of(function).and_then(|attr| HeadSchedule::from_attr(attr, &heads));
    let schedule = given.or_else(|| choose(&heads, 0)).ok_or("attention to too many lines")?;
    let end = function.body().and_then(IrBlock::terminator).ok_or("a kernel without a terminator")?;
    let code = Code { b: Builder::before(end).with_loc(op.loc()) };
    let flat = |i: usize, strides: &[i64; 4], lines: i64, elements: i64| {
        code.recast(memories[i], None, &[heads.extent(strides, lines, elements)], &[1])
    };
    let attend = Attend {
        kernel: &kernel,
        h: &heads,
        s: &schedule,
        queries: flat(0, &heads.strides[0], heads.queries, heads.depth),
        keys: flat(1, &heads.strides[1], heads.keys, heads.depth),
        values: flat(2, &heads.strides[2], heads.keys, heads.width),
        mask: heads.mask.map(|strides| flat(3, &strides, heads.queries, heads.keys)),
        scale: AttentionOp::cast(op).ok_or("not attention")?.scale(),
    };
    attend.pieces(code, heads.work() / CHEAPER >= parallel_work);
    erase(function, kernel.root);
    Ok(())
}

struct Attend<'a> {
    kernel: &'a Kernel,
    h: &'a Heads,
    s: &'a HeadSchedule,
    queries: Value,
    keys: Value,
    values: Value,
    mask: Option<Value>,
    scale: f64,
}

/// A thread's buffers.
#[derive(Clone, Copy)]
struct Buffers {
    scores: Value,
    results: Value,
    panel: Value,
    sums: Value,
}

/// One piece of work: some queries of one head.
struct Piece {
    batch: Value,
    head: Value,
    first: Value,
    lines: i64,
}

impl Attend<'_> {
    fn pieces(&self, code: Code, parallel: bool) {
        let (h, s) = (self.h, self.s);
        let blocks = ceiling(h.queries, s.block);
        let rest = h.queries - (blocks - 1) * s.block;
        code.share_out(h.outer[0] * h.outer[1] * blocks, parallel, |code, i| {
            let (number, others) = (code.remainder(i, blocks), code.quotient(i, blocks));
            let (batch, head) = (code.quotient(others, h.outer[1]), code.remainder(others, h.outer[1]));
            let local = |elements: i64| code.local(self.queries.ty().element(), elements);
            let lines = s.block.min(h.queries);
            let buffers = Buffers {
                scores: local(lines * s.scores(h)),
                results: local(lines * s.results(h)),
                panel: local(s.panel(h)),
                sums: local(lines),
            };
            let first = code.times(number, s.block);
            let piece = |lines: i64| Piece { batch, head, first, lines };
            if blocks == 1 || rest == s.block {
                self.piece(code, buffers, &piece(rest));
            } else {
                let is_whole = code.is_below(number, blocks - 1);
                code.choose(is_whole, |code| self.piece(code, buffers, &piece(s.block)), |code| self.piece(code, buffers, &piece(rest)));
            }
        });
    }

    /// The start of a head's elements.
    fn base(code: Code, piece: &Piece, strides: &[i64; 4]) -> Value {
        code.add(code.times(piece.batch, strides[0]), code.times(piece.head, strides[1]))
    }

    fn piece(&self, code: Code, buffers: Buffers, piece: &Piece) {
        let (h, s) = (self.h, self.s);
        fill(&code, buffers.scores);
        fill(&code, buffers.results);
        self.score(code, buffers, piece);
        let mask = self.mask.zip(h.mask).map(|(memory, strides)| {
            let first = code.times(piece.first, strides[2]);
            softmax::Mask { memory, base: code.add(Self::base(code, piece, &strides), first), strides: [strides[2], strides[3]] }
        });
        let lines = softmax::Lines {
            scores: buffers.scores,
            sums: buffers.sums,
            pitch: s.scores(h),
            keys: h.keys,
            width: s.width,
            scale: self.scale,
            mask,
            place: h.causal.then_some(piece.first),
        };
        softmax::apply(code, &lines, piece.lines);
        self.weigh(code, buffers, piece);
        let pitch = s.results(h);
        code.times_do(piece.lines, |code, line| {
            let factor = code.broadcast(code.load(buffers.sums, line), s.width);
            code.times_do(pitch / s.width, |code, vector| {
                let at = code.add(code.times(line, pitch), code.times(vector, s.width));
                let value = code.load_vector(buffers.results, at, (s.width, s.width));
                code.store_vector(code.b.mulf(value, factor), buffers.results, at);
            });
        });
        let block = Block { outer: vec![piece.batch, piece.head], left: (piece.first, piece.lines), right: (code.index(0), h.width) };
        epilogue::apply(code, self.kernel, &block, Sums { memory: buffers.results, from: None, strides: (pitch, 1) });
    }

    /// Computes the products of queries and keys.
    fn score(&self, code: Code, buffers: Buffers, piece: &Piece) {
        let (h, s) = (self.h, self.s);
        let [[_, _, line, element], [_, _, key_line, key_element], _] = h.strides;
        let (lanes, pitch) = (s.key_lanes(), s.scores(h));
        let queries = code.add(Self::base(code, piece, &h.strides[0]), code.times(piece.first, line));
        let keys = Self::base(code, piece, &h.strides[1]);
        let side = Side { size: h.keys, stride: key_line, along_k: key_element, outer: Vec::new() };
        code.times_do(pitch / lanes, |code, number| {
            let first = code.times(number, lanes);
            let zero = code.index(0);
            pack::panel(
                code,
                Lines { memory: self.keys, base: keys, side: &side },
                first,
                h.depth,
                (s.keys, s.width),
                (buffers.panel, zero),
            );
            tile::for_each(code, piece.lines, s.rows(s.keys), |code, row, tall| {
                let base = code.add(queries, code.times(row, line));
                let rows = Source { memory: self.queries, base, stride: line, along_k: element, ahead: 0 };
                let panel = Source { memory: buffers.panel, base: code.index(0), stride: 1, along_k: lanes, ahead: 0 };
                let at = code.add(code.times(row, pitch), first);
                let tile = Tile { rows: tall, lanes, width: s.width };
                tile::accumulate(code, tile, rows, panel, code.index(h.depth), (buffers.scores, at, pitch));
            });
        });
    }

    /// Computes the products of the scores' exponentials and the values.
    fn weigh(&self, code: Code, buffers: Buffers, piece: &Piece) {
        let (h, s) = (self.h, self.s);
        let [_, _, [_, _, line, element]] = h.strides;
        let (most, pitch, scores) = (s.value_lanes(), s.results(h), s.scores(h));
        let base = Self::base(code, piece, &h.strides[2]);
        for first in (0..h.width).step_by(most as usize) {
            let (panel, lanes) = if element == 1 {
                let base = code.plus(base, first);
                (Source { memory: self.values, base, stride: 1, along_k: line, ahead: 0 }, most.min(h.width - first))
            } else {
                let side = Side { size: h.width, stride: element, along_k: line, outer: Vec::new() };
                let values = Lines { memory: self.values, base, side: &side };
                pack::panel(code, values, code.index(first), h.keys, (s.values, s.width), (buffers.panel, code.index(0)));
                (Source { memory: buffers.panel, base: code.index(0), stride: 1, along_k: most, ahead: 0 }, most)
            };
            tile::for_each(code, piece.lines, s.rows(s.values), |code, row, tall| {
                let rows = Source { memory: buffers.scores, base: code.times(row, scores), stride: scores, along_k: 1, ahead: 0 };
                // Keys past the position of the tile's last query do not count for any of its queries.
                let count = code.index(h.keys);
                let count = if h.causal { code.least(code.plus(code.add(piece.first, row), tall), count) } else { count };
                let at = code.plus(code.times(row, pitch), first);
                let tile = Tile { rows: tall, lanes, width: s.width };
                tile::accumulate(code, tile, rows, panel, count, (buffers.results, at, pitch));
            });
        }
    }
}
