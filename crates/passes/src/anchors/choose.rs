//! Chooses how the loops of a product are cut.
//!
//! Costs are counted in cycles of a core that starts two multiply-adds and two loads each cycle, as server and desktop processors with AVX2
//! or AVX-512 have done for a decade; only their ratios matter. The decision depends on sizes, strides and the vector width, never on the
//! number of threads.

#![expect(clippy::cast_precision_loss, reason = "costs are estimates")]

use std::ops::RangeInclusive;

use dynamlir_dialect::ir::{Attr, Ctx};

use super::problem::{Problem, Side};

/// Bytes of rows that stay in the second-level cache while the panels are processed.
const GROUP_BYTES: i64 = 512 * 1024;
/// The minimum number of pieces of work, for threads to share.
pub(super) const PIECES: i64 = 8;
/// Bytes of sums that are kept across several blocks of k.
const SUM_BYTES: i64 = 64 * 1024;
/// The longest piece of k processed at once.
const DEPTH: i64 = 1024;
/// The maximum number of rows in a group.
const GROUP: i64 = 256;
/// The maximum number of floats in one thread's buffers, 256 KiB: they are on its stack, and the smallest stacks have 512 KiB.
pub(super) const LOCAL: i64 = 64 * 1024;
/// The maximum number of floats of copied rows.
const COPIED: i64 = 40 * 1024;
/// Padding between copied rows, in elements, so that they fall into different sets of the cache.
pub const COPY_GAP: i64 = 16;
/// Columns of the result in one block of dots.
const COLUMNS: i64 = 48;
/// Minimum and maximum number of elements of a line that are read consecutively: the minimum applies if the line is split among threads,
/// the maximum if it is long.
const STREAM: (i64, i64) = (384, 768);
/// Number of lines read side by side while the sums stay in registers. A single row uses few streams, since its sums are quickly read and
/// written; several rows use as many as a processor's prefetcher recognises.
const STREAMS: (i64, i64) = (4, 32);
/// Bytes of sums that are reused while the lines are processed.
const STREAM_BYTES: i64 = 48 * 1024;

/// The content of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Copies of one operand's lines, a few side by side.
    Panels,
    /// One operand's lines, read in place where they lie side by side.
    Stream,
    /// Elements along k.
    Dots,
}

impl Form {
    const ALL: [(&'static str, Self); 3] = [("panels", Self::Panels), ("stream", Self::Stream), ("dots", Self::Dots)];

    /// The name used in attributes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, form)| *form == self).map_or("", |(name, _)| name)
    }
    /// The form with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, form)| form)
    }
}

/// The decision. Sizes are in elements, rows, or panels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The content of the vectors.
    pub form: Form,
    /// True if the lanes (for dots: the columns of a tile) belong to the right operand.
    pub right: bool,
    /// Elements of a vector.
    pub width: i64,
    /// Number of adjacent vectors in a tile; for dots, the columns of a tile.
    pub vectors: i64,
    /// The maximum number of rows in a tile.
    pub rows: i64,
    /// Rows processed together: for panels the result's block, otherwise all rows.
    pub group: i64,
    /// The piece of k processed at once.
    pub depth: i64,
    /// Panels processed together; the columns of a block for forms without panels.
    pub chunk: i64,
    /// True if rows are copied before use.
    pub copied: bool,
}

