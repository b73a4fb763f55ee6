//! The description of an attention, and the schedule of its loops.

use dynamlir_dialect::{
    ir::{Attr, Ctx, Op},
    ops::AttentionOp,
};

use super::{
    choose::{LOCAL, PIECES, ceiling, most_rows},
    reaches_by_i32,
};

/// The minimum number of query lines in a piece that only serves threads: each piece copies all keys.
const FEWEST_LINES: i64 = 32;
/// The maximum number of floats in a piece's scores.
const SCORES: i64 = 40 * 1024;
/// The maximum number of keys, and of elements in a line: longer ones have not been measured.
const MOST_KEYS: i64 = 2048;
const LONGEST: i64 = 256;
/// The maximum number of keys for which code is faster.
const MOST_WORTH: i64 = 384;

/// The attention of some heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Sizes of the batch and heads dimensions.
    pub outer: [i64; 2],
    /// Number of query lines.
    pub queries: i64,
    /// Number of lines of keys, and of values.
    pub keys: i64,
    /// Length of a line of queries or keys.
    pub depth: i64,
    /// Length of a line of values.
    pub width: i64,
    /// The strides along batch, heads, lines and elements: of queries, keys, values.
    pub strides: [[i64; 4]; 3],
    /// The strides of the mask; its elements correspond to keys.
    pub mask: Option<[i64; 4]>,
    /// True if a query attends only to keys up to its own position.
    pub causal: bool,
}

impl Heads {
    /// Describes a `dynamo.attention` whose operands have these strides.
    pub fn of(op: Op, strides: &[Vec<i64>]) -> Option<Self> {
        let shape = |i: usize| <[i64; 4]>::try_from(op.operand(i).ty().shape()).ok();
        let four = |i: usize| <[i64; 4]>::try_from(strides.get(i)?.as_slice()).ok();
        let (query, key, value) = (shape(0)?, shape(1)?, shape(2)?);
        // Heads that share keys (grouped-query attention) are left to the library.
        if key[..2] != query[..2] || value[..2] != query[..2] || key[2..] != [value[2], query[3]] {
            return None;
        }
        let mask = if op.num_operands() > 3 { Some(four(3)?) } else { None };
        if mask.is_some_and(|strides| !reaches_by_i32(&value[2..3], &strides[3..])) {
            return None;
        }
        let strides = [four(0)?, four(1)?, four(2)?];
        let forward = strides.iter().chain(&mask).flatten().all(|&stride| stride >= 0);
        let heads = Self {
            outer: [query[0], query[1]],
            queries: query[2],
            keys: value[2],
            depth: query[3],
            width: value[3],
            strides,
            mask,
            causal: AttentionOp::cast(op)?.causal(),
        };
        let sizes = [heads.outer[0], heads.outer[1], heads.queries, heads.keys, heads.depth, heads.width];
        (forward && sizes.iter().all(|&size| size > 0)).then_some(heads)
    }
    /// Number of multiplications.
    pub fn work(&self) -> i64 {
        [self.outer[0], self.outer[1], self.queries, self.keys]
            .iter()
            .fold(self.depth + self.width, |work, &size| work.saturating_mul(size))
    }
    /// The number of elements spanned by an operand with lines and elements of these sizes, from its first element to its last.
    pub fn extent(&self, strides: &[i64; 4], lines: i64, elements: i64) -> i64 {
        let sizes = [self.outer[0], self.outer[1], lines, elements];
        1 + sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<i64>()
    }
}

/// The schedule of attention's loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadSchedule {
    /// Elements of a vector.
    pub width: i64,
    /// Query lines in a piece of work.
    pub block: i64,
    /// Vectors of keys in a tile of scores.
    pub keys: i64,
    /// Vectors of values in a tile of results.
    pub values: i64,
}

