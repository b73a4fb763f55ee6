//! Copies that lay memory out for the tiles: panels of lanes by k, rows without cache collisions, transposed blocks.

use dynamlir_dialect::ir::{Type, Value};

use super::{choose::COPY_GAP, code::Code, problem::Side};

/// Transposes a square of vectors: element j of result i is element i of value j.
///
/// Step s swaps squares of s elements across the diagonal; there are log2(width) steps.
pub(super) fn transpose(code: Code, mut square: Vec<Value>) -> Vec<Value> {
    let width = square.len();
    let mut step = 1;
    while step < width {
        for i in (0..width).filter(|i| i & step == 0) {
            let (a, b) = (square[i], square[i + step]);
            let lanes = |take: fn(usize, usize, usize) -> usize| (0..width).map(|j| take(j, step, width) as i64).collect::<Vec<_>>();
            let upper = lanes(|j, step, width| if j & step == 0 { j } else { width + j - step });
            let lower = lanes(|j, step, width| if j & step == 0 { j + step } else { width + j });
            square[i] = code.shuffle(a, b, &upper);
            square[i + step] = code.shuffle(a, b, &lower);
        }
        step *= 2;
    }
    square
}

/// Prefetch distance, in steps along k, where steps are far apart in memory.
const AHEAD: i64 = 8;

/// The starts of an operand's lines.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) memory: Value,
    /// Element 0 of line 0 of this repetition.
    pub(super) base: Value,
    pub(super) side: &'a Side,
}

impl Lines<'_> {
    /// The first element of a line; of the last line if `line` is past the end.
    fn start(&self, code: Code, line: Value) -> Value {
        let line = code.at_most(line, self.side.size - 1);
        code.add(self.base, code.times(line, self.side.stride))
    }
    /// The element at `along` of the line that starts at `start`.
    fn at(&self, code: Code, start: Value, along: Value) -> Value {
        code.add(start, code.times(along, self.side.along_k))
    }
}

/// Copies lines that are adjacent in memory into `count` panels. The first panel starts with line `first` and is written at `base`. For
/// each k, a panel holds the elements of all its lines side by side. `lines_left` lines remain; lanes past the last line are 0.
///
/// Several panels are copied at once, since neighbouring panels share the cache lines and pages that memory is fetched by.
pub(super) fn side_by_side(
    code: Code,
    lines: Lines<'_>,
    (first, lines_left, count): (Value, i64, i64),
    k: i64,
    (vectors, width): (i64, i64),
    (panel, base): (Value, Value),
) {
    let start = code.add(lines.base, first);
    let lanes = vectors * width;
    code.for_each((code.index(0), code.index(k), 1), &[], |code, i, _| {
        let (from, to) = (lines.at(code, start, i), code.add(base, code.times(i, lanes)));
        for lane in (0..count * lanes).step_by(width as usize) {
            let into = code.plus(to, lane / lanes * lanes * k + lane % lanes);
            let valid = (lines_left - lane).clamp(0, width);
            // Lanes past the last line are computed with, too, so they hold numbers that cost nothing.
            let value = match valid {
                0 => code.zero(Type::vector(&[width], panel.ty().element())),
                _ => code.load_vector(lines.memory, code.plus(from, lane), (width, valid)),
            };
            code.store_vector(value, panel, into);
            if valid > 0 {
                let ahead = lane + AHEAD * lines.side.along_k;
                code.prefetch(lines.memory, code.plus(from, ahead));
            }
        }
        Vec::new()
    });
}

/// Copies the lines of one panel from `first` on, regardless of their layout. Lanes past the last line repeat it; their sums are never
/// read.
pub(super) fn panel(code: Code, lines: Lines<'_>, first: Value, k: i64, (vectors, width): (i64, i64), (panel, base): (Value, Value)) {
    let lanes = vectors * width;
    for vector in 0..vectors {
        let first = code.plus(first, vector * width);
        let into = (panel, code.plus(base, vector * width), lanes);
        if lines.side.along_k == 1 && k >= width {
            turned(code, lines, first, k, width, into);
        } else {
            one_by_one(code, lines, first, k, width, into);
        }
    }
}