impl Schedule {
    /// Lanes of a panel.
    pub fn lanes(&self) -> i64 {
        self.width * self.vectors
    }
    /// The operand whose lines are broadcast.
    pub fn rows_of<'a>(&self, problem: &'a Problem) -> &'a Side {
        problem.side(!self.right)
    }
    /// The operand whose lines are in the lanes.
    pub fn lanes_of<'a>(&self, problem: &'a Problem) -> &'a Side {
        problem.side(self.right)
    }
    /// Panels of one repetition.
    pub fn panels(&self, problem: &Problem) -> i64 {
        ceiling(self.lanes_of(problem).size, self.lanes())
    }
    /// Number of panels in one repetition.
    pub fn scratch(&self, problem: &Problem) -> i64 {
        if self.form != Form::Panels {
            return 0;
        }
        let copies = if self.lanes_of(problem).is_shared() { 1 } else { problem.repeats() };
        copies * self.panels(problem) * self.lanes() * problem.k
    }
    /// Floats in a thread's buffers: sums, transposed sums, copied rows.
    fn local(&self, problem: &Problem) -> i64 {
        let rows = self.group.min(self.rows_of(problem).size);
        if self.form != Form::Panels {
            return rows * (self.chunk + self.width);
        }
        let (tall, turned) = if self.is_turned() { (ceiling(rows, self.width) * self.width, 1) } else { (rows, 0) };
        let kept = if self.depth < problem.k { self.chunk } else { 1 };
        let copy = if self.copied { rows * (self.depth.min(problem.k) + COPY_GAP) } else { 0 };
        tall * self.lanes() * (kept + turned) + copy
    }

    /// Returns true if a block's sums have the result's rows along lanes, and must be transposed.
    pub fn is_turned(&self) -> bool {
        self.form == Form::Panels && !self.right
    }

    /// Returns the schedule as an attribute of the kernel.
    pub fn to_attr(&self, ctx: Ctx) -> Attr {
        let number = |value: i64| Attr::i64(ctx, value);
        Attr::dict(
            ctx,
            &[
                ("chunk", number(self.chunk)),
                ("copied", Attr::bool(ctx, self.copied)),
                ("depth", number(self.depth)),
                ("form", Attr::str(ctx, self.form.name())),
                ("group", number(self.group)),
                ("lanes", Attr::str(ctx, if self.right { "rhs" } else { "lhs" })),
                ("rows", number(self.rows)),
                ("vectors", number(self.vectors)),
                ("width", number(self.width)),
            ],
        )
    }

    /// Reads the attribute. It may have been written by hand, so it is checked against the problem.
    pub fn from_attr(attr: Attr, problem: &Problem) -> Option<Self> {
        let number = |name: &str| attr.get(name)?.as_i64().filter(|&value| value > 0 && value <= 1 << 32);
        let form = attr.get("form")?.as_str()?;
        let schedule = Self {
            form: Form::named(&form)?,
            right: attr.get("lanes")?.as_str()? == "rhs",
            width: number("width")?,
            vectors: number("vectors")?,
            rows: number("rows")?,
            group: number("group")?,
            depth: number("depth")?,
            chunk: number("chunk")?,
            copied: attr.get("copied")?.as_bool()?,
        };
        schedule.suits(problem).then_some(schedule)
    }

    /// Returns true if code can be generated for this schedule.
    pub(super) fn suits(&self, problem: &Problem) -> bool {
        let (rows, lanes) = (self.rows_of(problem), self.lanes_of(problem));
        let form = match self.form {
            Form::Panels => true,
            Form::Stream => lanes.stride == 1,
            Form::Dots => rows.along_k == 1 && lanes.along_k == 1 && self.vectors.count_ones() == 1,
        };
        let tile = self.width.count_ones() == 1 && self.width <= 64 && self.vectors <= 8 && self.rows <= 32;
        form && tile && self.local(problem) <= LOCAL
    }
}

