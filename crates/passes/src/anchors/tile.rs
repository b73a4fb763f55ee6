//! A tile of sums in registers: rows are broadcast, lanes are vectors.

use dynamlir_dialect::ir::{Type, Value};

use super::{
    choose::{ceiling, parts},
    code::Code,
};

/// Steps along k in one iteration of the loop.
const UNROLL: i64 = 2;

/// Memory that a tile reads, starting at an element.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) memory: Value,
    pub(super) base: Value,
    /// The stride between rows; unused for lanes, which are contiguous.
    pub(super) stride: i64,
    /// The stride along k.
    pub(super) along_k: i64,
    /// Prefetch distance in steps along k, for accesses that the processor does not predict; 0 if no prefetch is needed.
    pub(super) ahead: i64,
}

/// The form of a tile.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) rows: i64,
    /// Number of lanes in use: the last vector may be read in part.
    pub(super) lanes: i64,
    /// Elements of a vector.
    pub(super) width: i64,
}

impl Tile {
    fn vectors(self) -> i64 {
        ceiling(self.lanes, self.width)
    }
    /// Returns the number of lanes of a vector that are in use.
    fn valid(self, vector: i64) -> (i64, i64) {
        (self.width, (self.lanes - vector * self.width).min(self.width))
    }
}

/// Iterates over `rows` lines in tiles of at most `most`: `each` receives a tile's first line and its number of lines.
pub(super) fn for_each(code: Code, rows: i64, most: i64, each: impl Fn(Code, Value, i64)) {
    let (number, large, many) = parts(rows, most);
    for (tiles, tall, first) in [(many, large, 0), (number - many, large - 1, many * large)] {
        if tiles > 0 && tall > 0 {
            code.times_do(tiles, |code, i| each(code, code.plus(code.times(i, tall), first), tall));
        }
    }
}

/// Number of steps along k after which the partial sums are added to the sums: one f32 accumulating all terms would lose the last bits of
/// thousands of them.
pub(super) const RUN: i64 = 128;

/// Adds the products of `count` steps along k to the sums at `at`, whose rows are `pitch` apart.
pub(super) fn accumulate(code: Code, tile: Tile, rows: Source, lanes: Source, count: Value, sums: (Value, Value, i64)) {
    code.for_each((code.index(0), count, RUN), &[], |code, from, _| {
        let along = |source: Source| Source { base: code.add(source.base, code.times(from, source.along_k)), ..source };
        run(code, tile, along(rows), along(lanes), code.at_most(code.sub(count, from), RUN), sums);
        Vec::new()
    });
}

fn run(code: Code, tile: Tile, rows: Source, lanes: Source, count: Value, sums: (Value, Value, i64)) {
    let (memory, at, pitch) = sums;
    let places: Vec<Value> = (0..tile.rows)
        .flat_map(|row| (0..tile.vectors()).map(move |vector| row * pitch + vector * tile.width))
        .map(|d| code.plus(at, d))
        .collect();
    let whole = (tile.width, tile.width);
    let start = vec![code.zero(Type::vector(&[tile.width], memory.ty().element())); places.len()];
    let main = code.sub(count, code.remainder(count, UNROLL));
    let running = code.for_each((code.index(0), main, UNROLL), &start, |code, k, sums| {
        let mut sums = sums.to_vec();
        for step in 0..UNROLL {
            step_along(code, tile, rows, lanes, code.plus(k, step), &mut sums);
        }
        sums
    });
    let total = code.for_each((main, count, 1), &running, |code, k, sums| {
        let mut sums = sums.to_vec();
        step_along(code, tile, rows, lanes, k, &mut sums);
        sums
    });
    for (value, place) in total.into_iter().zip(places) {
        let sum = code.load_vector(memory, place, whole);
        code.store_vector(code.b.addf(sum, value), memory, place);
    }
}

fn step_along(code: Code, tile: Tile, rows: Source, lanes: Source, k: Value, sums: &mut [Value]) {
    let at = code.add(lanes.base, code.times(k, lanes.along_k));
    let vectors: Vec<_> =
        (0..tile.vectors()).map(|vector| code.load_vector(lanes.memory, code.plus(at, vector * tile.width), tile.valid(vector))).collect();
    if lanes.ahead > 0 {
        for vector in 0..tile.vectors() {
            code.prefetch(lanes.memory, code.plus(at, vector * tile.width + lanes.ahead * lanes.along_k));
        }
    }
    let at = code.add(rows.base, code.times(k, rows.along_k));
    for (row, sums) in sums.chunks_mut(vectors.len()).enumerate() {
        let element = code.load(rows.memory, code.plus(at, row as i64 * rows.stride));
        let element = code.broadcast(element, tile.width);
        for (sum, &vector) in sums.iter_mut().zip(&vectors) {
            *sum = code.fma(element, vector, *sum);
        }
    }
}
