//! Exponentials of scores, and the factors that turn them into weights. A few lines are processed at a time, since a single line would be
//! bound by its own latency.

use dynamlir_dialect::{
    ir::Value,
    upstream::{arith::CmpF, vector::Reduction},
};

use super::code::Code;

/// Number of lines processed together.
const TOGETHER: i64 = 4;

/// Exponentials of lower numbers are subnormal or nearly so, which costs the processor a hundred cycles each; relative to 1 they are
/// negligible.
const LOWEST: f64 = -87.0;

/// The mask added to scores.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    pub(super) memory: Value,
    /// Element 0 of the first line.
    pub(super) base: Value,
    /// Strides of lines and of elements.
    pub(super) strides: [i64; 2],
}

/// Lines of scores.
pub(super) struct Lines {
    /// The scores, replaced in place by their exponentials.
    pub(super) scores: Value,
    /// Receives each line's factor: the reciprocal of the sum, or 1 if all scores are masked.
    pub(super) sums: Value,
    /// Stride between lines.
    pub(super) pitch: i64,
    /// Number of scores in a line.
    pub(super) keys: i64,
    /// Elements of a vector.
    pub(super) width: i64,
    /// The factor that scores are multiplied by.
    pub(super) scale: f64,
    pub(super) mask: Option<Mask>,
    /// The first line's position, if scores past a line's own position are masked out (causal).
    pub(super) place: Option<Value>,
}

/// Processes `count` lines.
pub(super) fn apply(code: Code, lines: &Lines, count: i64) {
    let whole = count / TOGETHER;
    if whole > 0 {
        code.times_do(whole, |code, i| lines.some(code, code.times(i, TOGETHER), TOGETHER));
    }
    if count % TOGETHER > 0 {
        lines.some(code, code.index(whole * TOGETHER), count % TOGETHER);
    }
}

impl Lines {
    /// Returns true if a line is shorter than a vector of scores. For such lines, unless a mask is added, eager takes the largest number
    /// that is not NaN, and gives zeros if all are NaN. In longer lines NaN is the largest.
    fn skips_nan(&self) -> bool {
        self.mask.is_none() && self.keys < self.width
    }

    fn splat(&self, code: Code, value: f64) -> Value {
        code.broadcast(code.number(self.scores.ty().element(), value), self.width)
    }

    fn some(&self, code: Code, first: Value, count: i64) {
        let lines: Vec<Value> = (0..count).map(|i| code.plus(first, i)).collect();
        let starts: Vec<Value> = lines.iter().map(|&line| code.times(line, self.pitch)).collect();
        let element = self.scores.ty().element();
        let lowest = self.splat(code, f64::NEG_INFINITY);
        let largest = self.along(code, &vec![lowest; lines.len()], |code, i, from, valid, seen| {
            let at = code.add(starts[i], from);
            let score = self.score(code, (lines[i], at, from), valid);
            code.store_vector(score, self.scores, at);
            let number = if self.skips_nan() { code.b.select(equals(code, score, score), score, lowest) } else { score };
            code.largest(number, seen)
        });
        let (nothing, largest): (Vec<Value>, Vec<Value>) = largest
            .into_iter()
            .map(|value| {
                let value = code.broadcast(code.reduced(Reduction::Maximum, value), self.width);
                // If all scores are masked, the exponentials must be 0 rather than NaN.
                let masked = equals(code, value, lowest);
                (masked, code.b.select(masked, self.splat(code, 0.0), value))
            })
            .unzip();
        let zero = self.splat(code, 0.0);
        let sums = self.along(code, &vec![zero; lines.len()], |code, i, from, _, sum| {
            let at = code.add(starts[i], from);
            let score = code.load_vector(self.scores, at, (self.width, self.width));
            let distance = code.b.subf(score, largest[i]);
            let weight = self.weight(code, distance);
            let weight = if self.skips_nan() { code.b.select(nothing[i], zero, weight) } else { weight };
            code.store_vector(weight, self.scores, at);
            code.b.addf(sum, weight)
        });
        for (&line, sum) in lines.iter().zip(sums) {
            let sum = code.reduced(Reduction::Add, sum);
            let one = code.number(element, 1.0);
            let nothing = equals(code, sum, code.number(element, 0.0));
            let sum = code.b.select(nothing, one, sum);
            code.store(code.b.divf(one, sum), self.sums, line);
        }
    }

    /// Iterates along the lines, vector by vector, passing on the previous vector's result; the last vector may be partial.
    fn along(&self, code: Code, start: &[Value], each: impl Fn(Code, usize, Value, i64, Value) -> Value) -> Vec<Value> {
        let whole = self.keys / self.width * self.width;
        let all = |code: Code, from: Value, valid: i64, seen: &[Value]| {
            seen.iter().enumerate().map(|(i, &value)| each(code, i, from, valid, value)).collect::<Vec<_>>()
        };
        let seen =
            code.for_each((code.index(0), code.index(whole), self.width), start, |code, from, seen| all(code, from, self.width, seen));
        if whole == self.keys { seen } else { all(code, code.index(whole), self.keys - whole, &seen) }
    }

    /// Loads the scores from `at` on, scaled and masked. Lanes past the end hold the lowest value.
    fn score(&self, code: Code, (line, at, from): (Value, Value, Value), valid: i64) -> Value {
        let width = self.width;
        let score = code.load_vector(self.scores, at, (width, width));
        let scale = self.splat(code, self.scale);
        let lowest = || self.splat(code, f64::NEG_INFINITY);
        let only = |score: Value, there: Value| code.b.select(there, score, lowest());
        let mut score = match self.mask {
            None => code.b.mulf(score, scale),
            Some(mask) => {
                let [lines, elements] = mask.strides;
                let place = code.add(code.add(mask.base, code.times(line, lines)), code.times(from, elements));
                let added = match elements {
                    0 => code.broadcast(code.load(mask.memory, place), width),
                    1 => code.load_vector(mask.memory, place, (width, valid)),
                    // The last elements may be repeated: those lanes are unused.
                    _ => code.gather(mask.memory, place, code.steps(elements, width, valid)),
                };
                code.fma(score, scale, added)
            }
        };
        if let Some(first) = self.place {
            let own = code.plus(code.add(first, line), 1);
            let there = code.sub(code.at_least(own, from), from);
            score = only(score, code.first_lanes(there, width));
        }
        if valid < width { only(score, code.mask(width, valid)) } else { score }
    }

    /// The exponential; 0 below [`LOWEST`].
    fn weight(&self, code: Code, distance: Value) -> Value {
        let lowest = self.splat(code, LOWEST);
        let below = code.b.cmpf(CmpF::Olt, distance, lowest);
        let select = |yes: Value, no: Value| code.b.select(below, yes, no);
        let weight = code.b.exp(select(lowest, distance));
        select(self.splat(code, 0.0), weight)
    }
}

fn equals(code: Code, a: Value, b: Value) -> Value {
    code.b.cmpf(CmpF::Oeq, a, b)
}