/// `a / b`, rounded up; both are positive.
pub(crate) fn ceiling(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// Splits `size` into `count` nearly equal parts of at most `most`: (count, larger part, number of larger parts). The smaller parts are one
/// shorter.
pub fn parts(size: i64, most: i64) -> (i64, i64, i64) {
    let count = ceiling(size, most).max(1);
    let large = ceiling(size, count);
    (count, large, size - count * (large - 1))
}

/// Number of registers used for sums. With narrow vectors, a processor has only half as many registers, which leaves no more than these.
fn accumulators(width: i64) -> i64 {
    if width >= 16 { 28 } else { 12 }
}

/// The maximum number of rows in a tile that has `vectors` vectors.
pub(super) fn most_rows(width: i64, vectors: i64) -> i64 {
    match (width >= 16, vectors) {
        (true, 1) => 24,
        (true, 2) => 12,
        (true, 3) => 8,
        _ => accumulators(width) / vectors,
    }
}

/// Cycles of a tile per step along k.
fn tile_cycles(rows: i64, vectors: i64) -> f64 {
    let (multiply, load) = ((rows * vectors) as f64 / 2.0, (rows + vectors) as f64 / 2.0);
    multiply.max(load + 0.5).max(4.0)
}

/// Cycles of all tiles of `rows` lines per step along k and per panel.
pub(super) fn group_cycles(rows: i64, most: i64, vectors: i64) -> f64 {
    if rows == 0 {
        return 0.0;
    }
    let (count, large, many) = parts(rows, most);
    many as f64 * tile_cycles(large, vectors) + (count - many) as f64 * tile_cycles(large - 1, vectors)
}

/// The schedule for a product, with vectors of `vector_bits` bits. `None` if generated code would not be worthwhile.
pub fn choose(problem: &Problem, vector_bits: i64) -> Option<Schedule> {
    let width = vector_bits / 32;
    if width < 8 || !problem.is_regular() {
        return None;
    }
    let right = problem.rhs.size >= problem.lhs.size;
    let (few, many) = (problem.side(!right), problem.side(right));
    // With panels, the second vector would be half empty.
    if few.size <= width + width / 2 && few.along_k == 1 && many.along_k == 1 && problem.k >= width {
        return Some(dots(problem, right, width));
    }
    if few.size < width && many.stride == 1 && many.size >= width {
        return Some(stream(problem, right, width));
    }
    let candidates = [true, false].into_iter().map(|right| panels(problem, right, width, 1..=3));
    candidates.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, schedule)| schedule)
}

pub(super) fn dots(problem: &Problem, right: bool, width: i64) -> Schedule {
    let few = problem.side(!right).size;
    let most = match (width >= 16, few) {
        (true, ..=8) => 8,
        (true, _) => 6,
        (false, _) => 3,
    };
    let (_, rows, _) = parts(few, most);
    let columns = match (width >= 16, rows) {
        (true, ..=3) => 8,
        (true, 4..=6) => 4,
        (true, _) | (false, 3) => 2,
        (false, _) => 4,
    };
    let depth = problem.k;
    Schedule { form: Form::Dots, right, width, vectors: columns, rows, group: few, depth, chunk: COLUMNS, copied: false }
}

pub(super) fn stream(problem: &Problem, right: bool, width: i64) -> Schedule {
    let few = problem.side(!right).size;
    let (_, rows, _) = parts(few, most_rows(width, 2));
    let fitting = ceiling(problem.side(right).size, width);
    // Enough sums to keep the multipliers busy; more would only enlarge the remainder.
    let most = if rows == 1 { 8 } else { 4 };
    let vectors = (accumulators(width) / rows).clamp(1, most).min(fitting);
    let (tile, lines) = (vectors * width, problem.side(right).size);
    let share = ceiling(ceiling(lines, PIECES / 2).clamp(STREAM.0, STREAM.1), tile).min(STREAM_BYTES / (4 * few * tile)).max(1);
    let chunk = (share * tile).min(ceiling(lines, tile) * tile);
    let depth = if few == 1 { STREAMS.0 } else { STREAMS.1 }.min(problem.k);
    Schedule { form: Form::Stream, right, width, vectors, rows, group: few, depth, chunk, copied: false }
}

