//! Depthwise convolutions, in which each output channel has its own input channel, and maxima of windows.
//!
//! ```text
//! for each image, channel, band of rows:   (shared out among threads)
//!     copy what its windows cover into zeros
//!     for each vector of positions: add up taps, or take the largest
//!     epilogue
//! ```
//! The copy groups rows and columns by their remainder modulo the stride. So, for any stride, the elements that one tap reads for all
//! windows are one line of memory, row after row of the copy. Sums are computed along that line; those at the ends of its rows are
//! discarded.

use dynamlir_dialect::ir::Value;

use super::{
    choose::ceiling,
    code::Code,
    convolve::Loops,
    epilogue::{self, Block, Sums},
    plane::Plane,
};

/// The maximum number of taps that are unrolled.
const UNROLLED: i64 = 25;

/// A thread's buffers.
struct Buffers {
    /// The input covered by the windows, grouped by residue class.
    copy: Value,
    /// The sums along the line, and the sums of the positions alone.
    line: Value,
    sums: Value,
}

/// A band of an image's result.
struct Band {
    image: Value,
    channel: Value,
    /// Its first row, and the number of rows.
    first: Value,
    rows: i64,
}

impl Loops<'_> {
    /// Emits the whole convolution.
    pub(super) fn planes(&self, code: Code) {
        let (w, plane) = (self.w, Plane::of(self.w, self.s));
        let bands = ceiling(w.result[0], plane.rows);
        let rest = w.result[0] - (bands - 1) * plane.rows;
        code.share_out(w.images * w.groups * bands, self.parallel, |code, i| {
            let (number, others) = (code.remainder(i, bands), code.quotient(i, bands));
            let (image, channel) = (code.quotient(others, w.groups), code.remainder(others, w.groups));
            let element = self.images.ty().element();
            let local = |elements: i64| code.local(element, elements);
            let buffers = Buffers { copy: local(plane.copy()), line: local(plane.line()), sums: local(plane.sums()) };
            let first = code.times(number, plane.rows);
            let band = |rows: i64| Band { image, channel, first, rows };
            if bands == 1 || rest == plane.rows {
                self.band(code, &plane, &buffers, &band(rest));
            } else {
                let is_whole = code.is_below(number, bands - 1);
                code.choose(
                    is_whole,
                    |code| self.band(code, &plane, &buffers, &band(plane.rows)),
                    |code| self.band(code, &plane, &buffers, &band(rest)),
                );
            }
        });
    }

    fn band(&self, code: Code, plane: &Plane, buffers: &Buffers, band: &Band) {
        self.sort(code, plane, buffers.copy, band);
        self.add_taps(code, plane, buffers, band);
        let width = self.s.width;
        let positions = self.w.result[1];
        // Elements written past the end of a row are overwritten by the next row.
        code.times_do(band.rows, |code, y| {
            let (from, to) = (code.times(y, plane.pitch), code.times(y, positions));
            code.times_do(ceiling(positions, width), |code, x| {
                let x = code.times(x, width);
                let value = code.load_vector(buffers.line, code.add(from, x), (width, width));
                code.store_vector(value, buffers.sums, code.add(to, x));
            });
        });
        let right = (code.times(band.first, positions), band.rows * positions);
        let block = Block { outer: vec![band.image], left: (band.channel, 1), right };
        epilogue::apply(code, self.kernel, &block, Sums { memory: buffers.sums, from: None, strides: (right.1, 1) });
    }

    /// Copies the rows and columns that the band's windows cover, and [`Self::nothing`] outside the image.
    fn sort(&self, code: Code, plane: &Plane, copy: Value, band: &Band) {
        let w = self.w;
        let nothing = self.nothing(code);
        code.times_do(plane.copy() / self.s.width, |code, i| code.store_vector(nothing, copy, code.times(i, self.s.width)));
        let image = code.add(code.times(band.image, w.input[0]), code.times(band.channel, w.input[1]));
        // The rows of the image that are covered; the first would be `padding` rows further up.
        let padding = code.index(w.padding[0]);
        let start = code.times(band.first, w.strides[0]);
        let inside = |row: Value| code.sub(code.at_least(row, padding), padding);
        let (from, behind) = (inside(start), code.at_most(inside(code.plus(start, plane.met(band.rows))), w.size[0]));
        code.for_each((from, behind, 1), &[], |code, y, _| {
            let row = code.sub(code.plus(y, w.padding[0]), start);
            let place = self.place(code, plane, row);
            let from = code.add(image, code.times(y, w.input[2]));
            for sort in 0..w.strides[1] {
                let skipped = (sort - w.padding[1]).rem_euclid(w.strides[1]);
                let at = sort * plane.columns_apart() + (skipped + w.padding[1]) / w.strides[1];
                // Columns at the right may not be covered by any window.
                let columns = ceiling(w.size[1] - skipped, w.strides[1]).min(plane.pitch - (skipped + w.padding[1]) / w.strides[1]);
                let (from, to) = (code.plus(from, skipped * w.input[3]), code.plus(place, at));
                code.times_do(columns.max(0), |code, x| {
                    let value = code.load(self.images, code.add(from, code.times(x, w.strides[1] * w.input[3])));
                    code.store(value, copy, code.add(to, x));
                });
            }
            Vec::new()
        });
    }

    /// The neutral element of the sum or the maximum.
    fn nothing(&self, code: Code) -> Value {
        let number = if self.weights.is_some() { 0.0 } else { f64::NEG_INFINITY };
        code.broadcast(code.number(self.images.ty().element(), number), self.s.width)
    }

    /// The start of one of the covered rows in the copy.
    fn place(&self, code: Code, plane: &Plane, row: Value) -> Value {
        let stride = self.w.strides[0];
        let sort = code.times(code.remainder(row, stride), plane.rows_apart());
        code.add(sort, code.times(code.quotient(row, stride), plane.pitch))
    }

    /// Computes sums along the line, several vectors at once.
    fn add_taps(&self, code: Code, plane: &Plane, buffers: &Buffers, band: &Band) {
        let (w, width) = (self.w, self.s.width);
        let (rounds, vectors) = plane.rounds(band.rows);
        let weights = code.times(band.channel, w.taps());
        code.times_do(rounds, |code, round| {
            let first = code.times(round, vectors * width);
            let tap = |code: Code, weight: Value, from: Value, sums: &mut [Value]| {
                let weight = self.weights.map(|memory| code.broadcast(code.load(memory, weight), width));
                for (vector, sum) in sums.iter_mut().enumerate() {
                    let value = code.load_vector(buffers.copy, code.plus(from, vector as i64 * width), (width, width));
                    *sum = match weight {
                        Some(weight) => code.fma(weight, value, *sum),
                        None => code.largest(value, *sum),
                    };
                }
            };
            let row = |code: Code, weights: Value, from: Value, sums: &mut [Value]| {
                for x in 0..w.window[1] {
                    tap(code, code.plus(weights, x), code.plus(from, plane.column(x)), sums);
                }
            };
            let mut sums = vec![self.nothing(code); vectors as usize];
            if w.taps() <= UNROLLED {
                for y in 0..w.window[0] {
                    row(code, code.plus(weights, y * w.window[1]), code.plus(first, plane.row(y)), &mut sums);
                }
            } else {
                sums = code.for_each((code.index(0), code.index(w.window[0]), 1), &sums, |code, y, sums| {
                    let mut sums = sums.to_vec();
                    let place = self.place(code, plane, code.times(y, w.dilation[0]));
                    row(code, code.add(weights, code.times(y, w.window[1])), code.add(first, place), &mut sums);
                    sums
                });
            }
            for (vector, &sum) in sums.iter().enumerate() {
                code.store_vector(sum, buffers.line, code.plus(first, vector as i64 * width));
            }
        });
    }
}