/// Transposes squares of lines along k. The last square may overlap the previous one: both write the same elements.
fn turned(code: Code, lines: Lines<'_>, first: Value, k: i64, width: i64, (panel, into, pitch): (Value, Value, i64)) {
    let starts: Vec<_> = (0..width).map(|i| lines.start(code, code.plus(first, i))).collect();
    code.for_each((code.index(0), code.index(k), width), &[], |code, i, _| {
        let i = code.at_most(i, k - width);
        let square = starts.iter().map(|&start| code.load_vector(lines.memory, code.add(start, i), (width, width))).collect();
        for (step, value) in transpose(code, square).into_iter().enumerate() {
            let at = code.times(code.plus(i, step as i64), pitch);
            code.store_vector(value, panel, code.add(into, at));
        }
        Vec::new()
    });
}

fn one_by_one(code: Code, lines: Lines<'_>, first: Value, k: i64, width: i64, (panel, into, pitch): (Value, Value, i64)) {
    code.times_do(width, |code, lane| {
        let start = lines.start(code, code.add(first, lane));
        let into = code.add(into, lane);
        code.times_do(k, |code, i| {
            let value = code.load(lines.memory, lines.at(code, start, i));
            code.store(value, panel, code.add(into, code.times(i, pitch)));
        });
    });
}

/// The strides of copied rows: from row to row, and along k.
pub(super) fn copy_strides(side: &Side, rows: i64, depth: i64) -> (i64, i64) {
    if side.stride == 1 && side.along_k != 1 { (1, rows) } else { (depth + COPY_GAP, 1) }
}

/// Copies `rows` lines from `first` on into a buffer: of each, `count` elements (at most `depth`) along k, starting at `from`.
pub(super) fn rows(
    code: Code,
    lines: Lines<'_>,
    (first, rows): (Value, i64),
    (from, count, depth): (Value, Value, i64),
    width: i64,
    buffer: Value,
) {
    let (stride, along_k) = copy_strides(lines.side, rows, depth);
    let start = lines.at(code, lines.start(code, first), from);
    let vectors = |code: Code, step: i64, limit: i64, from: Value, to: Value| {
        // Copies `limit` adjacent elements, first by whole vectors, then one by one.
        let whole = limit / step * step;
        code.for_each((code.index(0), code.index(whole), step), &[], |code, i, _| {
            code.store_vector(code.load_vector(lines.memory, code.add(from, i), (step, step)), buffer, code.add(to, i));
            Vec::new()
        });
        code.for_each((code.index(whole), code.index(limit), 1), &[], |code, i, _| {
            code.store(code.load(lines.memory, code.add(from, i)), buffer, code.add(to, i));
            Vec::new()
        });
    };
    if along_k != 1 {
        code.for_each((code.index(0), count, 1), &[], |code, i, _| {
            vectors(code, width, rows, lines.at(code, start, i), code.times(i, along_k));
            Vec::new()
        });
        return;
    }
    let whole = code.sub(count, code.remainder(count, width));
    code.times_do(rows, |code, row| {
        let (from, to) = (code.add(start, code.times(row, lines.side.stride)), code.times(row, stride));
        let is_line = lines.side.along_k == 1;
        if is_line {
            code.for_each((code.index(0), whole, width), &[], |code, i, _| {
                code.store_vector(code.load_vector(lines.memory, code.add(from, i), (width, width)), buffer, code.add(to, i));
                Vec::new()
            });
        }
        code.for_each((if is_line { whole } else { code.index(0) }, count, 1), &[], |code, i, _| {
            code.store(code.load(lines.memory, lines.at(code, from, i)), buffer, code.add(to, i));
            Vec::new()
        });
    });
}

/// Transposes a block of `rows × lanes` sums (pitch `lanes`) into `lanes × rows` (pitch `pitch`); both are multiples of the width.
pub(super) fn turn(code: Code, (from, base): (Value, Value), to: Value, (rows, lanes, pitch): (i64, i64, i64), width: i64) {
    code.for_each((code.index(0), code.index(rows), width), &[], |code, row, _| {
        code.for_each((code.index(0), code.index(lanes), width), &[], |code, lane, _| {
            let corner = code.add(code.add(base, code.times(row, lanes)), lane);
            let square = (0..width).map(|i| code.load_vector(from, code.plus(corner, i * lanes), (width, width))).collect();
            let corner = code.add(code.times(lane, pitch), row);
            for (i, value) in transpose(code, square).into_iter().enumerate() {
                code.store_vector(value, to, code.plus(corner, i as i64 * pitch));
            }
            Vec::new()
        });
        Vec::new()
    });
}