/// Returns true if lines at this stride fall into so few sets of an innermost cache (64 sets of 8 lines) that the lines of one tile would
/// evict each other.
fn collides(stride: i64, rows: i64) -> bool {
    let lines = stride * 4 / 64;
    if lines == 0 || stride * 4 % 64 != 0 {
        return false;
    }
    let sets = 64 / gcd(lines, 64);
    rows >= sets * 8
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The best panel schedule with `vectors` vectors in a tile: its cost in cycles, and the schedule.
pub(super) fn panels(problem: &Problem, right: bool, width: i64, vectors: RangeInclusive<i64>) -> (f64, Schedule) {
    let (rows, lanes, k) = (problem.side(!right), problem.side(right), problem.k);
    let pieces = ceiling(k, DEPTH);
    let depth = if pieces == 1 { k } else { ceiling(ceiling(k, pieces), 16) * 16 };
    let mut best: Option<(f64, Schedule)> = None;
    for vectors in vectors {
        let tall = most_rows(width, vectors);
        let panels = ceiling(lanes.size, vectors * width);
        let copied = panels > 1 && (rows.along_k != 1 || collides(rows.stride, tall));
        let fitting = if copied { COPIED } else { GROUP_BYTES / 4 };
        let limit = (fitting / (depth + COPY_GAP)).clamp(width, GROUP);
        // Blocks that must be transposed are transposed by squares.
        let step = if right { tall } else { width };
        let mut groups: Vec<i64> = (1..=limit / step).map(|i| i * step).collect();
        if rows.size <= limit || groups.is_empty() {
            groups = vec![rows.size.min(limit)];
        }
        for group in groups {
            let cycles = (rows.size / group) as f64 * group_cycles(group, tall, vectors) + group_cycles(rows.size % group, tall, vectors);
            let compute = cycles * panels as f64 * k as f64;
            // A larger group reads the panels fewer times.
            let traffic = ceiling(rows.size, group) as f64 * (panels * vectors * width * k) as f64 * 0.02;
            let cost = compute + traffic;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                // With copied rows, chunks that only serve threads would mean more copies.
                let groups = ceiling(rows.size, group) * problem.repeats();
                let chunk = if copied { panels } else { ceiling(panels, ceiling(PIECES, groups)) };
                let fitting = if pieces == 1 { panels } else { SUM_BYTES / (4 * group * vectors * width) };
                let chunk = chunk.min(fitting).clamp(1, panels);
                best = Some((cost, Schedule { form: Form::Panels, right, width, vectors, rows: tall, group, depth, chunk, copied }));
            }
        }
    }
    let (compute, schedule) = best.unwrap_or_else(|| (f64::INFINITY, stream(problem, right, width)));
    let repeats = problem.repeats() as f64;
    let once = if lanes.is_shared() { 1.0 } else { repeats };
    let move_cost = |side: &Side| match (side.stride, side.along_k) {
        (1, _) => 0.15,
        (_, 1) => 0.45,
        _ => 2.0,
    };
    let pack = once * (lanes.size * k) as f64 * move_cost(lanes);
    let chunks = ceiling(schedule.panels(problem), schedule.chunk) as f64;
    let copy = if schedule.copied {
        repeats * chunks * (rows.size * k) as f64 * if rows.along_k == 1 || rows.stride == 1 { 0.15 } else { 2.0 }
    } else {
        0.0
    };
    let turn = if right { 0.0 } else { 0.3 * repeats * (rows.size * lanes.size) as f64 };
    (repeats * compute + pack + copy + turn, schedule)
}

/// The longest supported sum: it is accumulated in one f32 after another, where a library adds partial sums.
const LONGEST: i64 = 8192;
/// The shortest supported sum: a shorter one is hardly a matrix product.
const SHORTEST: i64 = 8;

/// The maximum number of lines of the smaller operand that make code worthwhile regardless of the layout: a library's vectors would be half
/// empty.
const FEW_LINES: i64 = 15;
/// The maximum number of elements of the larger operand up to which code is as fast as a library, for at most 4 lines and for more. A
/// larger operand does not stay in the second-level cache, so that with k across it only the rate of reading counts.
const CACHED: (i64, i64) = (256 * 1024, 64 * 1024);
/// The shortest sum that pays for transposing blocks of sums.
const PAYING: i64 = 512;
/// The longest sum without cache collisions and pieces.
const SIMPLE: i64 = 1024;

/// The properties of a product that are known before it has strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Number of repetitions.
    pub repeats: i64,
    /// Lines of the left operand, columns of the right one, length of the sums.
    pub sizes: (i64, i64, i64),
    /// True if both operands are contiguous along k, as in a layer's `x @ weight.T`.
    pub dotted: bool,
    /// True if following operations can be fused, beyond a bias.
    pub followed: bool,
}

