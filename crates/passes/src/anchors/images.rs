//! The memory that a convolution reads from its images: a copy padded with zeros, and panels of windows.
//!
//! A panel's lanes are positions of the result. Positions of one row are also adjacent in the image once columns are sorted (see
//! [`super::windows::Windows::column`]). So a vector is read in as many parts as it crosses rows, with a mask for each.

use dynamlir_dialect::ir::{Type, Value};

use super::{
    choose::ceiling,
    code::Code,
    convolve::{Loops, Panel, Piece},
};

/// Prefetch distance in channels.
const AHEAD: i64 = 4;

/// Reads one vector of a panel, given its index in the panel and the address of the tap for the first window.
type Reader<'a> = &'a dyn Fn(Code, i64, Value) -> Value;
/// Copies all taps, using a reader.
type Copier<'a> = &'a dyn Fn(Code, Reader<'_>);

impl Loops<'_> {
    /// Copies the images into zeros, with columns sorted by their remainder modulo the stride.
    pub(super) fn copy(&self, code: Code, copy: Value) {
        let (w, [height, width]) = (self.w, self.w.copied());
        let [_, plane, row, _] = w.source();
        let (channels, stride) = (w.groups * w.channels, w.strides[1]);
        code.share_out(w.images * channels, self.parallel, |code, number| {
            let to = code.times(number, plane);
            let zero = code.number(copy.ty().element(), 0.0);
            code.times_do(height * row, |code, i| code.store(zero, copy, code.add(to, i)));
            let (image, channel) = (code.quotient(number, channels), code.remainder(number, channels));
            let from = code.add(code.times(image, w.input[0]), code.times(channel, w.input[1]));
            let first = code.plus(to, w.padding[0] * row);
            code.times_do(w.size[0], |code, y| {
                let (from, to) = (code.add(from, code.times(y, w.input[2])), code.add(first, code.times(y, row)));
                for sort in 0..stride {
                    // The first column of the image with this remainder, and its place in the copy.
                    let skipped = (sort - w.padding[1]).rem_euclid(stride);
                    let place = sort * width + (skipped + w.padding[1]) / stride;
                    let (from, to) = (code.plus(from, skipped * w.input[3]), code.plus(to, place));
                    code.times_do(ceiling(w.size[1] - skipped, stride), |code, x| {
                        let value = code.load(self.images, code.add(from, code.times(x, stride * w.input[3])));
                        code.store(value, copy, code.add(to, x));
                    });
                }
            });
        });
    }

    /// Copies the windows of all panels of a piece, for `channels` channels from `from` on; panels are `pitch` apart.
    pub(super) fn pack_all(&self, code: Code, piece: &Piece, (from, channels): (Value, Value), (packed, pitch): (Value, i64)) {
        let [image, channel, _, column] = self.w.source();
        let start = code.add(piece.channels, code.times(from, channel));
        let all = (piece.panels.0, piece.panels.1, 1);
        let place = |code: Code, number: Value| {
            let panel = self.panel(code, number);
            let at = code.times(code.sub(number, piece.panels.0), pitch);
            (panel, code.add(start, code.times(panel.image, image)), at)
        };
        // Without windows, the positions of all panels are adjacent. They are copied channel by channel, which reads memory in order.
        let is_line = column == 1 && self.w.taps() == 1 && self.w.lines().1 == 1 && self.s.chunk > 1 && self.s.images == 1;
        if is_line && self.w.positions() >= self.s.lanes() {
            code.for_each((code.index(0), channels, 1), &[], |code, c, _| {
                code.for_each(all, &[], |code, number, _| {
                    let (panel, start, at) = place(code, number);
                    let (start, at) = (code.add(start, code.times(c, channel)), code.add(at, code.times(c, self.s.lanes())));
                    self.line(code, panel, (start, channel), (packed, at));
                    Vec::new()
                });
                Vec::new()
            });
            return;
        }
        code.for_each(all, &[], |code, number, _| {
            let (panel, start, at) = place(code, number);
            self.pack(code, panel.first, (start, channels), (packed, at));
            Vec::new()
        });
    }

    /// Copies one channel's elements of a panel, and prefetches those of a later channel.
    fn line(&self, code: Code, panel: Panel, (start, channel): (Value, i64), (packed, at): (Value, Value)) {
        let (width, lanes) = (self.s.width, self.s.lanes());
        let start = code.add(start, panel.first);
        let copy = |code: Code, valid: i64| {
            for vector in 0..self.s.vectors {
                let some = (valid - vector * width).clamp(0, width);
                let (from, to) = (code.plus(start, vector * width), code.plus(at, vector * width));
                let value = match some {
                    0 => code.zero(Type::vector(&[width], self.images.ty().element())),
                    _ => code.load_vector(self.images, from, (width, some)),
                };
                code.store_vector(value, packed, to);
                code.prefetch(self.images, code.plus(from, AHEAD * channel));
            }
        };
        let rest = self.w.positions() - (self.panels() - 1) * lanes;
        if rest == lanes {
            copy(code, lanes);
        } else {
            code.choose(code.is_below(panel.number, self.panels() - 1), |code| copy(code, lanes), |code| copy(code, rest));
        }
    }

    /// Copies the windows of a panel's positions from `first` on, for `channels` channels.
    fn pack(&self, code: Code, first: Value, (start, channels): (Value, Value), (packed, at): (Value, Value)) {
        let (w, lanes) = (self.w, self.s.lanes());
        let [_, channel, row, _] = w.source();
        let each = |code: Code, read: Reader<'_>| {
            code.for_each((code.index(0), channels, 1), &[], |code, c, _| {
                let start = code.add(start, code.times(c, channel));
                let into = code.add(at, code.times(c, w.taps() * lanes));
                code.times_do(w.window[0], |code, y| {
                    let start = code.add(start, code.times(y, w.dilation[0] * row));
                    let into = code.add(into, code.times(y, w.window[1] * lanes));
                    for x in 0..w.window[1] {
                        for vector in 0..self.s.vectors {
                            let value = read(code, vector, code.plus(start, w.column(x)));
                            code.store_vector(value, packed, code.plus(into, x * lanes + vector * self.s.width));
                        }
                    }
                });
                Vec::new()
            });
        };
        self.readers(code, first, &each);
    }

    /// Chooses how a panel's vectors are read: as adjacent elements, row by row, or one by one. `each` copies with a reader for the vectors
    /// of a tap.
    fn readers(&self, code: Code, first: Value, each: Copier<'_>) {
        let (w, width, lanes) = (self.w, self.s.width, self.s.lanes());
        let (length, ..) = w.lines();
        if w.is_gathered() {
            let offsets: Vec<_> = (0..self.s.vectors).map(|vector| self.offsets(code, code.plus(first, vector * width))).collect();
            return each(code, &|code, vector, at| code.gather(self.images, at, offsets[vector as usize]));
        }
        let by_line = |code: Code| {
            let ways: Vec<_> = (0..self.s.vectors).map(|vector| self.lines_of(code, code.plus(first, vector * width))).collect();
            each(code, &|code, vector, at| {
                let zero = code.zero(Type::vector(&[width], self.images.ty().element()));
                let read = |value, &(corner, mask): &(Value, Value)| code.load_some(self.images, code.add(at, corner), mask, value);
                ways[vector as usize].iter().fold(zero, read)
            });
        };
        if length < lanes {
            return by_line(code);
        }
        let (line, x) = (code.quotient(first, length), code.remainder(first, length));
        let neighbours = |code: Code| {
            let corner = code.add(self.line_start(code, line), x);
            each(code, &|code, vector, at| code.load_vector(self.images, code.plus(code.add(at, corner), vector * width), (width, width)));
        };
        code.choose(code.is_below(x, length - lanes + 1), neighbours, by_line);
    }

    /// The start of a line of adjacent positions; lines are counted over the images that share panels.
    fn line_start(&self, code: Code, line: Value) -> Value {
        let (_, lines, step) = self.w.lines();
        if self.s.images == 1 {
            return code.times(line, step);
        }
        let (image, line) = (code.quotient(line, lines), code.remainder(line, lines));
        code.add(code.times(image, self.w.source()[0]), code.times(line, step))
    }

    /// The lines that contain a vector's positions. For each: the distance of the vector's first element from the first window's corner, as
    /// if the whole vector were in that line, and the elements that are in it. Positions past the last are not in any line.
    fn lines_of(&self, code: Code, first: Value) -> Vec<(Value, Value)> {
        let (w, width) = (self.w, self.s.width);
        let (length, ..) = w.lines();
        let (line, x) = (code.quotient(first, length), code.remainder(first, length));
        let positions = self.s.images * w.positions();
        let there = code.sub(code.at_least(code.index(positions), first), first);
        let mut begin = code.index(0);
        let mut found = Vec::new();
        for number in 0..=ceiling(width - 1, length) {
            // The line ends where x reaches the next multiple of its length.
            let end = code.at_least(code.sub(code.at_least(code.index((number + 1) * length), x), x), begin);
            let end = code.least(end, there);
            let mask = code.between(begin, end, width);
            let start = self.line_start(code, code.plus(line, number));
            found.push((code.plus(code.add(start, x), -number * length), mask));
            begin = end;
        }
        found
    }

    /// The distances of a vector's positions from the first window's corner; positions past the last repeat the last one's.
    fn offsets(&self, code: Code, first: Value) -> Value {
        let (w, width) = (self.w, self.s.width);
        let [image, _, row, column] = w.source();
        let b = code.b;
        let int = Type::int(code.ctx(), 32);
        let constant = |value: i64| b.int(Type::vector(&[width], int), value);
        let positions = b.addi(code.broadcast(b.index_cast(first, int), width), code.steps(1, width, width));
        let positions = b.minui(positions, constant(self.s.images * w.positions() - 1));
        let number = (self.s.images > 1).then(|| b.divui(positions, constant(w.positions())));
        let positions = if number.is_some() { b.remui(positions, constant(w.positions())) } else { positions };
        let (y, x) = (b.divui(positions, constant(w.result[1])), b.remui(positions, constant(w.result[1])));
        let along = |value: Value, step: i64| b.muli(value, constant(step));
        let place = b.addi(along(y, w.strides[0] * row), along(x, column));
        number.map_or(place, |number| b.addi(place, along(number, image)))
    }
}