impl HeadSchedule {
    const FIELDS: [&'static str; 4] = ["block", "keys", "values", "width"];

    /// Returns the schedule as an attribute of the kernel.
    pub fn to_attr(&self, ctx: Ctx) -> Attr {
        let values = [self.block, self.keys, self.values, self.width];
        let fields: Vec<_> = Self::FIELDS.into_iter().zip(values).map(|(name, value)| (name, Attr::i64(ctx, value))).collect();
        Attr::dict(ctx, &fields)
    }
    /// Reads the attribute, which may contain anything, and checks it against the heads.
    pub fn from_attr(attr: Attr, heads: &Heads) -> Option<Self> {
        let mut values = [0; 4];
        for (value, name) in values.iter_mut().zip(Self::FIELDS) {
            *value = attr.get(name)?.as_i64().filter(|&value| value > 0 && value <= 1 << 24)?;
        }
        let [block, keys, values, width] = values;
        let schedule = Self { width, block: block.min(heads.queries), keys, values };
        let tile = width.count_ones() == 1 && width <= 64 && keys <= 4 && values <= 4;
        (tile && schedule.local(heads) <= LOCAL).then_some(schedule)
    }

    /// Keys in a panel.
    pub fn key_lanes(&self) -> i64 {
        self.width * self.keys
    }
    /// Elements of a value line in a panel.
    pub fn value_lanes(&self) -> i64 {
        self.width * self.values
    }
    /// Number of scores of a query, including the padding of the last panel.
    pub fn scores(&self, heads: &Heads) -> i64 {
        ceiling(heads.keys, self.key_lanes()) * self.key_lanes()
    }
    /// Number of elements in a line of results, including the padding of the last panel.
    pub fn results(&self, heads: &Heads) -> i64 {
        ceiling(heads.width, self.value_lanes()) * self.value_lanes()
    }
    /// Elements of a panel of keys, or of values that are not contiguous.
    pub fn panel(&self, heads: &Heads) -> i64 {
        let values = if heads.strides[2][3] == 1 { 0 } else { heads.keys * self.value_lanes() };
        (heads.depth * self.key_lanes()).max(values)
    }
    /// Floats in a thread's buffers: scores, results, a panel, and each query's sum.
    pub fn local(&self, heads: &Heads) -> i64 {
        let each = self.scores(heads).saturating_add(self.results(heads) + 1);
        self.block.min(heads.queries).saturating_mul(each).saturating_add(self.panel(heads))
    }
    /// The maximum number of rows in a tile that has `vectors` vectors.
    pub fn rows(&self, vectors: i64) -> i64 {
        if vectors == 4 && self.width >= 16 { 6 } else { most_rows(self.width, vectors).max(1) }
    }
}

/// Returns true if code is expected to be at least as fast as the library's call.
///
/// Speedups measured on one core with AVX-512 against torch 2.15's flash attention, for lines of 64: 128 keys 1.3, with `causal` 1.6; 197
/// keys 1.2; 512 keys 1.04; 1024 keys 0.7.
pub fn is_worth_generating(heads: &Heads) -> bool {
    heads.keys <= MOST_WORTH
}

/// The schedule, with vectors of `vector_bits` bits. `None` if there is none.
pub fn choose(heads: &Heads, vector_bits: i64) -> Option<HeadSchedule> {
    let width = if vector_bits >= 256 { vector_bits / 32 } else { 1 };
    let lanes = |vectors: i64| ceiling(heads.keys, vectors * width) * vectors * width;
    // Prefers the fewest empty lanes, then the most vectors.
    let keys = [3, 2, 1].into_iter().min_by_key(|&vectors| (lanes(vectors), -vectors))?;
    let vectors = ceiling(heads.width, width);
    let most = if width >= 16 { 4 } else { 3 };
    let values = ceiling(vectors, ceiling(vectors, most));
    let one = HeadSchedule { width, block: 1, keys, values };
    let fitting = (SCORES / (one.scores(heads) + one.results(heads))).max(1);
    let outer = heads.outer[0] * heads.outer[1];
    let shared = ceiling(heads.queries, ceiling(PIECES, outer)).max(FEWEST_LINES);
    let most = fitting.min(shared).min(heads.queries);
    // Blocks of nearly equal size.
    let block = ceiling(heads.queries, ceiling(heads.queries, most));
    let schedule = HeadSchedule { block, ..one };
    let limits = heads.keys <= MOST_KEYS && heads.depth <= LONGEST && heads.width <= LONGEST;
    (limits && schedule.local(heads) <= LOCAL).then_some(schedule)
}