/// Returns true if code is expected to be at least as fast as the library's call and the operations that follow it.
///
/// Speedups measured on one core with AVX-512 against torch 2.15's MKL, for layers with bias:
/// - Up to 15 lines: 1.1 to 2.2. With k across the larger operand: 1.0 to 1.5 if that is cached and 0.85 to 1.0 if not, both at the rate of
///   memory.
/// - Up to 128 lines: 1.0 to 1.2 with sums of 512 and more; 0.9 with sums of 192 to 384; 0.8 to 0.95 with sums of 1,536 and more.
/// - With `gelu` or a residual: 256 lines 1.0 to 1.09, 512 lines 0.93 to 1.1, but whole models of such layers took 1.02 to 1.08 times as
///   long.
/// - Squares of 512 to 1,024: 0.85.
///
/// If the library uses narrower vectors than the generated code, the code always wins. Speedups measured on one core of Zen 5: squares of
/// 256 to 1,024 2.1, 2,048 1.7; 4 to 16 lines 1.6 to 3.9; one line, which is memory bound, 1.0 to 1.4. Not measured on processors that
/// compute vectors of 512 bits by halves, such as Zen 4.
pub fn is_worth_generating(outline: Outline, vector_bits: i64, library_bits: i64) -> bool {
    let Outline { sizes: (m, n, k), dotted, followed, .. } = outline;
    let few = m.min(n);
    let suits = match () {
        () if library_bits < vector_bits => true,
        () if few <= FEW_LINES => dotted || followed || m.max(n) * k <= if few <= 4 { CACHED.0 } else { CACHED.1 },
        () if !dotted => false,
        () if followed => few <= 160,
        () => few <= 64 || (few <= 128 && (PAYING..=SIMPLE).contains(&k)),
    };
    suits && is_possible(outline, vector_bits)
}

/// Returns true if code may be tried at all: it would be as exact as the library's, and might be competitive.
pub fn is_possible(Outline { repeats, sizes: (m, n, k), .. }: Outline, vector_bits: i64) -> bool {
    vector_bits >= 256 && repeats > 0 && m.min(n) > 0 && m.max(n) >= 8 && (SHORTEST..=LONGEST).contains(&k)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(m: i64, n: i64, k: i64) -> Problem {
        Problem::of(0, (&[m, k], &[k, 1]), (&[k, n], &[1, k])).expect("fits")
    }
    fn plain(m: i64, n: i64, k: i64) -> Problem {
        Problem::of(0, (&[m, k], &[k, 1]), (&[k, n], &[n, 1])).expect("fits")
    }

    #[test]
    fn weights_are_read_where_they_are() {
        let problem = linear(128, 768, 768);
        let schedule = choose(&problem, 512).expect("vectors");
        assert_eq!((schedule.form, schedule.right), (Form::Panels, false));
        assert_eq!(schedule.scratch(&problem), 128 * 768);
        assert_eq!(schedule.group % 16, 0);
    }

    #[test]
    fn few_rows_take_what_lies_side_by_side() {
        assert_eq!(choose(&linear(4, 768, 768), 512).map(|s| s.form), Some(Form::Dots));
        assert_eq!(choose(&plain(4, 768, 768), 512).map(|s| s.form), Some(Form::Stream));
    }

    #[test]
    fn rows_at_powers_of_two_are_copied() {
        assert!(choose(&plain(1024, 1024, 1024), 512).expect("vectors").copied);
        assert!(!choose(&linear(128, 768, 768), 512).expect("vectors").copied);
    }

    #[test]
    fn without_vectors_nothing_is_generated() {
        assert_eq!(choose(&linear(128, 768, 768), 0), None);
    }

    #[test]
    fn what_is_chosen_passes_its_own_check() {
        let sizes = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 49, 100, 197, 768, 1000, 3072];
        for bits in [256, 512] {
            let at = |i: usize| sizes[i % sizes.len()];
            for i in 0..sizes.len().pow(3) {
                let (m, n, k) = (at(i), at(i / sizes.len()), at(i / sizes.len().pow(2)));
                for problem in [linear(m, n, k), plain(m, n, k)] {
                    let schedule = choose(&problem, bits).expect("vectors");
                    assert!(schedule.suits(&problem), "{problem:?} {schedule:?}");
                }
            }
        }
    }

    #[test]
    fn parts_differ_by_one() {
        assert_eq!(parts(48, 14), (4, 12, 4));
        assert_eq!(parts(64, 14), (5, 13, 4));
        assert_eq!(parts(3, 14), (1, 3, 1));
    }
}
